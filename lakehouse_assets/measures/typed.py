"""From bronze's strings to declared types, as SQL text: null tokens, casts, zones, expressions.

Belongs here: one declared column's value and how its cast is known to have failed. Does not: checks, or writing.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from lakehouse_assets.checks.sql_text import identifier, literal, parse_expression
from lakehouse_assets.checks.types import time_alone
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.table import TableSpec

TEXT = ("string", "binary")
# As a cast reads them, but for a time of day alone.
WITH_A_DATE = "yyyy-M-d[['T'][' ']H:m[:s][.SSSSSS][.SSSSS][.SSSS][.SSS][.SS][.S][' '][XXX][XX][X]]"
ZONED = "(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"


@dataclass(frozen=True)
class TypedColumn:
    """``value``: SQL of the typed value. ``raw``: the text.

    ``failed``: SQL, true where a given text could not be cast, over a frame that has both, as ``<name>`` and ``_raw_<name>``:
    a row that has a value costs one comparison. Only an ``expr``, whose result may be NULL by itself, is evaluated again.
    """

    name: str
    value: str
    failed: str
    raw: str


def typed_columns(spec: TableSpec, available: Collection[str]) -> list[TypedColumn]:
    """Each declared column over a bronze frame that has the columns ``available``; one that it lacks is NULL."""
    # Spark knows no letter case: a column that was spelled otherwise once is the same in bronze.
    lower = {name.lower() for name in available}
    return [_typed(spec, name, column, lower) for name, column in spec.columns.items()]


def _typed(spec: TableSpec, name: str, column: Column, available: Collection[str]) -> TypedColumn:
    stored = safe_name(spec.source_column(name))
    text = identifier(stored) if stored.lower() in available else "CAST(NULL AS STRING)"
    value, again = identifier(name), identifier(f"_raw_{name}")
    cast = _cast(spec, column, _given(spec, text))
    given = f"({_given(spec, again)}) IS NOT NULL"
    if column.type not in TEXT:
        # An empty field is no value of a number or a date; for text it is one. (`nullif` would trim every row's text.)
        given = f"coalesce(trim({_given(spec, again)}) <> '', FALSE)"
    if column.expr is None:
        failed = "false" if column.type == "string" else f"({value} IS NULL AND {given})"
        return TypedColumn(name, cast, failed, text)
    before = _cast(spec, column, _given(spec, again))
    failed = f"({given} AND (({before}) IS NULL OR ({value} IS NULL AND ({_substitute(column.expr, before)}) IS NOT NULL)))"
    return TypedColumn(name, f"try_cast({_substitute(column.expr, cast)} AS {column.type})", failed, text)


def _given(spec: TableSpec, text: str) -> str:
    if not spec.source.nulls:
        return text
    tokens = ", ".join(literal(token) for token in spec.source.nulls)
    return f"CASE WHEN {text} IN ({tokens}) THEN NULL ELSE {text} END"


def _cast(spec: TableSpec, column: Column, given: str) -> str:
    if column.type == "string":
        return given
    if column.nested:
        return _from_json(column.type, given)
    if column.type == "binary":
        return f"try_to_binary({given}, 'base64')"
    # A format takes the text as it stands; Spark's own casts trim it, and read an empty one as no value.
    trimmed = f"nullif(trim({given}), '')"
    if column.type == "date" and column.format:
        return f"CAST(try_to_timestamp({trimmed}, {literal(column.format)}) AS DATE)"
    if column.type != "timestamp":
        return f"try_cast({given} AS {column.type})"
    moment = f"CASE WHEN {time_alone(given)} THEN NULL ELSE try_cast({given} AS timestamp) END"
    if column.format:
        moment = f"try_to_timestamp({trimmed}, {literal(column.format)})"
    if spec.source.timezone == "UTC":
        return moment
    local = f"to_utc_timestamp({moment}, {literal(spec.source.timezone)})"
    return f"CASE WHEN trim({given}) RLIKE {literal(ZONED)} THEN {moment} ELSE {local} END"


def _from_json(kind: str, given: str) -> str:
    """NULL for a text that is no JSON of this type, whatever its depth. Spark itself gives what it could read of it, and says
    that it could not read all only of a struct: so the text is wrapped in one. That it is one JSON value is asked first.
    """
    schema = literal(f"struct<v: {kind}, _bad: string>")
    options = f"map('columnNameOfCorruptRecord', '_bad', 'timestampFormat', {literal(WITH_A_DATE)})"
    read = f"from_json(concat('{{\"v\":', {given}, '}}'), {schema}, {options})"
    return f"CASE WHEN try_parse_json({given}) IS NOT NULL AND {read}._bad IS NULL THEN {read}.v END"


def _substitute(expression: str, value: str) -> str:
    """Put the typed value where the expression says ``value``; both were parsed, nothing is spliced unparsed."""
    typed = exp.Paren(this=parse_expression(value, "typed value"))
    tree = parse_expression(expression, "expr").transform(
        lambda node: typed.copy() if isinstance(node, exp.Column) and node.name == "value" else node
    )
    return f"({tree.sql(dialect='spark')})"
