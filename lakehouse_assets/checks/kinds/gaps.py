"""Values that follow each other without a gap.

Belongs here: kinds about the steps between neighbours of a sequence. Does not: the calendar of windows (contracts/windows).
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import model_validator

from lakehouse_assets.checks.base import CheckContext, Judgement
from lakehouse_assets.checks.families import BatchCheck
from lakehouse_assets.checks.judgements import ROUNDING
from lakehouse_assets.checks.parameters import duration
from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.checks.types import cast_problem

# By what share of itself a double may be off, four times over: two were subtracted.
EXACT = 4 * 2.0**-52
DIFFERENCE = "decimal(38,18)"  # each whole number, and nearly each decimal
INTEGER_TYPES = ("tinyint", "smallint", "int", "bigint")


class NoGaps(BatchCheck):
    """Sorted, the batch's different values are at most ``step`` apart: numbers by a number, times by a duration.

    Whole numbers and decimals are subtracted exactly, others as doubles. With ``by``, each group of these columns is a sequence
    of its own. NULLs are ignored. A gap before the first value or after
    the last one is not detected: use ``row_count`` or ``freshness`` for that. With ``where``, only those rows are read.
    """

    summary = "neighbouring values are at most one step apart"
    example = "{check: no_gaps, column: time_hour, step: 1h, by: [origin]}"
    takes_where = True

    check: Literal["no_gaps"]
    column: str
    """A number, a date or a timestamp."""
    step: float | str
    """The greatest distance that passes: a number, or a duration such as `30s`, `15m`, `1h`, `1d`."""
    by: tuple[str, ...] = ()
    """Columns whose groups are tested separately."""

    @model_validator(mode="after")
    def _positive(self) -> Self:
        if not 0 < self._size < float("inf"):
            raise ValueError(f"step: {self.step!r} is not above zero")
        if self.column in self.by:
            raise ValueError(f"by: {self.column} has a single value in each of its own groups, and never a gap")
        return self

    @property
    def _size(self) -> float:
        """The step, of times in seconds."""
        return duration(self.step).total_seconds() if isinstance(self.step, str) else float(self.step)

    @property
    def own_columns(self) -> tuple[str, ...]:
        return (self.column, *self.by)

    def query_by_window(self, context: CheckContext) -> str | None:
        column = identifier(self.column)
        seconds = f"unix_micros(CAST({column} AS TIMESTAMP)) / 1e6D"
        value = seconds if isinstance(self.step, str) else f"CAST({column} AS DOUBLE)"
        groups = ", ".join(["p_extracted_at", *(identifier(name) for name in self.by)])
        values = f"{value} AS _v, {self._exact_value} AS _e"
        inner = f"SELECT DISTINCT {groups}, {values} FROM {self.rows(context)} WHERE {column} IS NOT NULL"
        before = f"OVER (PARTITION BY {groups} ORDER BY _v, _e)"
        differences = f"_v - lag(_v) {before} AS _far, CAST(_e - lag(_e) {before} AS DOUBLE) AS _exact"
        steps = (
            f"SELECT p_extracted_at, _v, _exact, coalesce(_exact, _far) AS _step FROM (SELECT *, {differences} FROM ({inner}))"
        )
        # Fractions such as 0.1 are not exact, and 0.4 - 0.3 is more than that.
        most = f"{self._size * (1 + ROUNDING)!r}D + {EXACT!r}D * abs(_v)"
        # No comparison of infinities finds that one is farther than the other, nor that NaN is.
        gap = f"_step > {most} OR (_step IS NOT NULL AND NOT abs(_v) < DOUBLE('Infinity'))"
        gap = f"CASE WHEN _exact IS NOT NULL THEN _exact > {self._size!r}D ELSE {gap} END"
        return f"SELECT p_extracted_at, count_if({gap}) AS gaps, max(_step) AS widest FROM ({steps}) GROUP BY p_extracted_at"

    @property
    def _exact_value(self) -> str:
        """SQL of a whole number or decimal as it is, since doubles beyond 2^53 are more than 1 apart. NULL for other types;
        Spark knows the column's type when it plans.
        """
        if isinstance(self.step, str):
            return f"CAST(NULL AS {DIFFERENCE})"
        column, integers = identifier(self.column), ", ".join(map(literal, INTEGER_TYPES))
        is_exact = f"typeof({column}) IN ({integers}) OR startswith(typeof({column}), 'decimal')"
        return f"CASE WHEN {is_exact} THEN try_cast({column} AS {DIFFERENCE}) END"

    def type_problem(self, types: Mapping[str, str]) -> str:
        return cast_problem(self.column, types, "timestamp" if isinstance(self.step, str) else "number")

    @property
    def default_metrics(self) -> dict[str, Any]:
        return {"gaps": 0, "widest": None}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        if "gaps" not in values:
            return Judgement("error", {}, "the steps were not measured")
        gaps, widest = int(values["gaps"]), values.get("widest")
        text = f"{gaps} gap(s) of more than {self.step} in {self.column}{self.where_text}"
        if gaps:
            text += f", the widest {widest:.10g}{' s' if isinstance(self.step, str) else ''}"
        return Judgement.of({"gaps": gaps, "widest": widest, "step": self.step}, text if gaps else "")
