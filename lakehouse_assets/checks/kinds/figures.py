"""Figures of one column over a batch: shares, moments, extremes, quantiles.

Belongs here: kinds that measure a column in the scan and compare the figure with bounds. Does not: counting rows (volume),
distinct values (uniqueness), aggregates of one's own (sql), drift (decisions).
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from lakehouse_assets.checks.base import CheckContext, Judgement
from lakehouse_assets.checks.families import BatchCheck, BoundedCheck
from lakehouse_assets.checks.judgements import judge_bounds
from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.checks.types import cast_problem

FUNCTIONS = {"mean": "avg", "stddev": "stddev_samp"}


class NullShare(BatchCheck):
    """The share of the batch's clean rows (with ``where``, of those) in which the column is NULL is at most ``max``. A batch
    without rows has none.
    """

    summary = "at most so large a share of the values is NULL"
    example = "{check: null_share, column: tail_number, max: 0.02}"
    takes_where = True

    check: Literal["null_share"]
    column: str
    """The column."""
    max: float = Field(ge=0, lt=1)
    """The greatest share that passes. 1 is refused, since every batch would pass."""

    def metrics(self, context: CheckContext) -> dict[str, str]:
        return {
            "nulls": f"count_if({self.counted_rows} AND {identifier(self.column)} IS NULL)",
            "rows": f"count_if({self.counted_rows})",
        }

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        rows, nulls = int(values.get("rows") or 0), int(values.get("nulls") or 0)
        observed = {"nulls": nulls, "rows": rows, "share": nulls / rows if rows else 0.0, "max": self.max}
        text = f"{nulls} of {rows} values of {self.column}{self.where_text} are NULL, promised at most {self.max:.4%}"
        return Judgement.of(observed, text if rows and nulls / rows > self.max else "")


class Statistic(BoundedCheck, BatchCheck):
    """A statistic of the column over the batch's clean rows (with ``where``, over those) is between ``min`` and ``max``, both
    included.

    NULLs are ignored; without any value the check fails. NaN is a value: it makes mean, sum and deviation NaN, which fails,
    and is above all numbers for the others. A statistic that is infinite fails, whatever the bounds. ``stddev`` is the
    sample's. ``median`` and ``quantile`` are Spark's approximate percentile, within 1/10,000 of the rank.
    """

    summary = "a statistic of the column is between min and max"
    example = "{check: statistic, column: humidity_percent, of: quantile, quantile: 0.95, max: 99}"
    takes_where = True

    check: Literal["statistic"]
    column: str
    """A numeric column."""
    of: Literal["mean", "sum", "stddev", "min", "max", "median", "quantile"]
    """Which statistic."""
    quantile: float | None = Field(default=None, ge=0, le=1)
    """Of a quantile: which, as a share of the values below it."""
    min: float | None = Field(default=None, allow_inf_nan=False)
    """The least value that passes."""
    max: float | None = Field(default=None, allow_inf_nan=False)
    """The greatest value that passes."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.of == "stddev" and self.max is not None and self.max < 0:
            raise ValueError(f"max {self.max}: no standard deviation is below 0, so that nothing could pass")
        if (self.of == "quantile") != (self.quantile is not None):
            raise ValueError("quantile: is needed for `of: quantile`, and has no meaning without it")
        return self

    @property
    def id_parts(self) -> tuple[str, ...]:
        return (self.of if self.quantile is None else f"q{self.quantile:g}", self.column)

    def metrics(self, context: CheckContext) -> dict[str, str]:
        value = f"CAST({identifier(self.column)} AS DOUBLE)"
        # The sum is of doubles: one that overflows its type would stop the scan.
        call = f"{FUNCTIONS.get(self.of, self.of)}({value})"
        if self.of in ("median", "quantile"):
            call = f"percentile_approx({value}, {0.5 if self.of == 'median' else self.quantile!r}D, 10000)"
        return {"value": f"{call} FILTER (WHERE {self.counted_rows})"}

    def type_problem(self, types: Mapping[str, str]) -> str:
        return cast_problem(self.column, types, "number")

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        what = f"the {self.of if self.quantile is None else f'{self.quantile:g} quantile'} of {self.column}{self.where_text}"
        return judge_bounds(what, values.get("value"), self.min, self.max)
