"""Mistakes in a gold SELECT, as a line and a sentence: sqlglot's own, and those that it passes over and Spark would not.

Belongs here: names that nothing has, in a parsed SELECT. Does not: reading it (lineage), or files.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp
from sqlglot.errors import OptimizeError

from lakehouse_assets.checks.sql_places import line_of
from lakehouse_assets.contracts.columns import unfit_name

Schema = Mapping[str, Mapping[str, str]]
Mistake = tuple[int, str]
# Types that have fields; an unknown one may have them.
NESTED = ("STRUCT", "MAP", "ARRAY", "OBJECT", "VARIANT", "UNKNOWN", "NULL", "NESTED")
# Spark's own, of a query with grouping sets.
VIRTUAL = frozenset({"grouping__id"})


def with_excepted(tree: exp.Query) -> exp.Query:
    """A copy whose SELECTs name what their `* except (…)` leaves out, too, so that it is looked up as any column is."""
    copy = tree.copy()
    for select in copy.find_all(exp.Select):
        for item in list(select.expressions):
            star = item.this if isinstance(item, exp.Column) else item
            for left_out in (star.args.get("except_") or ()) if isinstance(star, exp.Star) else ():
                named = left_out.copy()
                if isinstance(item, exp.Column) and isinstance(named, exp.Column) and not named.table:
                    named.set("table", item.args["table"].copy())
                select.append("expressions", named)
    return copy


def mistake_of(error: OptimizeError, tree: exp.Query, schema: Schema, inputs: Sequence[str]) -> Mistake:
    """What sqlglot could not resolve. Its own positions are those of the text; without one, the name is looked for."""
    text = str(error).splitlines()[0]
    place = re.search(r"\(?Line: (\d+), Col: \d+\)?", text)
    told = text.replace(place[0], "").strip(" .") if place else text.strip(" .")
    found = re.search(r"'([^']*)'|: (.*)$", told)
    name = (found[1] or found[2] or "") if found else ""
    line = int(place[1]) if place else line_of(_named(tree, name, schema) or tree)
    holders = [table for table in inputs if name.lower() in {column.lower() for column in schema[table]}]
    if "Ambiguous" in told or (len(holders) > 1 and "for table" not in told):
        return line, f"column {name!r} is in {' and in '.join(holders)}; write whose it is, as {holders[0]}.{name}"
    return line, f"{told}; none of {', '.join(inputs)} has it"


def _named(tree: exp.Query, name: str, schema: Schema) -> exp.Expr | None:
    """The name of the first column that is called so and whose own table does not have it."""
    tables = {table.alias_or_name.lower(): table.name for table in tree.find_all(exp.Table)}
    columns = [c for c in tree.find_all(exp.Column) if c.table and c.name.lower() == name.lower()]
    lacking = [c for c in columns if name.lower() not in schema.get(tables.get(c.table.lower(), ""), {})]
    return next((column.this for column in [*lacking, *columns]), None)


def passed_over(typed: exp.Query) -> Iterator[Mistake]:
    """What is wrong in a qualified and typed SELECT although sqlglot says nothing."""
    for column in typed.find_all(exp.Column):
        if not column.table and _unresolved(column):
            yield (
                line_of(column),
                f"Column '{column.name}' could not be resolved: HAVING sees the inputs and the output columns",
            )
        kind = column.type
        if isinstance(column.parent, exp.Dot) and column.parent.this is column and kind and kind.this.name not in NESTED:
            field = column.parent.expression.name
            is_a = kind.sql(dialect="spark").lower()
            yield line_of(column), f"Column '{column.name}' is {is_a} and has no field {field!r}"


def _unresolved(column: exp.Column) -> bool:
    """Whether a column without a table, in HAVING, is no output column either: sqlglot looks up none that stands there."""
    around = column.find_ancestor(exp.Having, exp.Select, exp.Lambda)
    if not isinstance(around, exp.Having) or not isinstance(around.parent, exp.Select):
        return False
    return column.name.lower() not in {name.lower() for name in around.parent.named_selects} | VIRTUAL


def star_mistakes(tree: exp.Query) -> Iterator[Mistake]:
    """`*` with what Spark does not have."""
    for star in tree.find_all(exp.Star):
        for what in ("replace", "rename"):
            if star.args.get(what):
                yield line_of(star), f"Spark has no `* {what} (…)`; write `* except (…)` and the column beside it"


def output_mistakes(tree: exp.Query, outputs: Sequence[exp.Expr]) -> Iterator[Mistake]:
    """Output columns that gold cannot keep: two of one name, one without a name, and names of the lakehouse's own."""
    stars = [star for column in tree.selects for star in column.find_all(exp.Star)]
    counted = Counter(column.alias_or_name.lower() for column in outputs)
    for column in reversed(outputs):
        name = column.alias_or_name
        line = _line_of_output(column, stars)
        if counted[name.lower()] > 1:
            yield line, f"two columns are called {name!r}: give one another name with `as`"
    for column in outputs:
        name = column.alias_or_name
        line = _line_of_output(column, stars)
        if re.fullmatch(r"_col_\d+", name) and name.lower() not in _written(tree):
            text = column.this.sql(dialect="spark") if isinstance(column, exp.Alias) else name
            yield line, f"the column {text} has no name: give it one with `as`"
        if why := unfit_name(name):
            way_out = f", or leave it out of the star: `* except ({name})`" if stars else ""
            yield line, f"column {name!r}: {why}; give it another name with `as`{way_out}"


def _written(tree: exp.Query) -> set[str]:
    return {part.name.lower() for part in tree.find_all(exp.Identifier)}


def _line_of_output(column: exp.Expr, stars: Sequence[exp.Star]) -> int:
    written = any("line" in part.meta for part in column.walk())
    return line_of(column if written or not stars else stars[-1])
