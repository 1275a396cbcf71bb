"""Which values a column may have: a range, a set, a number of decimals, degrees.

Belongs here: kinds that compare a value with constants. Does not: texts (text, formats), other columns (relations).
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import ColumnCheck
from lakehouse_assets.checks.sql.text import float_literal, identifier, literal, not_in
from lakehouse_assets.checks.types import comparison_problem, text_problem

Bound = int | float | datetime | date
# Of a number's text in capital letters.
NUMBER = r"^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)(E[-+]?[0-9]{1,4})?$"
NOT_ZERO = r"^[-+0.]*[1-9]"
LAST_DECIMAL = r"[.]([0-9]*[1-9])"
EXPONENT = r"E([-+]?[0-9]+)$"


class InRange(ColumnCheck):
    """``min <= value <= max``. NULL passes; NaN fails, since it is in no range."""

    summary = "the value is between min and max, both included; NaN fails"
    example = "{check: in_range, column: humidity_percent, min: 0, max: 100}"

    check: Literal["in_range"]
    column: str
    """A column of numbers, dates or timestamps. In a text column Spark reads each text as a value of the bound's type, and one
    that is none puts the check in error. Declare the column's type instead.
    """
    min: Bound | None = None
    """The least value that passes."""
    max: Bound | None = None
    """The greatest value that passes."""

    @field_validator("min", "max", mode="before")
    @classmethod
    def _a_bound(cls, value: Any) -> Any:
        # Every comparison with NaN is decided by its sort order, not by its value.
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"{value} is no bound: a number, a date or a time")
        if isinstance(value, str) and re.fullmatch(r"\s*[-+]?(nan|inf|infinity)\s*", value, re.IGNORECASE):
            raise ValueError(f"{value!r} is no bound: a number, a date or a time")
        # As text (of a rule set that is read again) a date stays one.
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
            return date.fromisoformat(value)
        return value

    @model_validator(mode="after")
    def _ordered_bounds(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("in_range needs min, max or both")
        if self.min is not None and self.max is not None:
            if isinstance(self.min, date) != isinstance(self.max, date):
                raise ValueError("min and max are of different types")
            if _comparable(self.min) > _comparable(self.max):
                raise ValueError(f"min {self.min} is above max {self.max}")
        return self

    def condition(self, context: CheckContext) -> str:
        column = identifier(self.column)
        outside = [] if self.min is None else [f"{column} < {_literal(self.min, self.column)}"]
        outside += [] if self.max is None else [f"{column} > {_literal(self.max, self.column)}"]
        # Spark orders NaN above every number.
        outside += [f"isnan({column})"] if self.bound_type == "number" else []
        return f"({' OR '.join(outside)})"

    def type_problem(self, types: Mapping[str, str]) -> str:
        return comparison_problem(self.column, types, self.bound_type)

    @property
    def bound_type(self) -> str:
        """The type of its bounds: `date` or `number`."""
        return "date" if isinstance(self.max if self.min is None else self.min, date) else "number"

    def message(self) -> str:
        if self.min is None:
            return f"{self.column} at most {self.max}"
        return f"{self.column} at least {self.min}" if self.max is None else f"{self.column} between {self.min} and {self.max}"


class InSet(ColumnCheck):
    """The value is one of ``values``. NULL passes; letter case and spaces count."""

    summary = "the value is one of a list"
    example = "{check: in_set, column: origin, values: [EWR, JFK, LGA]}"

    check: Literal["in_set"]
    column: str
    """The column."""
    values: tuple[str | int | float | bool, ...] = Field(min_length=1)
    """The values that pass, all texts, all numbers or all booleans."""

    @model_validator(mode="after")
    def _of_one_type(self) -> Self:
        kinds = set(map(_kind, self.values))
        if len(kinds) > 1:
            raise ValueError(f"values are of different types: {', '.join(sorted(kinds))} (quote them all, or none)")
        if any(isinstance(v, float) and not isfinite(v) for v in self.values):
            raise ValueError("values: only finite numbers can be listed")
        return self

    def condition(self, context: CheckContext) -> str:
        return not_in(self.column, self.values)

    def type_problem(self, types: Mapping[str, str]) -> str:
        kind = _kind(self.values[0]).replace("text", "string")
        texts = [value for value in self.values if isinstance(value, str)]
        return comparison_problem(self.column, types, kind) or text_problem(self.column, types, texts)

    def message(self) -> str:
        return f"{self.column} one of {', '.join(map(str, self.values[:10]))}{', …' if len(self.values) > 10 else ''}"


class Decimals(ColumnCheck):
    """The number has at most ``max`` decimal digits. NULL passes; NaN and infinities fail.

    A `double` is read as it is written (its shortest decimal form), so that 0.1 has one decimal.
    """

    summary = "the number has at most so many decimals"
    example = "{check: decimals, column: humidity_percent, max: 2}"
    rule = "{column} of at most {max} decimals"

    check: Literal["decimals"]
    column: str
    """A numeric column."""
    max: int = Field(ge=0, le=18)
    """How many digits may follow the point."""

    def condition(self, context: CheckContext) -> str:
        column = identifier(self.column)
        # Read from the text, since no type holds both the largest and the smallest numbers.
        text = f"upper(trim(CAST({column} AS STRING)))"
        digits = f"length(regexp_extract({text}, {literal(LAST_DECIMAL)}, 1))"
        # 1.5E-7 has eight decimals, 1.5E7 none.
        shift = f"coalesce(try_cast(regexp_extract({text}, {literal(EXPONENT)}, 1) AS INT), 0)"
        return (
            f"({column} IS NOT NULL AND CASE WHEN NOT {text} RLIKE {literal(NUMBER)} THEN TRUE"
            f" WHEN NOT {text} RLIKE {literal(NOT_ZERO)} THEN FALSE ELSE {digits} - {shift} > {self.max} END)"
        )


class _Degrees(ColumnCheck):
    most: ClassVar[int]
    column: str
    """Decimal degrees."""

    def condition(self, context: CheckContext) -> str:
        # NaN is above every number.
        return f"NOT ({identifier(self.column)} BETWEEN -{self.most} AND {self.most})"

    def type_problem(self, types: Mapping[str, str]) -> str:
        return comparison_problem(self.column, types, "number")

    def message(self) -> str:
        return f"{self.column} between -{self.most} and {self.most} degrees"


class Latitude(_Degrees):
    """-90 to 90 degrees. NULL passes; NaN fails."""

    summary = "the number is a latitude in degrees"
    example = "{check: latitude, column: latitude_deg}"
    most = 90

    check: Literal["latitude"]


class Longitude(_Degrees):
    """-180 to 180 degrees. NULL passes; NaN fails."""

    summary = "the number is a longitude in degrees"
    example = "{check: longitude, column: longitude_deg}"
    most = 180

    check: Literal["longitude"]


def _kind(value: str | float) -> str:
    return "text" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "number"


def _comparable(bound: Bound) -> Any:
    if isinstance(bound, date) and not isinstance(bound, datetime):
        bound = datetime(bound.year, bound.month, bound.day, tzinfo=UTC)
    return bound.replace(tzinfo=UTC) if isinstance(bound, datetime) and bound.tzinfo is None else bound


def _literal(bound: Bound, column: str) -> str:
    if isinstance(bound, float):
        return float_literal(bound, column)
    return literal(_comparable(bound).astimezone(UTC) if isinstance(bound, datetime) else bound)
