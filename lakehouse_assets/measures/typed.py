"""From bronze's strings to declared types, as SQL text: null tokens, casts, zones, the calendar, expressions.

Belongs here: a declared column's value, and whether its cast failed. Does not: checks, or writing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from lakehouse_assets.checks.sql.text import identifier, literal, parse_expression
from lakehouse_assets.checks.types import is_time_of_day
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.number_marks import NumberMarks, is_number
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.spark_types import Array, Atom, Map, SparkType, Struct, parse_type
from lakehouse_assets.contracts.table_contract import TableContract

TEXT = ("string", "binary")
# The forms that a cast accepts, except a time of day alone.
WITH_A_DATE = "yyyy-M-d[['T'][' ']H:m[:s][.SSSSSS][.SSSSS][.SSSS][.SSS][.SS][.S][' '][XXX][XX][X]]"
STAND_IN = "_text_to_cast"  # of the text, in a cast that is parsed before the text is put in
ZONE_LETTERS = "VzOXxZ"  # in a format of Spark
# The years of Python's `datetime`, and so of pyarrow and deltalake: they cannot read a file with a value of another year. Spark
# has the years -290308 to 294247.
FIRST_AND_LAST = {
    "date": ("DATE'0001-01-01'", "DATE'9999-12-31'"),
    "timestamp": ("TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999Z'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"),
}


@dataclass(frozen=True)
class TypedColumn:
    """``value``: SQL of the typed value. ``raw``: the text.

    ``failed``: SQL over a frame with both, as ``<name>`` and ``_raw_<name>``; true if a text that is no null could not be cast.
    A row with a value costs one comparison. Only an ``expr``, whose result may be NULL by itself, is evaluated again.
    """

    name: str
    value: str
    failed: str
    raw: str


def typed_columns(spec: TableContract, available: Collection[str]) -> list[TypedColumn]:
    """Return each declared column over a bronze frame with the columns ``available``; a missing one is NULL."""
    # Spark ignores letter case: a column that once had another spelling is the same in bronze.
    lower = {name.lower() for name in available}
    return [_typed(spec, name, column, lower) for name, column in spec.columns.items()]


def _typed(spec: TableContract, name: str, column: Column, available: Collection[str]) -> TypedColumn:
    stored = [identifier(safe) for safe in map(safe_name, spec.source_columns(name)) if safe.lower() in available]
    read, text = _texts(spec, column, stored)
    value, again = identifier(name), identifier(f"_raw_{name}")
    cast = _cast(spec, column, read)
    has_text = f"({_without_nulls(spec, again)}) IS NOT NULL"
    if column.type not in TEXT:
        # An empty field is no value of a number or a date; for text it is one. (`nullif` would trim every row's text.)
        has_text = f"coalesce(trim({_without_nulls(spec, again)}) <> '', FALSE)"
    if column.expr is None:
        failed = "false" if column.type == "string" else f"({value} IS NULL AND {has_text})"
        return TypedColumn(name, cast, failed, text)
    result_of = partial(_expression, spec, column, column.expr)
    text_again = _without_nulls(spec, again)
    before = _cast(spec, column, text_again)
    failed = f"({has_text} AND (({before}) IS NULL OR ({value} IS NULL AND ({result_of(text_again)}) IS NOT NULL)))"
    result = f"try_cast({result_of(read)} AS {column.type})"
    return TypedColumn(name, within_calendar(column.type, result), failed, text)


def _texts(spec: TableContract, column: Column, stored: Sequence[str]) -> tuple[str, str]:
    """Return SQL of the text to cast, and of the raw text. Of several the first that is a value; if none is, NULL to cast, and
    the first that is not NULL as the raw text.
    """
    if len(stored) < 2:
        text = stored[0] if stored else "CAST(NULL AS STRING)"
        return _without_nulls(spec, text), text
    values = [_if_value(spec, column, text) for text in stored]
    return f"coalesce({', '.join(values)})", f"coalesce({', '.join(dict.fromkeys([*values, *stored]))})"


def _if_value(spec: TableContract, column: Column, text: str) -> str:
    conditions = [] if column.type in TEXT else [f"trim({text}) <> ''"]
    if spec.source.nulls:
        conditions.append(f"{text} NOT IN ({', '.join(map(literal, spec.source.nulls))})")
    return f"CASE WHEN {' AND '.join(conditions)} THEN {text} END" if conditions else text


def _without_nulls(spec: TableContract, text: str) -> str:
    if not spec.source.nulls:
        return text
    tokens = ", ".join(literal(token) for token in spec.source.nulls)
    return f"CASE WHEN {text} IN ({tokens}) THEN NULL ELSE {text} END"


def _cast(spec: TableContract, column: Column, text: str) -> str:
    return within_calendar(column.type, _spark_cast(spec, column, text), None if column.format or column.nested else text)


def _spark_cast(spec: TableContract, column: Column, text: str) -> str:
    if column.type == "string":
        return text
    if column.nested:
        return _from_json(column.type, text)
    if column.type == "binary":
        return f"try_to_binary({text}, 'base64')"
    # A format applies to the text unchanged. Spark's casts trim it, and read an empty one as NULL.
    trimmed = f"nullif(trim({text}), '')"
    if column.type == "date" and column.format:
        return f"CAST(try_to_timestamp({trimmed}, {literal(column.format)}) AS DATE)"
    if column.type != "timestamp":
        number = NumberMarks.of(spec.source).as_plain(text) if is_number(column.type) else text
        return f"try_cast({number} AS {column.type})"
    moment = f"CASE WHEN {is_time_of_day(text)} THEN NULL ELSE try_cast({text} AS timestamp) END"
    if column.format:
        moment = f"try_to_timestamp({trimmed}, {literal(column.format)})"
    if spec.source.timezone == "UTC":
        return moment
    local = f"to_utc_timestamp({moment}, {literal(spec.source.timezone)})"
    zoned = has_zone(text, column.format)
    return f"CASE WHEN {zoned} THEN {moment} ELSE {local} END"


def has_zone(text: str, form: str | None) -> str:
    """Return SQL that is true if a text, of this format if there is one, names the zone of its time.

    >>> has_zone("v", "yyyy-MM-dd'Z'"), has_zone("v", "dd.MM.yyyy HH:mm XXX")
    ('FALSE', 'TRUE')
    """
    if form is None:
        # After the hour of what a cast accepts, letters and signs are of a zone. Before it, they are of the date.
        return f"{text} RLIKE ':.*[A-Za-z+-]'"
    without, names_zone = _without_optional_zone(form)
    if names_zone:
        return "TRUE"
    # A text with an optional zone is none of the format without it.
    return "FALSE" if without == form else f"try_to_timestamp(nullif(trim({text}), ''), {literal(without)}) IS NULL"


def _without_optional_zone(form: str) -> tuple[str, bool]:
    """Return a format of Spark without its optional sections that have a zone, and whether what is left has one."""
    texts, zones, in_quotes = [""], [False], False
    for character in form:
        in_quotes ^= character == "'"
        if character == "[" and not in_quotes:
            texts.append("")
            zones.append(False)
        elif character == "]" and not in_quotes and len(texts) > 1:
            section, has_one = texts.pop(), zones.pop()
            texts[-1] += "" if has_one else f"[{section}]"
        else:
            texts[-1] += character
            zones[-1] |= character in ZONE_LETTERS and not in_quotes
    return texts[0], zones[0]


def _from_json(kind: str, text: str) -> str:
    """Return SQL: NULL for a text that is not one JSON value of this type, at any depth. Spark itself returns the part that it
    could read, and reports the rest only for a struct: so the text is wrapped in one.
    """
    schema = literal(f"struct<v: {kind}, _bad: string>")
    options = f"map('columnNameOfCorruptRecord', '_bad', 'timestampFormat', {literal(WITH_A_DATE)})"
    read = f"from_json(concat('{{\"v\":', {text}, '}}'), {schema}, {options})"
    return f"CASE WHEN try_parse_json({text}) IS NOT NULL AND {read}._bad IS NULL THEN {read}.v END"


def _expression(spec: TableContract, column: Column, expression: str, text: str) -> str:
    """Return a column's ``expression`` with the typed value in place of ``value``. All are parsed, nothing is spliced.

    ``text``: SQL of the text to cast. A cast repeats it often: it is put in after parsing, so its length is limited only once.
    """
    parsed_text = parse_expression(text, "text")
    cast = parse_expression(_cast(spec, column, identifier(STAND_IN)), "typed value")
    typed = exp.Paren(this=cast.transform(lambda node: parsed_text.copy() if _is_stand_in(node) else node))

    def typed_part(node: exp.Expr) -> exp.Expr:
        """Return the typed value in place of `value`, and its field in place of `value.field`."""
        if not isinstance(node, exp.Column) or node.parts[0].name != "value":
            return node
        fields = [part.copy() for part in node.parts[1:]]
        return exp.Dot.build([typed.copy(), *fields]) if fields else typed.copy()

    tree = parse_expression(expression, "expr").transform(typed_part)
    return f"({tree.sql(dialect='spark')})"


def _is_stand_in(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name == STAND_IN


def within_calendar(kind: str, value: str, text: str | None = None) -> str:
    """Return SQL: ``value``, or NULL if any date or moment in it is outside the years 1 to 9999. Unchanged for a type without
    times.

    ``text``: the text that the value was cast from. Nearly every text shows by itself that it is inside, which spares the rest.
    """
    inside = inside_calendar(parse_type(kind), f"({value})")
    if inside is None:
        return value
    checked = f"CASE WHEN {inside} THEN {value} END"
    if text is None:
        return checked
    # A day from either end, since a zone may put it into another year.
    plainly_inside = f"substring({text}, 5, 1) = '-' AND {text} >= '0002' AND {text} < '9999'"
    return f"CASE WHEN {plainly_inside} THEN {value} ELSE {checked} END"


def inside_calendar(kind: SparkType, value: str) -> str | None:
    """Return SQL that is true if every date and moment of a value is in the years 1 to 9999; None for a type without any."""
    return _inside(kind, value, 0)


def _inside(kind: SparkType, value: str, depth: int) -> str | None:
    """Return SQL that is true if every date and moment of a value is inside; None for a type without any. NULL is inside."""
    variable = f"x{depth}"
    if isinstance(kind, Atom) and kind.name in FIRST_AND_LAST:
        first, last = FIRST_AND_LAST[kind.name]
        return f"coalesce({value} BETWEEN {first} AND {last}, TRUE)"
    if isinstance(kind, Array):
        condition = _inside(kind.element, variable, depth + 1)
        return condition and f"coalesce(forall({value}, {variable} -> {condition}), TRUE)"
    if isinstance(kind, Map):
        condition = _inside(kind.value, variable, depth + 1)
        return condition and f"coalesce(forall(map_values({value}), {variable} -> {condition}), TRUE)"
    if isinstance(kind, Struct):
        conditions = [_inside(part, f"{value}.{identifier(name)}", depth) for name, part in kind.fields]
        return " AND ".join(part for part in conditions if part) or None
    return None
