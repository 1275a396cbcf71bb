"""A batch against the windows before it: how many rows, or any figure of it.

Belongs here: kinds that compare with what earlier decisions observed. Does not: distributions (decisions/drift), bounds
that are written down (volume, figures).
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from statistics import median
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from lakehouse_assets.checks.base import CheckContext, Judgement
from lakehouse_assets.checks.bounds import bounded, judge_bounds
from lakehouse_assets.checks.history import HistoryCheck, Past
from lakehouse_assets.checks.sql_text import columns_of, of_clean_rows, parse_aggregate


class RowCountRatio(HistoryCheck):
    """The number of rows, divided by the median of the accepted windows before, lies between ``min`` and ``max``.

    Rows are counted as they came, unreadable ones included; there is no NULL. Windows before without rows count; where their
    median is 0, only a batch of no rows passes.
    """

    summary: ClassVar[str] = "the number of rows is like that of the windows before"
    example: ClassVar[str] = "{check: row_count_ratio, windows: 7, min: 0.5, max: 2}"

    check: Literal["row_count_ratio"]
    min: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The least ratio that passes."""
    max: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The greatest ratio that passes."""

    @model_validator(mode="after")
    def _bounds(self) -> "RowCountRatio":
        bounded("row_count_ratio", self.min, self.max, 0)
        return self

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """``rows``."""
        return {"rows": "count(1)"}

    def figures(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """``rows``; of an empty batch 0."""
        return {"rows": int(values.get("rows") or 0)}

    def compare(self, values: Mapping[str, Any], past: Sequence[Past]) -> Judgement:
        """Fails outside the bounds."""
        rows, usual = self.figures(values)["rows"], median(window.rows for window in past)
        ratio = rows / usual if usual else (1.0 if not rows else float("inf"))
        what = f"the number of rows ({rows}) divided by the median of {len(past)} windows before ({usual:g})"
        judged = judge_bounds(what, ratio, self.min, self.max)
        told = {"rows": rows, "median": usual, "windows": len(past), "ratio": ratio if isfinite(ratio) else None}
        text = judged.message
        if not usual and rows:
            judged, text = Judgement("failed"), f"{rows} rows, where the median of {len(past)} windows before is 0"
        return Judgement(judged.status, {**told, "min": self.min, "max": self.max}, text)


class Anomaly(HistoryCheck):
    """A figure of the batch is not strange beside the same figure of the accepted windows before it.

    ``sql`` is an aggregate over the batch's clean rows. It is strange where its modified z-score, 0.6745 (x − median) / MAD,
    is beyond ``score`` on either side (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993); where half of the
    windows have one same figure, so that the MAD is 0, the mean absolute deviation is taken instead (x − median) / (1.2533
    MeanAD). A distance of at most ``floor`` is never strange. NULL or NaN, as of no rows, fails; windows before that had
    none are left out. Only windows in which the same ``sql`` was measured are compared.
    """

    summary: ClassVar[str] = "an aggregate of the batch is not strange beside the windows before"
    example: ClassVar[str] = "{check: anomaly, name: usual_humidity, sql: avg(humidity_percent), windows: 60, floor: 1}"

    check: Literal["anomaly"]
    sql: str
    """One number of all rows, such as `avg(x)` or `count_if(y is null) / count(*)`."""
    score: float = Field(default=3.5, gt=0, allow_inf_nan=False)
    """Beyond which modified z-score a figure is strange."""
    floor: float = Field(default=0, ge=0, allow_inf_nan=False)
    """Up to which distance from the median, in the figure's own unit, nothing is strange."""

    @field_validator("sql")
    @classmethod
    def _an_aggregate(cls, value: str) -> str:
        parse_aggregate(value, "sql")
        return value

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Those of the aggregate."""
        return tuple(sorted(columns_of(parse_aggregate(self.sql, "sql"))))

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """``value``."""
        return {"value": f"CAST({of_clean_rows(parse_aggregate(self.sql, 'sql'))} AS DOUBLE)"}

    def figures(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """``value``, where it is a number, and by which ``sql``."""
        value = values.get("value")
        return {"value": value if value is not None and isfinite(value) else None, "sql": self.sql}

    def usable(self, past: Past) -> bool:
        """Whether the same figure was measured in it, and is a number."""
        return past.observed.get("sql") == self.sql and past.observed.get("value") is not None

    def compare(self, values: Mapping[str, Any], past: Sequence[Past]) -> Judgement:
        """Fails beyond the score, and without a value."""
        told = self.figures(values)
        known = [float(window.observed["value"]) for window in past]
        usual = median(known)
        told |= {"median": usual, "windows": len(known), "score": None, "limit": self.score}
        if told["value"] is None:
            return Judgement("failed", told, f"{self.sql} has no value")
        off = told["value"] - usual
        spread = median(abs(x - usual) for x in known) / 0.6745
        spread = spread or 1.2533 * sum(abs(x - usual) for x in known) / len(known)
        if abs(off) <= self.floor or not off:
            return Judgement("passed", told)
        score = off / spread if spread else None
        told["score"] = score
        if score is not None and abs(score) <= self.score:
            return Judgement("passed", told)
        how = f"{abs(score):.3g} times the usual spread" if score is not None else "and these never differed"
        text = f"{self.sql} is {told['value']:.6g}; the median of {len(known)} windows before is {usual:.6g}, {how}"
        return Judgement("failed", told, f"{text} (promised at most {self.score:g})" if score is not None else text)
