"""Mistakes in SQL that its columns show when the YAML is loaded: unknown names, and conditions that cannot be true.

Belongs here: parsed SQL and the batch's columns → certain mistakes. Does not: what SQL may say (guard), or the columns of an
expression (text).
"""

import re
from collections.abc import Collection, Mapping

from sqlglot import exp

from lakehouse_assets.checks.batch_columns import BATCH_COLUMNS
from lakehouse_assets.checks.types import TIMES, family

# Spark's own column of a query with grouping sets.
VIRTUAL = frozenset({"grouping__id"})
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg)
NEVER_TRUE = frozenset({"number", "binary", *TIMES})


def no_condition(tree: exp.Expr, types: Mapping[str, str]) -> str:
    """Return that an expression is no condition over columns of these types; "" if it may be one.

    >>> from sqlglot import parse_one
    >>> no_condition(parse_one("a + 1", dialect="spark"), {})
    "'a + 1' is arithmetic, and no condition"
    >>> no_condition(parse_one("a > 1", dialect="spark"), {"a": "int"})
    ''
    """
    bare, kind = tree.unnest(), ""
    if isinstance(bare, ARITHMETIC):
        kind = "arithmetic"
    elif isinstance(bare, exp.Column) and not bare.table:
        column_type = next((kind for name, kind in types.items() if name.lower() == bare.name.lower()), "")
        kind = column_type if family(column_type) in NEVER_TRUE else ""
    return f"{tree.sql(dialect='spark')!r} is {kind}, and no condition" if kind else ""


def unknown_columns(tree: exp.Select, columns: Collection[str]) -> list[str]:
    """Return the columns of a query over `batch` (from `parse_select`) that neither the batch nor the query itself has.

    Only certain mistakes: a name that occurs anywhere else in the query counts as right.
    """
    if _has_implicit_names(tree):
        return []
    batch = {name.lower() for name in columns} | {*BATCH_COLUMNS} | VIRTUAL
    sources, of_batch = _sources(tree)
    references = list(tree.find_all(exp.Column))
    # Aliases, columns of aliases, parameters of lambdas: every identifier that is no column's.
    defined = {i.name.lower() for i in tree.find_all(exp.Identifier) if not isinstance(i.parent, exp.Column)}
    # A field of a struct names the column that is made of it.
    defined |= {column.name.lower() for column in references if column.table and column.parts[0].name.lower() not in sources}
    unknown = set()
    for column in references:
        first = column.parts[0].name.lower()
        if isinstance(column.this, exp.Star):
            if first not in sources:
                return []  # a struct's fields: their names are not in the query
            continue
        qualified = len(column.parts) > 1 and first in sources and first not in batch
        name = column.parts[1].name if qualified else column.parts[0].name
        available = batch if first in of_batch and qualified else batch | defined
        # Spark's name for a column without an alias, such as `count(1)`, is no plain name.
        if name.lower() not in available and re.fullmatch(r"[^\W\d_]\w*", name):
            unknown.add(name if qualified or len(column.parts) == 1 else ".".join(part.name for part in column.parts))
    return sorted(unknown)


def _has_implicit_names(tree: exp.Select) -> bool:
    """Return whether columns have names that are not in the query, as those of `explode`. Any unknown function may do so."""
    if tree.find(exp.UDTF):
        return True
    return any(isinstance(column, exp.Anonymous) for select in tree.find_all(exp.Select) for column in select.expressions)


def _sources(tree: exp.Select) -> tuple[set[str], set[str]]:
    """Return the names that can qualify a column: all of them, and those that always mean the batch."""
    batch, others = set(), {alias.alias.lower() for alias in tree.find_all(exp.Subquery, exp.CTE) if alias.alias}
    for table in tree.find_all(exp.Table):
        alias = table.args.get("alias")
        is_batch = table.name.lower() == "batch" and not (alias and alias.columns)
        (batch if is_batch else others).add(table.alias_or_name.lower())
    return batch | others, batch - others
