"""A batch against the windows before it: how many rows, or any figure of it.

Belongs here: kinds that compare with what earlier decisions observed. Does not: distributions (decisions/drift), bounds
that are written down (volume, figures).
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from statistics import median
from typing import Any, Literal

from pydantic import Field

from lakehouse_assets.checks.base import CheckContext, Judgement
from lakehouse_assets.checks.families import BoundedCheck, HistoryCheck, Past
from lakehouse_assets.checks.judgements import judge_bounds
from lakehouse_assets.checks.kinds.sql import AggregateCheck
from lakehouse_assets.checks.parameters import Aggregate


class RowCountRatio(BoundedCheck, HistoryCheck):
    """The number of rows, divided by the median of earlier accepted windows, is between ``min`` and ``max``.

    Rows are counted as they came, unreadable ones included; there is no NULL. Windows before without rows count; where their
    median is 0, only a batch of no rows passes.
    """

    summary = "the number of rows is like that of the windows before"
    example = "{check: row_count_ratio, windows: 7, min: 0.5, max: 2}"
    lowest = 0

    check: Literal["row_count_ratio"]
    min: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The least ratio that passes."""
    max: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The greatest ratio that passes."""

    def metrics(self, context: CheckContext) -> dict[str, str]:
        return {"rows": "count(1)"}

    def figures(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"rows": int(values.get("rows") or 0)}

    def compare(self, values: Mapping[str, Any], past: Sequence[Past]) -> Judgement:
        rows, usual = self.figures(values)["rows"], median(window.rows for window in past)
        ratio = rows / usual if usual else (1.0 if not rows else float("inf"))
        what = f"the number of rows ({rows}) divided by the median of {len(past)} windows before ({usual:g})"
        problem = judge_bounds(what, ratio, self.min, self.max).message
        if not usual and rows:
            problem = f"{rows} rows, where the median of {len(past)} windows before is 0"
        observed = {"rows": rows, "median": usual, "windows": len(past), "ratio": ratio if isfinite(ratio) else None}
        return Judgement.of({**observed, "min": self.min, "max": self.max}, problem)


class Anomaly(AggregateCheck, HistoryCheck):
    """A figure of the batch is no outlier among the same figure of earlier accepted windows.

    ``sql`` is an aggregate over the batch's clean rows. It is an outlier if its modified z-score, 0.6745 (x − median) / MAD,
    is beyond ``score`` on either side. Source: Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993. If half of the
    windows have one same figure, the MAD is 0. Then the mean absolute deviation is used: (x − median) / (1.2533 MeanAD). A
    distance up to ``floor`` is never an outlier. NULL or NaN, as of no rows, fails; earlier windows without a figure are left
    out. Only windows in which the same ``sql`` was measured are compared.
    """

    summary = "an aggregate of the batch is not strange beside the windows before"
    example = "{check: anomaly, name: usual_humidity, sql: avg(humidity_percent), windows: 60, floor: 1}"

    check: Literal["anomaly"]
    sql: Aggregate
    """One number of all rows, such as `avg(x)` or `count_if(y is null) / count(*)`."""
    score: float = Field(default=3.5, gt=0, allow_inf_nan=False)
    """The modified z-score beyond which a figure is an outlier."""
    floor: float = Field(default=0, ge=0, allow_inf_nan=False)
    """The distance from the median, in the figure's own unit, up to which nothing is an outlier."""

    def figures(self, values: Mapping[str, Any]) -> dict[str, Any]:
        value = values.get("value")
        return {"value": value if value is not None and isfinite(value) else None, "sql": self.sql}

    def is_comparable(self, past: Past) -> bool:
        return past.observed.get("sql") == self.sql and past.observed.get("value") is not None

    def compare(self, values: Mapping[str, Any], past: Sequence[Past]) -> Judgement:
        earlier = [float(window.observed["value"]) for window in past]
        usual = median(earlier)
        observed = self.figures(values) | {"median": usual, "windows": len(earlier), "score": None, "limit": self.score}
        value = observed["value"]
        if value is None:
            return Judgement("failed", observed, f"{self.sql} has no value")
        distance, deviations = value - usual, [abs(x - usual) for x in earlier]
        if abs(distance) <= self.floor or not distance:
            return Judgement("passed", observed)
        spread = median(deviations) / 0.6745 or 1.2533 * sum(deviations) / len(deviations)
        text = f"{self.sql} is {value:.6g}; the median of {len(earlier)} windows before is {usual:.6g}"
        if not spread:
            return Judgement("failed", observed, f"{text}, and these never differed")
        score = observed["score"] = distance / spread
        text += f", {abs(score):.3g} times the usual spread (promised at most {self.score:g})"
        return Judgement.of(observed, text if abs(score) > self.score else "")
