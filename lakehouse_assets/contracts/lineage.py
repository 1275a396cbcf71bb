"""What a gold SELECT reads: its input tables, and which input columns each of its columns comes from.

Belongs here: reading SQL (sqlglot). Does not: mistakes that sqlglot passes over (lineage_mistakes), or running it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp, parse, parse_one
from sqlglot.errors import OptimizeError, ParseError, SqlglotError
from sqlglot.lineage import lineage
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from lakehouse_assets.checks.sql_bounds import limited
from lakehouse_assets.checks.sql_guard import UnfitError, guard_query
from lakehouse_assets.checks.sql_places import line_of
from lakehouse_assets.contracts.lineage_mistakes import (
    Schema,
    mistake_of,
    output_mistakes,
    passed_over,
    star_mistakes,
    with_excepted,
)
from lakehouse_assets.errors import ConfigError


@dataclass(frozen=True)
class GoldQuery:
    """``inputs``: table names as the SQL writes them. ``types``: output columns and their Spark types as far as they follow
    from the SQL. ``lineage``: ``{output column: {(input table, column), …}}``. ``reads``: every column of an input that stands
    in the SQL, in a condition or a join too.
    """

    sql: str
    inputs: tuple[str, ...]
    types: Mapping[str, str]
    lineage: Mapping[str, frozenset[tuple[str, str]]]
    reads: frozenset[tuple[str, str]] = frozenset()

    @property
    def limited(self) -> str:
        """The SQL that runs: a pattern that meets a text too long for it is an error."""
        return limited(parse_one(self.sql, dialect="spark")).sql(dialect="spark")


def read_gold(sql: str, file: str, schema: Schema) -> GoldQuery:
    """Understand a SELECT over the tables of ``schema`` (``{table: {column: type}}``).

    Raises ConfigError, naming file and line, for SQL that is not one SELECT, or that names an unknown table or column.
    """
    tree = _one_select(sql, file)
    names = {cte.alias for cte in tree.find_all(exp.CTE)}
    inputs: list[str] = []
    for table in tree.find_all(exp.Table):
        name = table.name
        if table.db or (name not in schema and name not in names):
            known = ", ".join(sorted(schema))
            raise ConfigError(f"{file}:{line_of(table)}: {table.sql(dialect='spark')}: no such table; there are {known}")
        if name in schema and name not in inputs:
            inputs.append(name)
    if not inputs:
        raise ConfigError(f"{file}:1: the SELECT reads no table of this lakehouse; there are {', '.join(sorted(schema))}")
    _refuse(star_mistakes(tree), file)
    named = with_excepted(tree)
    try:
        qualify(named.copy(), schema=dict(schema), dialect="spark", validate_qualify_columns=True)
        qualified = qualify(tree.copy(), schema=dict(schema), dialect="spark", validate_qualify_columns=True)
        typed = annotate_types(qualified, schema=dict(schema), dialect="spark")
    except OptimizeError as error:
        line, text = mistake_of(error, named, schema, inputs)
        raise ConfigError(f"{file}:{line}: {text}") from None
    _refuse(passed_over(typed), file)
    _refuse(output_mistakes(tree, typed.selects), file)
    outputs = {column.alias_or_name: column for column in typed.selects}
    found: dict[str, frozenset[tuple[str, str]]] = {}
    for name in outputs:
        try:
            node = lineage(name, qualified.copy(), schema=dict(schema), dialect="spark")
        except SqlglotError as error:
            raise ConfigError(f"{file}:1: {name}: its lineage cannot be read: {error}") from None
        leaves = [leaf for leaf in node.walk() if not leaf.downstream and isinstance(leaf.expression, exp.Table)]
        found[name] = frozenset((leaf.expression.name, leaf.name.split(".")[-1].strip('`"')) for leaf in leaves)
    types = {name: _type(column) for name, column in outputs.items()}
    return GoldQuery(tree.sql(dialect="spark", pretty=True), tuple(sorted(inputs)), types, found, _reads(qualified))


def _reads(qualified: exp.Expr) -> frozenset[tuple[str, str]]:
    found = set()
    for scope in traverse_scope(qualified):
        for column in scope.columns:
            source = scope.sources.get(column.table)
            if isinstance(source, exp.Table):
                found.add((source.name, column.name))
    return frozenset(found)


def _one_select(sql: str, file: str) -> exp.Query:
    try:
        trees = [tree for tree in parse(sql, dialect="spark") if tree is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        raise ConfigError(
            f"{file}:{first.get('line', 1)}: {first.get('description', error)} near {first.get('highlight', '')!r}"
        ) from None
    except (SqlglotError, RecursionError) as error:
        raise ConfigError(f"{file}:1: it is not SQL that can be read: {str(error).splitlines()[0][:200]}") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise ConfigError(f"{file}:1: a gold table is one SELECT, and nothing else")
    try:
        guard_query(trees[0], sql, "gold")
    except UnfitError as error:
        raise ConfigError(f"{file}:{error.line}: {error}") from None
    return trees[0]


def _type(column: exp.Expr) -> str:
    kind = column.type
    if kind is None or kind.is_type(exp.DataType.Type.UNKNOWN):
        return "unknown"
    return kind.sql(dialect="spark").lower()


def _refuse(mistakes: Iterator[tuple[int, str]], file: str) -> None:
    for line, text in mistakes:
        raise ConfigError(f"{file}:{line}: {text}")
