"""What a gold SELECT reads: its input tables, and which input columns each of its columns comes from.

Belongs here: reading SQL (sqlglot), and line and text of each mistake, also of those that sqlglot accepts and Spark would not.
Does not: running the SQL.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp, parse, parse_one
from sqlglot.errors import OptimizeError, ParseError, SqlglotError
from sqlglot.lineage import lineage
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from lakehouse_assets.checks.sql.bounds import limit_searched_texts
from lakehouse_assets.checks.sql.guard import UnfitError, guard_query, line_of, require_java_patterns
from lakehouse_assets.contracts.columns import unfit_name
from lakehouse_assets.errors import ConfigError

Schema = Mapping[str, Mapping[str, str]]
# Types that have fields; an unknown one may have them.
NESTED = ("STRUCT", "MAP", "ARRAY", "OBJECT", "VARIANT", "UNKNOWN", "NULL", "NESTED")
# Spark's own column in a query with grouping sets.
VIRTUAL = frozenset({"grouping__id"})


@dataclass(frozen=True)
class GoldQuery:
    """``inputs``: table names as the SQL writes them. ``types``: output columns with their Spark types, or `unknown`.
    ``lineage``: ``{output column: {(input table, column), …}}``. ``reads``: every input column, also in conditions and joins.
    """

    sql: str
    inputs: tuple[str, ...]
    types: Mapping[str, str]
    lineage: Mapping[str, frozenset[tuple[str, str]]]
    reads: frozenset[tuple[str, str]] = frozenset()

    @property
    def limited(self) -> str:
        """The SQL that runs. In it, a text that is too long for a pattern is an error."""
        return limit_searched_texts(parse_one(self.sql, dialect="spark")).sql(dialect="spark")


def read_gold(sql: str, file: str, schema: Schema, *, is_recorded: bool = False) -> GoldQuery:
    """Return the query of a SELECT over the tables of ``schema`` (``{table: {column: type}}``). Raises ConfigError, naming file
    and line, for SQL that is not one SELECT, or that names an unknown table or column. ``is_recorded``: a decision has the SQL;
    its patterns need not compile.
    """
    try:
        tree = _parse_select(sql)
        if not is_recorded:
            require_java_patterns(tree, "gold")
        return _read(tree, dict(schema))
    except UnfitError as error:
        raise ConfigError(f"{file}:{error.line}: {error}") from None


def _read(tree: exp.Query, schema: dict[str, Any]) -> GoldQuery:
    inputs = _inputs(tree, schema)
    _refuse_stars(tree)
    named = _with_excepted(tree)
    try:
        qualify(named.copy(), schema=schema, dialect="spark", validate_qualify_columns=True)
        qualified = qualify(tree.copy(), schema=schema, dialect="spark", validate_qualify_columns=True)
        typed = annotate_types(qualified, schema=schema, dialect="spark")
    except OptimizeError as error:
        raise _unresolved_name(error, named, schema, inputs) from None
    _refuse_unresolved(typed)
    _refuse_outputs(tree, typed.selects)
    outputs = {column.alias_or_name: column for column in typed.selects}
    origins: dict[str, frozenset[tuple[str, str]]] = {}
    for name in outputs:
        try:
            node = lineage(name, qualified.copy(), schema=schema, dialect="spark")
        except SqlglotError as error:
            raise UnfitError(f"{name}: its lineage cannot be read: {error}", 1) from None
        leaves = [leaf for leaf in node.walk() if not leaf.downstream and isinstance(leaf.expression, exp.Table)]
        origins[name] = frozenset((leaf.expression.name, leaf.name.split(".")[-1].strip('`"')) for leaf in leaves)
    types = {name: _type(column) for name, column in outputs.items()}
    columns = [(scope.sources.get(c.table), c.name) for scope in traverse_scope(qualified) for c in scope.columns]
    reads = frozenset((source.name, name) for source, name in columns if isinstance(source, exp.Table))
    return GoldQuery(tree.sql(dialect="spark", pretty=True), tuple(sorted(inputs)), types, origins, reads)


def _parse_select(sql: str) -> exp.Query:
    try:
        trees = [tree for tree in parse(sql, dialect="spark") if tree is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        text = f"{first.get('description', error)} near {first.get('highlight', '')!r}"
        raise UnfitError(text, first.get("line") or 1) from None
    except (SqlglotError, RecursionError) as error:
        raise UnfitError(f"the SQL cannot be parsed: {str(error).splitlines()[0][:200]}", 1) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise UnfitError("a gold table is exactly one SELECT", 1)
    guard_query(trees[0], sql, "gold")
    return trees[0]


def _inputs(tree: exp.Query, schema: Schema) -> list[str]:
    """Return the tables of the lakehouse that the SELECT reads. Raises UnfitError for another table."""
    tables, names = ", ".join(sorted(schema)), {cte.alias for cte in tree.find_all(exp.CTE)}
    inputs: dict[str, None] = {}
    for table in tree.find_all(exp.Table):
        if table.db or (table.name not in schema and table.name not in names):
            raise UnfitError(f"{table.sql(dialect='spark')}: no such table; there are {tables}", line_of(table))
        if table.name in schema:
            inputs[table.name] = None
    if not inputs:
        raise UnfitError(f"the SELECT reads no table of this lakehouse; there are {tables}", 1)
    return list(inputs)


def _type(column: exp.Expr) -> str:
    kind = column.type
    if kind is None or kind.is_type(exp.DataType.Type.UNKNOWN):
        return "unknown"
    return kind.sql(dialect="spark").lower()


def _with_excepted(tree: exp.Query) -> exp.Query:
    """Return a copy whose SELECTs also have the columns of their `* except (…)`, so that sqlglot resolves these names too."""
    copy = tree.copy()
    for select in copy.find_all(exp.Select):
        for item in list(select.expressions):
            star = item.this if isinstance(item, exp.Column) else item
            for excepted in (star.args.get("except_") or ()) if isinstance(star, exp.Star) else ():
                named = excepted.copy()
                if isinstance(item, exp.Column) and isinstance(named, exp.Column) and not named.table:
                    named.set("table", item.args["table"].copy())
                select.append("expressions", named)
    return copy


def _unresolved_name(error: OptimizeError, tree: exp.Query, schema: Schema, inputs: Sequence[str]) -> UnfitError:
    """Return the error of a name that sqlglot cannot resolve, at sqlglot's line, else at the line of the name."""
    text = str(error).splitlines()[0]
    location = re.search(r"\(?Line: (\d+), Col: \d+\)?", text)
    text = (text.replace(location[0], "") if location else text).strip(" .")
    match = re.search(r"'([^']*)'|: (.*)$", text)
    name = (match[1] or match[2] or "") if match else ""
    line = int(location[1]) if location else line_of(_column_name(tree, name, schema) or tree)
    holders = [table for table in inputs if name.lower() in {column.lower() for column in schema[table]}]
    if "Ambiguous" in text or (len(holders) > 1 and "for table" not in text):
        text = f"column {name!r} is in {' and in '.join(holders)}; write whose it is, as {holders[0]}.{name}"
        return UnfitError(text, line)
    return UnfitError(f"{text}; none of {', '.join(inputs)} has it", line)


