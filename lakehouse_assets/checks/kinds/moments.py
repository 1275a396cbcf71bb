"""When: dates and times in the past or the future of their window, and how fresh a batch is.

Belongs here: kinds that compare times with the window's end, so that the same batch is judged alike on any day. Does not:
a range of constant dates (values).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from lakehouse_assets.checks.base import CheckContext, Judgement
from lakehouse_assets.checks.families import BatchCheck, ColumnCheck
from lakehouse_assets.checks.parameters import Duration, duration
from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.checks.types import cast_problem


class _Relative(ColumnCheck):
    column: str
    """A timestamp or date."""
    tolerance: Duration = "0s"
    """The accepted distance beyond the end: `30s`, `90m`, `6h`, `2d`."""

    def _compared(self, relation: str, end: str, sign: str) -> str:
        seconds = int(duration(self.tolerance).total_seconds())
        return f"CAST({identifier(self.column)} AS TIMESTAMP) {relation} {end} {sign} INTERVAL {seconds} SECOND"

    def type_problem(self, types: Mapping[str, str]) -> str:
        return cast_problem(self.column, types, "timestamp")


class InPast(_Relative):
    """The time is before the end of the window, or not further after it than ``tolerance``. NULL passes."""

    summary = "the time is before the window's end"
    example = "{check: in_past, column: time_hour, tolerance: 5m}"
    rule = "{column} before the window's end"

    check: Literal["in_past"]

    def condition(self, context: CheckContext) -> str:
        return self._compared(">=", context.window_end_sql, "+")


class InFuture(_Relative):
    """The time is at the end of the window or after it, or not further before it than ``tolerance``. NULL passes."""

    summary = "the time is not before the window's end"
    example = "{check: in_future, column: time_hour, tolerance: 1d}"
    rule = "{column} not before the window's end"

    check: Literal["in_future"]

    def condition(self, context: CheckContext) -> str:
        return self._compared("<", context.window_end_sql, "-")


class Freshness(BatchCheck):
    """The newest value of ``column`` among the batch's clean rows is at most ``max_age`` older than the end of the window.
    NULLs are ignored, and with ``where`` all other rows; no value at all fails. A value after the end counts as fresh, unless
    `in_past` removes its row.
    """

    summary = "the newest value is at most max_age older than the window's end"
    example = "{check: freshness, column: time_hour, max_age: 6h}"
    takes_where = True

    check: Literal["freshness"]
    column: str
    """A timestamp or date."""
    max_age: Duration
    """`30s`, `90m`, `6h`, `2d`."""

    def metrics(self, context: CheckContext) -> dict[str, str]:
        newest = f"max(CAST({identifier(self.column)} AS TIMESTAMP)) FILTER (WHERE {self.counted_rows})"
        end = f"max({context.window_end_sql})"
        return {
            "age_seconds": f"CAST((unix_micros({end}) - unix_micros({newest})) / 1000000 AS DOUBLE)",
            "newest": f"CAST({newest} AS STRING)",
        }

    def type_problem(self, types: Mapping[str, str]) -> str:
        return cast_problem(self.column, types, "timestamp")

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        age, newest = values.get("age_seconds"), values.get("newest")
        observed = {"newest": newest.isoformat() if isinstance(newest, datetime) else newest, "max_age": self.max_age}
        if age is None:
            return Judgement.of(observed, f"{self.column} has no value{self.where_text}")
        text = f"the newest {self.column}{self.where_text} is {newest}, older than {self.max_age} at the window's end"
        return Judgement.of(observed, text if timedelta(seconds=age) > duration(self.max_age) else "")
