"""Spark's types as small frozen trees: read from SQL text or from a schema's JSON, written as SQL text.

Belongs here: what a type is, and which types read losslessly as which. Does not: what to do about a difference (decisions).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lakehouse_assets.checks.types import ALIASES, data_type


@dataclass(frozen=True)
class Atom:
    """A type without parts, by Spark SQL's name. `void` is that of a column of which only NULL is known."""

    name: str


@dataclass(frozen=True)
class Decimal:
    """`precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    @property
    def whole(self) -> int:
        """Digits before the point."""
        return self.precision - self.scale


@dataclass(frozen=True)
class Array:
    """Elements of one type."""

    element: "SparkType"


@dataclass(frozen=True)
class Map:
    """Keys and values of one type each."""

    key: "SparkType"
    value: "SparkType"


@dataclass(frozen=True)
class Struct:
    """Named fields, in their order."""

    fields: tuple[tuple[str, "SparkType"], ...]


SparkType = Atom | Decimal | Array | Map | Struct
NESTED = (Array, Map, Struct)
WHOLE = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}  # digits
# What reads as the second without loss, of types without parts; decimals apart. A date as a timestamp is not among them: it
# needs to be told a zone.
LOSSLESS = {
    ("tinyint", "smallint"), ("tinyint", "int"), ("tinyint", "bigint"), ("smallint", "int"), ("smallint", "bigint"),
    ("int", "bigint"), ("tinyint", "float"), ("smallint", "float"), ("tinyint", "double"), ("smallint", "double"),
    ("int", "double"), ("float", "double"), ("date", "timestamp_ntz"),
}  # fmt: skip
JSON_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}
# In words, so that a backquoted name may hold any sign.
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[<>,:()]|[^\s`<>,:()]+)")


@lru_cache(maxsize=20_000)
def parse_type(text: str) -> SparkType:
    """The tree of a type's SQL text. A name that is not known is a type of its own, which only fits itself.

    >>> parse_type("struct<a: int, b: array<decimal(4,1)>>").fields[1]
    ('b', Array(element=Decimal(precision=4, scale=1)))
    """
    tokens = _tokens(text)
    found, rest = _one(tokens, 0, text)
    if rest != len(tokens):
        raise ValueError(f"{text!r} is no type: {tokens[rest]!r} stands where it should end")
    return found


def _tokens(text: str) -> list[str]:
    found, place = [], 0
    text = text.strip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"{text!r} is no type: a name's ` is never closed")
        found.append(match[1])
        place = match.end()
    return found


def _one(tokens: list[str], at: int, text: str) -> tuple[SparkType, int]:
    word = _at(tokens, at, text).lower()
    if _at(tokens, at + 1, text, end="") == "<" and word in ("array", "map", "struct"):
        at += 2
        if word == "array":
            element, at = _one(tokens, at, text)
            return Array(element), _expect(tokens, at, ">", text)
        if word == "map":
            key, at = _one(tokens, at, text)
            value, at = _one(tokens, _expect(tokens, at, ",", text), text)
            return Map(key, value), _expect(tokens, at, ">", text)
        return _struct(tokens, at, text)
    if not re.fullmatch(r"[a-z_]\w*", word):
        raise ValueError(f"{text!r} is no type: {word!r} is no name of one")
    if word in ("decimal", "numeric", "dec"):
        if _at(tokens, at + 1, text, end="") != "(":
            return Decimal(10, 0), at + 1
        close = tokens.index(")", at) if ")" in tokens[at:] else len(tokens)
        given = data_type(f"decimal({''.join(tokens[at + 2 : close])})")
        precision, scale = given[8:-1].split(",")
        return Decimal(int(precision), int(scale)), close + 1
    at += 1
    words = [ALIASES.get(word, word)]
    while at < len(tokens) and re.fullmatch(r"[a-z_]\w*", tokens[at].lower()):  # interval day to second
        words.append(tokens[at].lower())
        at += 1
    return Atom(" ".join(words)), at


def _struct(tokens: list[str], at: int, text: str) -> tuple[SparkType, int]:
    fields: list[tuple[str, SparkType]] = []
    seen: dict[str, str] = {}
    while _at(tokens, at, text) != ">":
        if fields:
            at = _expect(tokens, at, ",", text)
        name = _at(tokens, at, text)
        name = name[1:-1].replace("``", "`") if name.startswith("`") else name
        if name in set("<>,:()"):
            raise ValueError(f"{text!r} is no type: a field's name is missing before {name!r}")
        twin = seen.setdefault(name.lower(), name)
        if len(seen) == len(fields):
            raise ValueError(f"{text!r}: fields {twin!r} and {name!r} of one struct are the same, letter case apart")
        at += 1
        if _at(tokens, at, text) == ":":
            at += 1
        kind, at = _one(tokens, at, text)
        fields.append((name, kind))
    return Struct(tuple(fields)), at + 1


def _at(tokens: list[str], at: int, text: str, end: str | None = None) -> str:
    if at < len(tokens):
        return tokens[at]
    if end is None:
        raise ValueError(f"{text!r} is no type: it ends too early")
    return end


def _expect(tokens: list[str], at: int, sign: str, text: str) -> int:
    if _at(tokens, at, text) != sign:
        raise ValueError(f"{text!r} is no type: {sign!r} is missing before {tokens[at]!r}")
    return at + 1


def type_of_json(value: Any) -> SparkType:
    """The tree of a type as Spark and Delta write it into a schema's JSON."""
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
    """A type as SQL text that `parse_type` and Spark read.

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
    """The type and all those within it."""
    yield kind
    inner: tuple[SparkType, ...] = ()
    if isinstance(kind, Struct):
        inner = tuple(field for _, field in kind.fields)
    elif isinstance(kind, Array):
        inner = (kind.element,)
    elif isinstance(kind, Map):
        inner = (kind.key, kind.value)
    for each in inner:
        yield from parts_of(each)


def unfit_fields(kind: SparkType) -> list[str]:
    """Names of fields within that Delta refuses."""
    names = [name for part in parts_of(kind) if isinstance(part, Struct) for name, _ in part.fields]
    return [name for name in names if not name or re.search(r"[ ,;{}()\n\t=\0]", name)]


def keyed_otherwise(kind: SparkType) -> list[str]:
    """Types of keys of maps within that are no text, as JSON's are: Spark reads no other."""
    return [sql_type(part.key) for part in parts_of(kind) if isinstance(part, Map) and part.key != Atom("string")]


