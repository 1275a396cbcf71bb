"""When: dates and times in the past or the future of their window, and how fresh a batch is.

Belongs here: kinds that compare times with the window's end, so that the same batch is judged alike on any day. Does not:
a range of constant dates (values).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from lakehouse_assets.checks.base import BatchCheck, CheckContext, ColumnCheck, Judgement
from lakehouse_assets.checks.durations import Duration, duration
from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.checks.types import uncastable


class _Relative(ColumnCheck):
    """A time compared with the window's end."""

    column: str
    """A timestamp or date."""
    tolerance: Duration = "0s"
    """How far beyond the end is still accepted: `30s`, `90m`, `6h`, `2d`."""

    @property
    def _seconds(self) -> int:
        return int(duration(self.tolerance).total_seconds())

    @property
    def _moment(self) -> str:
        return f"CAST({identifier(self.column)} AS TIMESTAMP)"

    def misfit(self, types: Mapping[str, str]) -> str:
        """The column is cast."""
        return uncastable(self.column, types, "timestamp")


class InPast(_Relative):
    """The time is before the end of the window, or not further after it than ``tolerance``. NULL passes."""

    summary: ClassVar[str] = "the time is before the window's end"
    example: ClassVar[str] = "{check: in_past, column: time_hour, tolerance: 5m}"

    check: Literal["in_past"]

    def condition(self, context: CheckContext) -> str:
        """At the end, or after it."""
        return f"{self._moment} >= {context.window_end_sql} + INTERVAL {self._seconds} SECOND"

    def message(self) -> str:
        """What is promised."""
        return f"{self.column} before the window's end"


class InFuture(_Relative):
    """The time is at the end of the window or after it, or not further before it than ``tolerance``. NULL passes."""

    summary: ClassVar[str] = "the time is not before the window's end"
    example: ClassVar[str] = "{check: in_future, column: time_hour, tolerance: 1d}"

    check: Literal["in_future"]

    def condition(self, context: CheckContext) -> str:
        """Before the end."""
        return f"{self._moment} < {context.window_end_sql} - INTERVAL {self._seconds} SECOND"

    def message(self) -> str:
        """What is promised."""
        return f"{self.column} not before the window's end"


class Freshness(BatchCheck):
    """The newest value of ``column`` among the batch's clean rows is at most ``max_age`` older than the end of the window.
    NULLs are ignored, and with ``where`` all other rows; no value at all fails. A value after the end counts as fresh, unless
    `in_past` removes its row.
    """

    summary: ClassVar[str] = "the newest value is at most max_age older than the window's end"
    example: ClassVar[str] = "{check: freshness, column: time_hour, max_age: 6h}"
    takes_where: ClassVar[bool] = True

    check: Literal["freshness"]
    column: str
    """A timestamp or date."""
    max_age: Duration
    """`30s`, `90m`, `6h`, `2d`."""

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """``age_seconds`` of the newest value at the window's end; ``newest`` as text."""
        newest = f"max(CAST({identifier(self.column)} AS TIMESTAMP)) FILTER (WHERE {self.looked_at})"
        end = f"max({context.window_end_sql})"
        return {
            "age_seconds": f"CAST((unix_micros({end}) - unix_micros({newest})) / 1000000 AS DOUBLE)",
            "newest": f"CAST({newest} AS STRING)",
        }

    def misfit(self, types: Mapping[str, str]) -> str:
        """The column is cast."""
        return uncastable(self.column, types, "timestamp")

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Fails when older, or when there is nothing."""
        age, newest = values.get("age_seconds"), values.get("newest")
        observed = {"newest": newest.isoformat() if isinstance(newest, datetime) else newest, "max_age": self.max_age}
        if age is None:
            return Judgement("failed", observed, f"{self.column} has no value{self.of_where}")
        if timedelta(seconds=age) > duration(self.max_age):
            return Judgement(
                "failed",
                observed,
                f"the newest {self.column}{self.of_where} is {newest}, older than {self.max_age} at the window's end",
            )
        return Judgement("passed", observed)
