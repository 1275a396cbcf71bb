"""Spark's types as small frozen trees: read from SQL text or from a schema's JSON, written as SQL text.

Belongs here: types, and which of them read losslessly as others. Does not: the consequence of a difference (decisions).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lakehouse_assets.checks.types import ALIASES, data_type


@dataclass(frozen=True)
class Atom:
    """A type without parts, by Spark SQL's name. `void` is the type of a column that has only been NULL."""

    name: str


@dataclass(frozen=True)
class Decimal:
    """``precision``: the number of digits; ``scale``: how many of them are after the point."""

    precision: int
    scale: int

    @property
    def integer_digits(self) -> int:
        """Digits before the point."""
        return self.precision - self.scale


@dataclass(frozen=True)
class Array:
    """Elements of one type."""

    element: "SparkType"


@dataclass(frozen=True)
class Map:
    """Keys of one type, and values of one type."""

    key: "SparkType"
    value: "SparkType"


@dataclass(frozen=True)
class Struct:
    """Named fields, in order."""

    fields: tuple[tuple[str, "SparkType"], ...]


SparkType = Atom | Decimal | Array | Map | Struct
NESTED = (Array, Map, Struct)
INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
# Pairs of plain types, decimals apart: the first reads as the second without loss. A date needs a zone to read as a timestamp.
LOSSLESS = {
    ("tinyint", "smallint"), ("tinyint", "int"), ("tinyint", "bigint"), ("smallint", "int"), ("smallint", "bigint"),
    ("int", "bigint"), ("tinyint", "float"), ("smallint", "float"), ("tinyint", "double"), ("smallint", "double"),
    ("int", "double"), ("float", "double"), ("date", "timestamp_ntz"),
}  # fmt: skip
JSON_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}
_NESTED = re.compile(r"\s*(array|map|struct)\s*<(.*)>\s*", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(r"\s*(`(?:[^`]|``)*`|[^\s`<>,:()]+)(?:\s*:|\s)\s*(\S.*)", re.DOTALL)  # a backquoted name may hold any sign
_PLAIN = re.compile(r"[a-z_]\w*(?:\([^()<>`]*\))?(?: [a-z_]\w*)*")  # such as interval day to second, or time(6)
_TOKEN = re.compile(r"`(?:[^`]|``)*`|.", re.DOTALL)


@lru_cache(maxsize=20_000)
def parse_type(text: str) -> SparkType:
    """Return the tree of a type's SQL text; an unknown name is a type of its own. Raises ValueError.

    >>> parse_type("struct<a: int, b: array<decimal(4,1)>>").fields[1]
    ('b', Array(element=Decimal(precision=4, scale=1)))
    """
    nested = _NESTED.fullmatch(text)
    if nested is None:
        return _parse_plain(text)
    name, parts = nested[1].lower(), _split_at_commas(nested[2])
    if name == "struct":
        return _parse_struct(text, parts)
    if len(parts) != (count := 1 if name == "array" else 2):
        raise ValueError(f"{text!r} is no type: {'a type is missing' if len(parts) < count else 'it has too many types'}")
    return Array(parse_type(parts[0])) if name == "array" else Map(parse_type(parts[0]), parse_type(parts[1]))


def _parse_plain(text: str) -> SparkType:
    names = text.lower().split()
    plain = " ".join(names)
    if decimal := re.fullmatch(r"(?:decimal|numeric|dec)(\(.*\))?", "".join(names)):
        precision, scale = data_type(f"decimal{decimal[1] or '(10,0)'}")[8:-1].split(",")
        return Decimal(int(precision), int(scale))
    if not _PLAIN.fullmatch(plain):
        raise ValueError(f"{text!r} is no type: a name or a bracket of it is wrong or missing")
    return Atom(" ".join([ALIASES.get(names[0], names[0]), *names[1:]]))


def _parse_struct(text: str, parts: list[str]) -> Struct:
    fields: dict[str, tuple[str, SparkType]] = {}
    for part in parts if parts != [""] else ():
        field = _FIELD.fullmatch(part)
        if field is None:
            raise ValueError(f"{text!r} is no type: a field's name or type is missing in {part.strip()!r}")
        name = field[1][1:-1].replace("``", "`") if field[1].startswith("`") else field[1]
        if twin := fields.get(name.lower()):
            raise ValueError(f"{text!r}: fields {twin[0]!r} and {name!r} of one struct are the same, letter case apart")
        fields[name.lower()] = name, parse_type(field[2])
    return Struct(tuple(fields.values()))


def _split_at_commas(text: str) -> list[str]:
    """Split at the commas outside of inner brackets and of backquoted names."""
    parts, depth = [""], 0
    for sign in _TOKEN.findall(text.strip()):
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def type_of_json(value: Any) -> SparkType:
    """Return the tree of a type from a schema's JSON, as Spark and Delta write it."""
    if isinstance(value, Mapping):
        if value["type"] == "struct":
            return Struct(tuple((f["name"], type_of_json(f["type"])) for f in value["fields"]))
        if value["type"] == "array":
            return Array(type_of_json(value["elementType"]))
        if value["type"] == "map":
            return Map(type_of_json(value["keyType"]), type_of_json(value["valueType"]))
        return type_of_json(value.get("sqlType", value["type"]))
    return parse_type(JSON_NAMES.get(value, value))


def sql_type(kind: SparkType) -> str:
    """Return a type as SQL text that `parse_type` and Spark read.

    >>> sql_type(parse_type("STRUCT<`a b`: Long>"))
    'struct<`a b`: bigint>'
    """
    if isinstance(kind, Struct):
        return f"struct<{', '.join(f'{_name(name)}: {sql_type(field)}' for name, field in kind.fields)}>"
    if isinstance(kind, Array):
        return f"array<{sql_type(kind.element)}>"
    if isinstance(kind, Map):
        return f"map<{sql_type(kind.key)}, {sql_type(kind.value)}>"
    return f"decimal({kind.precision},{kind.scale})" if isinstance(kind, Decimal) else kind.name


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else f"`{name.replace('`', '``')}`"


def parts_of(kind: SparkType) -> Iterator[SparkType]:
    """Yield the type and all types within it."""
    yield kind
    match kind:
        case Struct(fields):
            inner = tuple(field for _, field in fields)
        case Array(element):
            inner = (element,)
        case Map(key, value):
            inner = (key, value)
        case _:
            inner = ()
    for each in inner:
        yield from parts_of(each)


def is_refused_name(name: str) -> bool:
    """Whether Delta refuses a name of a column or field."""
    return not name or re.search(r"[ ,;{}()\n\t=\0]", name) is not None


def unfit_fields(kind: SparkType) -> list[str]:
    """Return the names of inner fields that Delta refuses."""
    structs = [part for part in parts_of(kind) if isinstance(part, Struct)]
    return [name for part in structs for name, _ in part.fields if is_refused_name(name)]


def keyed_otherwise(kind: SparkType) -> list[str]:
    """Return the types of inner maps' keys that are no text. JSON's keys are text: Spark reads no other."""
    return [sql_type(part.key) for part in parts_of(kind) if isinstance(part, Map) and part.key != Atom("string")]


def stored_type(kind: SparkType) -> SparkType:
    """Return the type with text in place of `void`, for which Delta has no type."""
    match kind:
        case Struct(fields):
            return Struct(tuple((name, stored_type(field)) for name, field in fields))
        case Array(element):
            return Array(stored_type(element))
        case Map(key, value):
            return Map(stored_type(key), stored_type(value))
    return Atom("string") if kind == Atom("void") else kind


def reads_as(arrived: SparkType, wanted: SparkType) -> bool:
    """Whether every value of one plain type is, without loss, one of the other."""
    if arrived in (wanted, Atom("void")):
        return True
    match arrived, wanted:
        case Decimal(), Decimal():
            return arrived.integer_digits <= wanted.integer_digits and arrived.scale <= wanted.scale
        case Atom(name), Decimal():
            return INTEGER_DIGITS.get(name, 99) <= wanted.integer_digits
        case Atom(name), Atom(other):
            return (name, other) in LOSSLESS
    return False


def join_types(first: SparkType, second: SparkType) -> SparkType | None:
    """Return the narrowest type as which both read: a struct has the fields of both. None if there is none, also for fields
    that differ in letter case only.
    """
    match first, second:
        case Struct(), Struct():
            return _joined_structs(first, second)
        case Array(one), Array(other):
            element = join_types(one, other)
            return Array(element) if element else None
        case Map(), Map():
            key, value = join_types(first.key, second.key), join_types(first.value, second.value)
            return Map(key, value) if key and value else None
    if reads_as(first, second):
        return second
    return first if reads_as(second, first) else None


def _joined_structs(first: Struct, second: Struct) -> Struct | None:
    fields, spellings = dict(first.fields), {name.lower(): name for name, _ in first.fields}
    for name, kind in second.fields:
        both = join_types(fields[name], kind) if name in fields else kind
        if both is None or spellings.get(name.lower(), name) != name:
            return None
        fields[name] = both
    return Struct(tuple(fields.items()))


def common_type(texts: list[str]) -> str:
    """Return the narrowest type as which a column's types in several files read; text if there is none.

    >>> common_type(["int", "bigint"]), common_type(["int", "date"])
    ('bigint', 'string')
    """
    common: SparkType | None = parse_type(texts[0])
    for text in texts[1:]:
        common = join_types(common, parse_type(text)) if common else None
    return sql_type(common) if common else "string"
