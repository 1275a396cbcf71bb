"""The check kind `in_range`. Belongs here: its parameters, its SQL, its judgement. Does not: running it."""

from datetime import UTC, date, datetime
from math import isnan
from typing import Any, ClassVar, Literal

from pydantic import field_validator, model_validator

from lakehouse_assets.checks.base import CheckContext, RowCheck
from lakehouse_assets.checks.sql_text import identifier, literal

Bound = int | float | datetime | date


class InRange(RowCheck):
    """``min <= value <= max``. NULL passes; NaN fails, since it is in no range."""

    summary: ClassVar[str] = "the value is between min and max, both included; NaN fails"
    example: ClassVar[str] = "{check: in_range, column: humidity_percent, min: 0, max: 100}"

    check: Literal["in_range"]
    column: str
    """A column of numbers, dates or timestamps."""
    min: Bound | None = None
    """The least value that passes."""
    max: Bound | None = None
    """The greatest value that passes."""

    @field_validator("min", "max", mode="before")
    @classmethod
    def _a_bound(cls, value: Any) -> Any:
        # YAML's `yes` would become 1; every comparison with NaN is decided by its sort order, not by its value.
        if isinstance(value, bool) or (isinstance(value, float) and isnan(value)):
            raise ValueError(f"{value} is no bound: a number, a date or a time")
        return value

    @model_validator(mode="after")
    def _bounds(self) -> "InRange":
        if self.min is None and self.max is None:
            raise ValueError("in_range needs min, max or both")
        if self.min is not None and self.max is not None:
            if isinstance(self.min, date) != isinstance(self.max, date):
                raise ValueError("min and max are of different types")
            if _comparable(self.min) > _comparable(self.max):
                raise ValueError(f"min {self.min} is above max {self.max}")
        return self

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def condition(self, context: CheckContext) -> str:
        """Below min, above max, or NaN (which Spark orders above every number)."""
        column = identifier(self.column)
        found = []
        if self.min is not None:
            found.append(f"{column} < {_literal(self.min)}")
        if self.max is not None:
            found.append(f"{column} > {_literal(self.max)}")
        if not isinstance(self.min if self.min is not None else self.max, date):
            found.append(f"isnan({column})")
        return f"({' OR '.join(found)})"

    def message(self) -> str:
        """What is promised."""
        if self.min is None:
            return f"{self.column} at most {self.max}"
        return f"{self.column} at least {self.min}" if self.max is None else f"{self.column} between {self.min} and {self.max}"


def _comparable(bound: Bound) -> Any:
    if isinstance(bound, date) and not isinstance(bound, datetime):
        bound = datetime(bound.year, bound.month, bound.day, tzinfo=UTC)
    return bound.replace(tzinfo=UTC) if isinstance(bound, datetime) and bound.tzinfo is None else bound


def _literal(bound: Bound) -> str:
    return literal(_comparable(bound).astimezone(UTC) if isinstance(bound, datetime) else bound)
