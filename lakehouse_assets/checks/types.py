"""The types that a column may be declared with, under Spark SQL's names, and which of them Spark compares or casts.

Belongs here: names of types, and what is known of them without Spark. Does not: casting (measures).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal

ATOMIC = {
    "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp", "timestamp_ntz",
    "binary",
}  # fmt: skip
ALIASES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "bool": "boolean", "real": "float"}
DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")


def data_type(text: str) -> str:
    """The Spark SQL name of a declared type. Raises ValueError, listing what there is."""
    name = text.strip().lower()
    name = ALIASES.get(name, name)
    found = DECIMAL.fullmatch(name)
    if found and 1 <= int(found[1]) <= 38 and int(found[2]) <= int(found[1]):
        return f"decimal({int(found[1])},{int(found[2])})"
    if name in ATOMIC:
        return name
    raise ValueError(f"unknown type {text!r}; use one of {', '.join(sorted(ATOMIC))} or decimal(p,s)")


TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
# As Spark does by ANSI's rules: a text is read as what it is compared with, and nothing else changes its family.
COMPARED = {
    "string": frozenset({"string", "number", "boolean", "binary", *TIMES}),
    "number": frozenset({"number", "string"}),
    "boolean": frozenset({"boolean", "string"}),
    "binary": frozenset({"binary", "string"}),
    **dict.fromkeys(TIMES, frozenset({"string", *TIMES})),
}
# What can be cast to each; to others, anything may be.
CAST_FROM = {
    "number": frozenset({"number", "string", "boolean", "timestamp"}),
    "timestamp": frozenset({"number", "string", *TIMES}),
    "date": frozenset({"string", *TIMES}),
    "boolean": frozenset({"boolean", "number", "string"}),
    "binary": frozenset({"binary", "string"}),
}


def family(name: str) -> str:
    """Types that Spark treats alike: `number` for all numbers; nothing for one that is not known, as an array.

    >>> family("bigint"), family("decimal(5,2)"), family("array<int>")
    ('number', 'number', '')
    """
    if name in COMPARED and name != "number":
        return name
    return "number" if DECIMAL.fullmatch(name) or name in ATOMIC else ""


def comparable(one: str, other: str) -> bool:
    """Whether Spark compares values of two types (or families); true where it is not known."""
    two = family(other) or other
    return (family(one) or one) not in COMPARED or two not in COMPARED or two in COMPARED[family(one) or one]


def uncomparable(column: str, types: Mapping[str, str], other: str) -> str:
    """That a column cannot be compared with a value of a type (or family); nothing where it can."""
    mine = types.get(column, "")
    return "" if comparable(mine, other) else f"{column} is {mine}, which Spark does not compare with a {other}"


def unreadable(column: str, types: Mapping[str, str], texts: Iterable[str]) -> str:
    """That one of these texts is no value of a column's type, as which Spark would read it; nothing where all are."""
    mine = types.get(column, "")
    read = _READ.get(family(mine))
    if read is None:
        return ""
    for text in texts:
        try:
            read(text.strip())
        except (ValueError, ArithmeticError):
            return f"{column} is {mine}, and {text!r} is no {mine}"
    return ""


def _boolean(text: str) -> None:
    if text.lower() not in ("true", "false", "t", "f", "yes", "no", "y", "n", "0", "1"):
        raise ValueError(text)


# What of Python's reads a text as Spark's ANSI cast does, or is less strict.
_READ: Mapping[str, Callable[[str], object]] = {
    "number": Decimal,
    "boolean": _boolean,
    **dict.fromkeys(TIMES, datetime.fromisoformat),
}


def uncastable(column: str, types: Mapping[str, str], to: str) -> str:
    """That a column cannot be cast to a type (or family); nothing where it can."""
    mine = types.get(column, "")
    return "" if castable(mine, to) else f"{column} is {mine}, of which Spark makes no {to}"


def castable(one: str, to: str) -> bool:
    """Whether Spark casts from a type to another type (or family); true where it is not known, or may be to both."""
    target, known = family(to) or to, family(one)
    return not known or target not in CAST_FROM or known in CAST_FROM[target]


def time_alone(text: str) -> str:
    """SQL, true where a text (SQL, too) is a time of day without a date, of which Spark's cast makes one of today: another
    moment on another day.

    >>> time_alone("v")
    "(substring(v, 5, 1) <> '-' AND contains(v, ':') AND NOT contains(substring_index(v, ':', 1), '-'))"
    """
    # Nearly every text begins with a year and a dash, which answers it.
    rest = f"contains({text}, ':') AND NOT contains(substring_index({text}, ':', 1), '-')"
    return f"(substring({text}, 5, 1) <> '-' AND {rest})"
