"""Control totals: figures of a batch that must equal those that its source reports.

Belongs here: the check that compares with control totals. Does not: where these come from (sources), or other tables
(reconciliation).
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field
from sqlglot import exp

from lakehouse_assets.checks.base import CheckContext, Judgement
from lakehouse_assets.checks.families import BatchCheck
from lakehouse_assets.checks.judgements import ROUNDING
from lakehouse_assets.checks.parameters import Aggregate
from lakehouse_assets.checks.sql.over_no_rows import COUNTS, over_no_rows, strip_filter
from lakehouse_assets.checks.sql.text import columns_of, parse_aggregate


class ControlTotal(BatchCheck):
    """A figure of the batch equals the one that the source reports (`source.control`).

    ``measure`` is an aggregate over all rows as they came, those that fail other checks and those that could not be read among
    them; a value that could not be cast is NULL there. Both sides are compared as doubles; apart from counts, a difference in
    the last digits (1e-9 of the figure) is none. NULL equals NULL, and a sum of no values equals 0. The same holds with a
    `FILTER`. In a batch without rows, counts (also approximate ones) are 0, and other aggregates are NULL. From these follow
    arithmetic, comparisons, `not`, `and`, `or`, `in`, `between`, `is null`, `abs`, `coalesce`, `if`, `case when`, `round`, and
    casts that keep a number. A figure that depends on any other SQL is NULL there. A figure that the source does not report
    fails: a control file that is missing, that cannot be read, or that lacks the figure.
    """

    summary = "a figure of the batch is what the source says that it is"
    example = "{check: control_total, figure: departures, measure: sum(departures)}"

    check: Literal["control_total"]
    figure: str = Field(min_length=1, max_length=100)
    """The figure's name in `source.control`."""
    measure: Aggregate = "count(*)"
    """An aggregate over all rows of the batch."""
    tolerance: float = Field(default=0, ge=0, allow_inf_nan=False)
    """The difference that is allowed, as a share of the source's figure."""

    @property
    def own_columns(self) -> tuple[str, ...]:
        return tuple(sorted(columns_of(self._tree)))

    @property
    def id_parts(self) -> tuple[str, ...]:
        return (self.figure,)

    @property
    def _tree(self) -> exp.Expr:
        return parse_aggregate(self.measure, "measure")

    @property
    def _counts(self) -> bool:
        return isinstance(strip_filter(self._tree), COUNTS)

    def metrics(self, context: CheckContext) -> dict[str, str]:
        return {"own": f"CAST({self._tree.sql(dialect='spark')} AS DOUBLE)"}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        totals = context.control
        if totals is None:
            text = "what the source says was not asked when this was extracted: source.control was not declared yet"
            return Judgement("error", {"figure": self.figure}, text)
        if self.figure not in totals.figures:
            names = ", ".join(sorted(totals.figures)) or "nothing"
            text = totals.problem or f"the source says nothing of {self.figure!r}; it says {names}"
            return Judgement("failed", {"figure": self.figure}, text)
        own, source = values["own"] if "own" in values else over_no_rows(self._tree), totals.figures[self.figure]
        observed = {"figure": self.figure, "own": _finite(own), "source": _finite(source), "tolerance": self.tolerance}
        problem = f"{self.measure} is {_shown(own)}; the source says {_shown(source)}"
        return Judgement.of(observed, "" if self._equal(own, source) else problem)

    def _equal(self, own: float | None, source: float | None) -> bool:
        if isinstance(strip_filter(self._tree), exp.Sum):
            # A source may call the sum of no values nothing, or 0.
            own, source = own or 0.0, source or 0.0
        if own is None or source is None:
            return own is source
        if not math.isfinite(own) or not source:
            return own == source and math.isfinite(own)
        # Divided: a tolerance of 0.29 times 100 is less than 29.
        return abs(own - source) / abs(source) <= max(self.tolerance, 0.0 if self._counts else ROUNDING)


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


def _shown(value: float | None) -> str:
    return "NULL" if value is None else f"{value:.15g}"
