"""Figures of a batch that agree with what the source itself says of it: is all of it here?

Belongs here: the check that compares with control totals. Does not: where these come from (sources), or other tables
(reconciliation).
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator
from sqlglot import exp

from lakehouse_assets.checks.base import BatchCheck, CheckContext, Judgement
from lakehouse_assets.checks.bounds import ROUNDING
from lakehouse_assets.checks.sql_text import columns_of, parse_aggregate


class ControlTotal(BatchCheck):
    """A figure of the batch is what the source says that it is (`source.control`).

    ``measure`` is an aggregate over all rows as they came, those that fail other checks and those that could not be read among
    them; a value that could not be cast is NULL there. Both sides are compared as doubles; apart from counts, a difference
    in the last digits (1e-9 of the figure) is none. NULL equals NULL, and a sum of no values equals 0. What the source does not
    say fails: a control file that is missing, that cannot be read, or that has no such figure.
    """

    summary: ClassVar[str] = "a figure of the batch is what the source says that it is"
    example: ClassVar[str] = "{check: control_total, figure: departures, measure: sum(departures)}"

    check: Literal["control_total"]
    figure: str = Field(min_length=1, max_length=100)
    """The name that `source.control` has for it."""
    measure: str = "count(*)"
    """An aggregate over all rows of the batch."""
    tolerance: float = Field(default=0, ge=0, allow_inf_nan=False)
    """The difference that is allowed, as a share of the source's figure."""

    @field_validator("measure")
    @classmethod
    def _an_aggregate(cls, value: str) -> str:
        parse_aggregate(value, "measure")
        return value

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Those of the aggregate."""
        return tuple(sorted(columns_of(self._tree)))

    @property
    def parts(self) -> tuple[str, ...]:
        """The figure."""
        return (self.figure,)

    @property
    def _tree(self) -> exp.Expr:
        return parse_aggregate(self.measure, "measure")

    @property
    def _counts(self) -> bool:
        return isinstance(self._tree, exp.Count | exp.CountIf)

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """``own``."""
        return {"own": f"CAST({self._tree.sql(dialect='spark')} AS DOUBLE)"}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Fails where the figures differ, and where the source says none."""
        told = context.control
        if told is None:
            text = "what the source says was not asked when this was extracted: source.control was not declared yet"
            return Judgement("error", {"figure": self.figure}, text)
        if self.figure not in told.figures:
            known = ", ".join(sorted(told.figures)) or "nothing"
            text = told.problem or f"the source says nothing of {self.figure!r}; it says {known}"
            return Judgement("failed", {"figure": self.figure}, text)
        own, source = values.get("own", 0.0 if self._counts else None), told.figures[self.figure]
        observed = {"figure": self.figure, "own": _plain(own), "source": _plain(source), "tolerance": self.tolerance}
        if self._equal(own, source):
            return Judgement("passed", observed)
        return Judgement("failed", observed, f"{self.measure} is {_shown(own)}; the source says {_shown(source)}")

    def _equal(self, own: float | None, source: float | None) -> bool:
        if isinstance(self._tree, exp.Sum):
            # A source may call the sum of no values nothing, or 0.
            own, source = own or 0.0, source or 0.0
        if own is None or source is None:
            return own is source
        allowed = max(self.tolerance, 0.0 if self._counts else ROUNDING) * abs(source)
        return math.isfinite(own) and abs(own - source) <= allowed


def _plain(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


def _shown(value: float | None) -> str:
    return "NULL" if value is None else f"{value:.15g}"
