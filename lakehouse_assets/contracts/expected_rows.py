"""Expected rows beside actual ones: values by their column's type, and the rows that only one side has.

Belongs here: comparing rows of texts (pure). Does not: where either side comes from (table_tests, testing).
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from lakehouse_assets.contracts.spark_types import NESTED, Atom, parse_type
from lakehouse_assets.contracts.spark_types import Decimal as DecimalType

INTEGERS = ("tinyint", "smallint", "int", "bigint")
TRUTHS = {"true": True, "false": False}
# Figures of a double that are written by hand are rarely its last digit.
TOLERANCE = 1e-9


def expected_value(text: str | None, type_name: str) -> Any:
    """Return a value that is equal to another one if they are the same value of the type. Raises ValueError for a text that is
    no value of it.

    >>> expected_value("1.50", "decimal(4,2)") == expected_value("1.5", "decimal(4,2)")
    True
    """
    if text is None:
        return None
    try:
        kind = parse_type(type_name)
    except ValueError:
        return text  # a type that only Spark knows
    if isinstance(kind, NESTED):
        return _plain(json.loads(text))
    if isinstance(kind, DecimalType) or kind.name in INTEGERS:
        return _number(text)
    match kind:
        case Atom("float" | "double"):
            return float(text)
        case Atom("boolean"):
            return TRUTHS[text.lower()] if text.lower() in TRUTHS else _refuse(text)
        case Atom("date"):
            return date.fromisoformat(text)
        case Atom("timestamp"):
            moment = datetime.fromisoformat(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        case Atom("timestamp_ntz"):
            return datetime.fromisoformat(text).replace(tzinfo=None)
    return text


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _plain(value: Any) -> Any:
    """Return JSON without fields that are NULL, which Spark and people leave out or write."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def same_value(one: Any, other: Any) -> bool:
    """Whether two values of `expected_value` are equal: numbers of a double up to 1e-9 of their size, and NaN as NaN."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TOLERANCE) or (math.isnan(one) and math.isnan(other))
    return one == other


def row_differences(
    expected: Sequence[Mapping[str, str | None]], actual: Sequence[Mapping[str, str | None]], types: Mapping[str, str]
) -> list[str]:
    """Return a line for each expected row that is not there, and for each other row that is. Of a row, the listed columns are
    compared.
    """
    wanted = [{name: _value(text, types[name]) for name, text in row.items()} for row in expected]
    present = [{name: _value(text, types[name]) for name, text in row.items()} for row in actual]
    left = set(range(len(present)))
    missing = []
    # Rows that say most first, so that a row that says little takes none of theirs.
    for index in sorted(range(len(wanted)), key=lambda index: -len(wanted[index])):
        match = next((other for other in sorted(left) if _agrees(wanted[index], present[other])), None)
        if match is None:
            missing.append(index)
        else:
            left.remove(match)
    columns = list(dict.fromkeys(name for row in expected for name in row)) or list(types)
    lines = [f"missing: {_shown(expected[index], expected[index])}" for index in sorted(missing)]
    return lines + [f"not expected: {_shown(actual[index], columns)}" for index in sorted(left)]


def _value(text: str | None, type_name: str) -> Any:
    """Return the value; the text itself where it is none of the type: it equals no value."""
    try:
        return expected_value(text, type_name)
    except ValueError:
        return text


def _agrees(wanted: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return all(same_value(value, row[name]) for name, value in wanted.items())


def _shown(row: Mapping[str, str | None], columns: Any) -> str:
    return "{" + ", ".join(f"{name}: {'null' if row[name] is None else row[name]}" for name in columns) + "}"
