"""Figures of one column over a batch: shares, moments, extremes, quantiles.

Belongs here: kinds that measure a column in the scan and compare the figure with bounds. Does not: counting rows (volume),
distinct values (uniqueness), aggregates of one's own (sql), drift (decisions).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from lakehouse_assets.checks.base import BatchCheck, CheckContext, Judgement
from lakehouse_assets.checks.bounds import bounded, judge_bounds
from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.checks.types import uncastable


class NullShare(BatchCheck):
    """The share of the batch's clean rows (with ``where``, of those) in which the column is NULL is at most ``max``. A batch
    without rows has none.
    """

    summary: ClassVar[str] = "at most so large a share of the values is NULL"
    example: ClassVar[str] = "{check: null_share, column: tail_number, max: 0.02}"
    takes_where: ClassVar[bool] = True

    check: Literal["null_share"]
    column: str
    """The column."""
    max: float = Field(ge=0, lt=1)
    """The greatest share that passes. 1 could never be missed."""

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """``nulls`` among ``rows``."""
        return {
            "nulls": f"count_if({self.looked_at} AND {identifier(self.column)} IS NULL)",
            "rows": f"count_if({self.looked_at})",
        }

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Fails above the share."""
        rows, nulls = int(values.get("rows") or 0), int(values.get("nulls") or 0)
        observed = {"nulls": nulls, "rows": rows, "share": nulls / rows if rows else 0.0, "max": self.max}
        if nulls <= self.max * rows:
            return Judgement("passed", observed)
        text = f"{nulls} of {rows} values of {self.column}{self.of_where} are NULL, promised at most {self.max:.4%}"
        return Judgement("failed", observed, text)


class Statistic(BatchCheck):
    """A statistic of the column over the batch's clean rows (with ``where``, over those) lies between ``min`` and ``max``, both
    included.

    NULLs are ignored; without any value the check fails. NaN is a value: it makes mean, sum and deviation NaN, which fails, and
    is above all numbers for the others. A statistic that is infinite fails, whatever the bounds. ``stddev`` is the sample's.
    ``median`` and ``quantile`` are Spark's approximate percentile, within 1/10,000 of the rank.
    """

    summary: ClassVar[str] = "a statistic of the column is between min and max"
    example: ClassVar[str] = "{check: statistic, column: humidity_percent, of: quantile, quantile: 0.95, max: 99}"
    takes_where: ClassVar[bool] = True

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
    def _fitting(self) -> "Statistic":
        bounded("statistic", self.min, self.max)
        if self.of == "stddev" and self.max is not None and self.max < 0:
            raise ValueError(f"max {self.max}: no standard deviation is below 0, so that nothing could pass")
        if (self.of == "quantile") != (self.quantile is not None):
            raise ValueError("quantile: is needed for `of: quantile`, and has no meaning without it")
        return self

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    @property
    def parts(self) -> tuple[str, ...]:
        """The statistic and the column."""
        return (self.of if self.quantile is None else f"q{self.quantile:g}", self.column)

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """``value``. Sums are of doubles: a sum that overflows its type would stop the scan."""
        value = f"CAST({identifier(self.column)} AS DOUBLE)"
        rank = 0.5 if self.of == "median" else self.quantile
        call = {
            "mean": f"avg({value})",
            "sum": f"sum({value})",
            "stddev": f"stddev_samp({value})",
            "min": f"min({value})",
            "max": f"max({value})",
        }.get(self.of, f"percentile_approx({value}, {rank!r}D, 10000)")
        return {"value": f"{call} FILTER (WHERE {self.looked_at})"}

    def misfit(self, types: Mapping[str, str]) -> str:
        """The column is cast."""
        return uncastable(self.column, types, "number")

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Fails outside the bounds."""
        what = f"the {self.of if self.quantile is None else f'{self.quantile:g} quantile'} of {self.column}{self.of_where}"
        return judge_bounds(what, values.get("value"), self.min, self.max)