def stored(kind: SparkType) -> SparkType:
    """The type with text in the place of what within it has only been NULL so far, for which Delta has no type."""
    if isinstance(kind, Struct):
        return Struct(tuple((name, stored(field)) for name, field in kind.fields))
    if isinstance(kind, Array):
        return Array(stored(kind.element))
    if isinstance(kind, Map):
        return Map(stored(kind.key), stored(kind.value))
    return Atom("string") if kind == Atom("void") else kind


def reads_as(given: SparkType, wanted: SparkType) -> bool:
    """Whether every value of the one type is, without loss, one of the other; types without parts."""
    if given == wanted or given == Atom("void"):
        return True
    if isinstance(wanted, Decimal):
        if isinstance(given, Decimal):
            return given.whole <= wanted.whole and given.scale <= wanted.scale
        return isinstance(given, Atom) and WHOLE.get(given.name, 99) <= wanted.whole
    if isinstance(given, Atom) and isinstance(wanted, Atom):
        return (given.name, wanted.name) in LOSSLESS
    return False


def joined(first: SparkType, second: SparkType) -> SparkType | None:
    """The narrower type of which both are; None where neither reads as the other. A struct has the fields of both, the
    first's first; of a field that they share in other letter case there is none.
    """
    if isinstance(first, Struct) and isinstance(second, Struct):
        return _joined_structs(first, second)
    if isinstance(first, Array) and isinstance(second, Array):
        element = joined(first.element, second.element)
        return Array(element) if element else None
    if isinstance(first, Map) and isinstance(second, Map):
        key, value = joined(first.key, second.key), joined(first.value, second.value)
        return Map(key, value) if key and value else None
    if reads_as(first, second):
        return second
    return first if reads_as(second, first) else None


def _joined_structs(first: Struct, second: Struct) -> Struct | None:
    more = dict(second.fields)
    lower = {name.lower(): name for name in more}
    fields: list[tuple[str, SparkType]] = []
    for name, kind in first.fields:
        twin = lower.get(name.lower(), name)
        if twin != name:
            return None
        both = joined(kind, more.pop(name)) if name in more else kind
        if both is None:
            return None
        fields.append((name, both))
    return Struct((*fields, *more.items()))


def common_type(texts: list[str]) -> str:
    """The type of a column that came with these types in several files: the widest that the others read as, else text.

    >>> common_type(["int", "bigint"]), common_type(["int", "date"])
    ('bigint', 'string')
    """
    found: SparkType | None = parse_type(texts[0])
    for text in texts[1:]:
        found = joined(found, parse_type(text)) if found else None
    return sql_type(found) if found else "string"
