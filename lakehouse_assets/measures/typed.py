"""From bronze's strings to declared types, as SQL text: null tokens, casts, zones, expressions.

Belongs here: one declared column's value and how its cast is known to have failed. Does not: checks, or writing.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from lakehouse_assets.checks.sql_text import identifier, literal, parse_expression
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.table import TableSpec

ZONED = "(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"


@dataclass(frozen=True)
class TypedColumn:
    """``value``: SQL of the typed value. ``failed``: SQL, true where a given text could not be cast. ``raw``: the text."""

    name: str
    value: str
    failed: str
    raw: str


def typed_columns(spec: TableSpec, available: Collection[str]) -> list[TypedColumn]:
    """Each declared column over a bronze frame that has the columns ``available``; one that it lacks is NULL."""
    return [_typed(spec, name, column, available) for name, column in spec.columns.items()]


def _typed(spec: TableSpec, name: str, column: Column, available: Collection[str]) -> TypedColumn:
    stored = safe_name(spec.source_column(name))
    text = identifier(stored) if stored in available else "CAST(NULL AS STRING)"
    given = text
    if spec.source.nulls:
        tokens = ", ".join(literal(token) for token in spec.source.nulls)
        given = f"CASE WHEN {text} IN ({tokens}) THEN NULL ELSE {text} END"
    if column.type not in ("string", "binary"):
        # An empty field is no value of a number or a date; for text it is one.
        given = f"nullif(trim({given}), '')"
    cast = _cast(spec, column, given)
    if column.expr is None:
        return TypedColumn(name, cast, f"(({given}) IS NOT NULL AND ({cast}) IS NULL)", text)
    result = _substitute(column.expr, cast)
    value = f"try_cast({result} AS {column.type})"
    failed = f"(({given}) IS NOT NULL AND (({cast}) IS NULL OR (({result}) IS NOT NULL AND ({value}) IS NULL)))"
    return TypedColumn(name, value, failed, text)


def _cast(spec: TableSpec, column: Column, given: str) -> str:
    if column.type == "string":
        return given
    if column.type == "binary":
        return f"try_to_binary({given}, 'base64')"
    if column.type == "date" and column.format:
        return f"CAST(try_to_timestamp({given}, {literal(column.format)}) AS DATE)"
    if column.type != "timestamp":
        return f"try_cast({given} AS {column.type})"
    moment = f"try_to_timestamp({given}, {literal(column.format)})" if column.format else f"try_cast({given} AS timestamp)"
    if spec.source.timezone == "UTC":
        return moment
    local = f"to_utc_timestamp({moment}, {literal(spec.source.timezone)})"
    return f"CASE WHEN ({given}) RLIKE {literal(ZONED)} THEN {moment} ELSE {local} END"


def _substitute(expression: str, value: str) -> str:
    """Put the typed value where the expression says ``value``; both were parsed, nothing is spliced unparsed."""
    typed = exp.Paren(this=parse_expression(value, "typed value"))
    tree = parse_expression(expression, "expr").transform(
        lambda node: typed.copy() if isinstance(node, exp.Column) and node.name == "value" else node
    )
    return f"({tree.sql(dialect='spark')})"
