"""Columns that a query over `batch` names and that nothing has: found when the YAML is loaded, before Spark is asked.

Belongs here: names in a parsed query. Does not: what SQL may say (sql_text), or columns of a single expression (there too).
"""

import re
from collections.abc import Collection

from sqlglot import exp

# Columns of every batch beside its own; all that begin with _ are the lakehouse's, too.
OURS = frozenset({"p_extracted_at", "extraction_seq"})
# Spark's own, of a query with grouping sets.
VIRTUAL = frozenset({"grouping__id"})


def unknown_columns(tree: exp.Select, columns: Collection[str]) -> list[str]:
    """Columns of a query over `batch` (as `parse_select` gives it) that neither the batch has nor the query itself can have
    made. Only what is certainly wrong: a name that stands anywhere else in the query is taken for right.
    """
    if _names_by_itself(tree):
        return []
    batch = {name.lower() for name in columns} | OURS | VIRTUAL
    sources, of_batch = _sources(tree)
    named = list(tree.find_all(exp.Column))
    # Aliases, columns of aliases, parameters of lambdas: whatever is an identifier and not a column's.
    made = {i.name.lower() for i in tree.find_all(exp.Identifier) if not isinstance(i.parent, exp.Column)}
    # A field of a struct gives its name to the column that is made of it.
    made |= {column.name.lower() for column in named if column.table and column.parts[0].name.lower() not in sources}
    found = set()
    for column in named:
        first = column.parts[0].name.lower()
        if isinstance(column.this, exp.Star):
            if first not in sources:
                return []  # the fields of a struct, by names that nobody wrote
            continue
        qualified = len(column.parts) > 1 and first in sources and first not in batch
        name = column.parts[1].name if qualified else column.parts[0].name
        known = batch if first in of_batch and qualified else batch | made
        # What Spark calls a column that has no alias, as `count(1)`, is no plain name.
        if name.lower() not in known and re.fullmatch(r"[^\W\d_]\w*", name):
            found.add(name if qualified or len(column.parts) == 1 else ".".join(part.name for part in column.parts))
    return sorted(found)


def _names_by_itself(tree: exp.Select) -> bool:
    """Whether columns get names that do not stand in the query, as of `explode`; any unknown function could do so."""
    if tree.find(exp.UDTF):
        return True
    return any(isinstance(column, exp.Anonymous) for select in tree.find_all(exp.Select) for column in select.expressions)


def _sources(tree: exp.Select) -> tuple[set[str], set[str]]:
    """Names that can stand before a column's: all of them, and those that mean the batch wherever they stand."""
    batch, others = set(), {alias.alias.lower() for alias in tree.find_all(exp.Subquery, exp.CTE) if alias.alias}
    for table in tree.find_all(exp.Table):
        alias = table.args.get("alias")
        plain = table.name.lower() == "batch" and not (alias and alias.columns)
        (batch if plain else others).add(table.alias_or_name.lower())
    return batch | others, batch - others
