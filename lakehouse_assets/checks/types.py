"""The types of declared columns, under Spark SQL's names, and which of them Spark compares or casts.

Belongs here: names of types, and facts about them that need no Spark. Does not: casting (measures).
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
    """Return the Spark SQL name of a declared type. Raises ValueError that lists the types."""
    name = text.strip().lower()
    name = ALIASES.get(name, name)
    match = DECIMAL.fullmatch(name)
    if match and 1 <= int(match[1]) <= 38 and int(match[2]) <= int(match[1]):
        return f"decimal({int(match[1])},{int(match[2])})"
    if name in ATOMIC:
        return name
    raise ValueError(f"unknown type {text!r}; use one of {', '.join(sorted(ATOMIC))} or decimal(p,s) of at most 38 digits")


TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
# By ANSI's rules Spark casts a text to the type that it is compared with, and changes no other family.
COMPARED = {
    "string": frozenset({"string", "number", "boolean", "binary", *TIMES}),
    "number": frozenset({"number", "string"}),
    "boolean": frozenset({"boolean", "string"}),
    "binary": frozenset({"binary", "string"}),
    **dict.fromkeys(TIMES, frozenset({"string", *TIMES})),
}
# The families that can be cast to each; any family can be cast to the others.
CAST_FROM = {
    "number": frozenset({"number", "string", "boolean", "timestamp"}),
    "timestamp": frozenset({"number", "string", *TIMES}),
    "date": frozenset({"string", *TIMES}),
    "boolean": frozenset({"boolean", "number", "string"}),
    "binary": frozenset({"binary", "string"}),
}


def family(name: str) -> str:
    """Return the family of types that Spark treats alike: `number` for all numbers; "" for an unknown one, such as an array.

    >>> family("bigint"), family("decimal(5,2)"), family("array<int>")
    ('number', 'number', '')
    """
    if name in COMPARED and name != "number":
        return name
    return "number" if DECIMAL.fullmatch(name) or name in ATOMIC else ""


def comparison_problem(column: str, types: Mapping[str, str], other: str) -> str:
    """Return that a column cannot be compared with a value of a type (or family); "" if it can, or if a type is unknown."""
    kind = types.get(column, "")
    first, second = family(kind), family(other) or other
    if first not in COMPARED or second not in COMPARED or second in COMPARED[first]:
        return ""
    return f"{column} is {kind}, which Spark does not compare with a {other}"


def text_problem(column: str, types: Mapping[str, str], texts: Iterable[str]) -> str:
    """Return that one of these texts is no value of a column's type, as which Spark would read it; "" if all are."""
    kind = types.get(column, "")
    parse = _PARSERS.get(family(kind))
    if parse is None:
        return ""
    for text in texts:
        try:
            parse(text.strip())
        except (ValueError, ArithmeticError):
            return f"{column} is {kind}, and {text!r} is no {kind}"
    return ""


def _boolean(text: str) -> None:
    if text.lower() not in ("true", "false", "t", "f", "yes", "no", "y", "n", "0", "1"):
        raise ValueError(text)


# Python's parsers that accept what Spark's ANSI cast accepts, or more.
_PARSERS: Mapping[str, Callable[[str], object]] = {
    "number": Decimal,
    "boolean": _boolean,
    **dict.fromkeys(TIMES, datetime.fromisoformat),
}


def cast_problem(column: str, types: Mapping[str, str], to: str) -> str:
    """Return that a column cannot be cast to a type (or family); "" if it can, or if a type is unknown."""
    kind = types.get(column, "")
    source, target = family(kind), family(to) or to
    if not source or target not in CAST_FROM or source in CAST_FROM[target]:
        return ""
    return f"{column} is {kind}, of which Spark makes no {to}"


def is_time_of_day(text: str) -> str:
    """Return SQL that is true if a text (SQL, too) is a time of day without a date. Spark would cast it to that time of today.

    >>> is_time_of_day("v")
    "(substring(v, 5, 1) <> '-' AND contains(v, ':') AND NOT contains(substring_index(v, ':', 1), '-'))"
    """
    # Nearly every text begins with a year and a dash, which answers it.
    rest = f"contains({text}, ':') AND NOT contains(substring_index({text}, ':', 1), '-')"
    return f"(substring({text}, 5, 1) <> '-' AND {rest})"