def _column_name(tree: exp.Query, name: str, schema: Schema) -> exp.Expr | None:
    """Return the first column of this name whose own table lacks it; without one, the first column of this name."""
    tables = {table.alias_or_name.lower(): table.name for table in tree.find_all(exp.Table)}
    columns = [c for c in tree.find_all(exp.Column) if c.table and c.name.lower() == name.lower()]
    lacking = [c for c in columns if name.lower() not in schema.get(tables.get(c.table.lower(), ""), {})]
    return next((column.this for column in [*lacking, *columns]), None)


def _refuse_unresolved(typed: exp.Query) -> None:
    """Raise UnfitError for a column or field that sqlglot accepts although nothing has it."""
    for column in typed.find_all(exp.Column):
        if not column.table and _is_unknown_in_having(column):
            text = f"Column '{column.name}' could not be resolved: HAVING sees the inputs and the output columns"
            raise UnfitError(text, line_of(column))
        kind = column.type
        if isinstance(column.parent, exp.Dot) and column.parent.this is column and kind and kind.this.name not in NESTED:
            text = f"is {kind.sql(dialect='spark').lower()} and has no field {column.parent.expression.name!r}"
            raise UnfitError(f"Column '{column.name}' {text}", line_of(column))


def _is_unknown_in_having(column: exp.Column) -> bool:
    """Whether a column without a table is in HAVING, where sqlglot resolves nothing, and is no output column."""
    around = column.find_ancestor(exp.Having, exp.Select, exp.Lambda)
    if not isinstance(around, exp.Having) or not isinstance(around.parent, exp.Select):
        return False
    return column.name.lower() not in {name.lower() for name in around.parent.named_selects} | VIRTUAL


def _refuse_stars(tree: exp.Query) -> None:
    """Raise UnfitError for a `*` with an option that Spark lacks."""
    for star in tree.find_all(exp.Star):
        for option in ("replace", "rename"):
            if star.args.get(option):
                text = f"Spark has no `* {option} (…)`; write `* except (…)` and the column beside it"
                raise UnfitError(text, line_of(star))


def _refuse_outputs(tree: exp.Query, outputs: Sequence[exp.Expr]) -> None:
    """Raise UnfitError for output columns that gold cannot have: two of one name, one without a name, or a reserved one."""
    stars = [star for column in tree.selects for star in column.find_all(exp.Star)]
    written = {part.name.lower() for part in tree.find_all(exp.Identifier)}
    counts = Counter(column.alias_or_name.lower() for column in outputs)

    def line(column: exp.Expr) -> int:
        return line_of(column if not stars or any("line" in part.meta for part in column.walk()) else stars[-1])

    for column in reversed(outputs):
        if counts[column.alias_or_name.lower()] > 1:
            raise UnfitError(f"two columns are called {column.alias_or_name!r}: give one another name with `as`", line(column))
    for column in outputs:
        name = column.alias_or_name
        if re.fullmatch(r"_col_\d+", name) and name.lower() not in written:
            text = column.this.sql(dialect="spark") if isinstance(column, exp.Alias) else name
            raise UnfitError(f"the column {text} has no name: give it one with `as`", line(column))
        if why := unfit_name(name):
            way_out = f", or leave it out of the star: `* except ({name})`" if stars else ""
            raise UnfitError(f"column {name!r}: {why}; give it another name with `as`{way_out}", line(column))
