"""Values that follow each other without a gap.

Belongs here: kinds about the steps between neighbours of a sequence. Does not: the calendar of windows (contracts/windows).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from lakehouse_assets.checks.base import BatchCheck, CheckContext, Judgement
from lakehouse_assets.checks.bounds import ROUNDING
from lakehouse_assets.checks.durations import duration
from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.checks.types import uncastable

# By what share of itself a double may be off, four times over: two were subtracted.
EXACT = 4 * 2.0**-52


class NoGaps(BatchCheck):
    """Sorted, the batch's different values are at most ``step`` apart: numbers by a number, times by a duration.

    With ``by``, each group of these columns is a sequence of its own. NULLs are ignored. What is missing before the first value
    or after the last one is not seen: ask `row_count` or `freshness` for that. With ``where``, only those rows are looked at.
    """

    summary: ClassVar[str] = "neighbouring values are at most one step apart"
    example: ClassVar[str] = "{check: no_gaps, column: time_hour, step: 1h, by: [origin]}"
    takes_where: ClassVar[bool] = True

    check: Literal["no_gaps"]
    column: str
    """A number, a date or a timestamp."""
    step: float | str
    """The greatest distance that passes: a number, or a duration such as `30s`, `15m`, `1h`, `1d`."""
    by: tuple[str, ...] = ()
    """Columns of which each group is looked at by itself."""

    @model_validator(mode="after")
    def _positive(self) -> "NoGaps":
        size = duration(self.step).total_seconds() if isinstance(self.step, str) else self.step
        if not 0 < size < float("inf"):
            raise ValueError(f"step: {self.step!r} is not above zero")
        if self.column in self.by:
            raise ValueError(f"by: within one {self.column} there is one value of it, and never a gap")
        return self

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The column, then those of ``by``."""
        return (self.column, *self.by)

    def query_by_window(self, context: CheckContext) -> str | None:
        """``gaps`` per window, and the ``widest`` (in the column's unit; of times in seconds)."""
        column = identifier(self.column)
        timed = isinstance(self.step, str)
        value = f"unix_micros(CAST({column} AS TIMESTAMP)) / 1e6D" if timed else f"CAST({column} AS DOUBLE)"
        step = duration(self.step).total_seconds() if isinstance(self.step, str) else float(self.step)
        groups = ", ".join(["p_extracted_at", *(identifier(name) for name in self.by)])
        inner = f"SELECT DISTINCT {groups}, {value} AS _v FROM {self.rows(context)} WHERE {column} IS NOT NULL"
        steps = f"SELECT p_extracted_at, _v, _v - lag(_v) OVER (PARTITION BY {groups} ORDER BY _v) AS _step FROM ({inner})"
        # Fractions such as 0.1 are not exact, and 0.4 - 0.3 is more than that.
        most = f"{step * (1 + ROUNDING)!r}D + {EXACT!r}D * abs(_v)"
        return (
            f"SELECT p_extracted_at, count_if(_step > {most}) AS gaps, max(_step) AS widest FROM ({steps})"
            " GROUP BY p_extracted_at"
        )

    def misfit(self, types: Mapping[str, str]) -> str:
        """The column is cast."""
        return uncastable(self.column, types, "timestamp" if isinstance(self.step, str) else "number")

    @property
    def no_answer(self) -> dict[str, Any]:
        """No value, no gap."""
        return {"gaps": 0, "widest": None}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Fails on any gap."""
        if "gaps" not in values:
            return Judgement("error", {}, "the steps were not measured")
        gaps, widest = int(values["gaps"]), values.get("widest")
        unit = " s" if isinstance(self.step, str) else ""
        text = (
            f"{gaps} gap(s) of more than {self.step} in {self.column}{self.of_where}, the widest {widest:.10g}{unit}"
            if gaps
            else ""
        )
        observed = {"gaps": gaps, "widest": widest, "step": self.step}
        return Judgement("failed" if gaps else "passed", observed, text)
