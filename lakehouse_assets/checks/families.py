"""The families of checks: of rows, of batches, of figures between bounds, and of a batch beside accepted windows before it.

Belongs here: what the kinds of a family have in common. Does not: any kind (kinds/), or which windows there are
(decisions/history).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from lakehouse_assets.checks.base import Check, CheckContext, Judgement
from lakehouse_assets.checks.sql.text import identifier

ROWS_OF_WHERE = "looked_at"  # the metric that counts them


class RowCheck(Check):
    """A row passes or fails. NULL passes every kind but `not_null`. Only rows of `where` are checked."""

    rule: ClassVar[str]
    """The rule, as a format string over the kind's parameters: `{column} present`."""

    @property
    def scope(self) -> Literal["row", "batch"]:
        """Single rows."""
        return "row"

    @property
    def value_column(self) -> str | None:
        """The column whose value is shown for a failing row."""
        return self.columns_used[0] if self.columns_used else None

    def condition(self, context: CheckContext) -> str:
        """Return Spark SQL that is true for a failing row; NULL counts as passing."""
        raise NotImplementedError  # each kind

    def failing(self, context: CheckContext) -> str:
        """Return Spark SQL that is TRUE for a failing row and else FALSE, never NULL."""
        failing = f"coalesce({self.condition(context)}, FALSE)"
        return f"({self.where_sql} AND {failing})" if self.where else failing

    @property
    def counts_where(self) -> bool:
        """Whether the rows of its `where` are counted, since its threshold is a share of them."""
        return self.where is not None and self.threshold is not None

    def metrics(self, context: CheckContext) -> dict[str, str]:
        """Return the count of the rows of `where`, if the threshold is a share of them."""
        return {ROWS_OF_WHERE: f"count_if({self.where_sql})"} if self.counts_where else {}

    def message(self) -> str:
        """Return the rule in a few words."""
        return self.rule.format_map(dict(self))


class ColumnCheck(RowCheck):
    """A row check of one column."""

    if TYPE_CHECKING:
        column: str  # each kind declares and describes its own, in its order among the parameters


class BatchCheck(Check):
    """The batch as a whole passes or fails, by fused metrics of the scan or by a query of its own."""

    @property
    def counted_rows(self) -> str:
        """SQL over the staging, TRUE for the rows that count: clean ones, of which those of `where`."""
        return f"(_clean AND {self.where_sql})" if self.where else "_clean"

    def rows(self, context: CheckContext) -> str:
        """Return what its own query reads, as SQL after FROM: the batch's clean rows, of which those of `where`."""
        view = identifier(context.batch_view)
        return f"(SELECT * FROM {view} WHERE {self.where_sql})" if self.where else view  # noqa: S608 (parsed and guarded)

    @property
    def where_text(self) -> str:
        """`where`, for a message."""
        return f" where {self.where}" if self.where else ""

    def query_by_window(self, context: CheckContext) -> str | None:
        """Return SQL over the batch view with ``p_extracted_at`` and metrics, a row per window; None if all metrics are fused.

        A metric ``examples``, a list of short texts, takes the place of `examples`. A row whose ``p_extracted_at`` is NULL
        stands for every window without a row of its own: those without clean rows.
        """
        return None

    @property
    def repeated_columns(self) -> Sequence[str]:
        """The columns of which its query needs only rows that share all their values with another row of the batch, if any. The
        query evaluates nothing else that could fail.
        """
        return ()

    def is_fused(self, context: CheckContext) -> bool:
        """Whether it has no query of its own."""
        return self.query_by_window(context) is None

    def examples(self, context: CheckContext) -> str | None:
        """Return SQL over the batch view with ``p_extracted_at`` and ``value``, a failing value as text; None without examples.

        It runs for batches with `has_failures`. A few of its rows are added to the metrics as ``examples``.
        """
        return None

    def has_failures(self, values: Mapping[str, Any]) -> bool:
        """Return whether a batch with these metrics has examples."""
        return False

    @property
    def needs_windows(self) -> bool:
        """Whether its query also reads the windows' bounds."""
        return False

    @property
    def default_metrics(self) -> dict[str, Any]:
        """The metrics of a window without a row in its query's result."""
        return {}


class BoundedCheck(Check):
    """A check of a figure between `min` and `max`. One of them is required; a bound that every batch meets is refused."""

    lowest: ClassVar[float | None] = None
    """The lowest possible figure."""

    if TYPE_CHECKING:
        min: Any  # each kind declares and describes its own
        max: Any

    @model_validator(mode="after")
    def _ordered_bounds(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError(f"{self.check} needs min, max or both")
        if self.max is None and self.lowest is not None and self.min == self.lowest:
            raise ValueError(f"min {self.min} always passes; set max, or a greater min")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


@dataclass(frozen=True)
class Past:
    """An earlier accepted window: its start, its rows, and what the same check observed in it."""

    start: datetime
    rows: int
    observed: Mapping[str, Any]


class HistoryCheck(BatchCheck):
    """The batch is compared with accepted windows before it, as they are known when it is judged."""

    windows: int = Field(default=30, ge=1, le=1000)
    """The number of windows for the comparison: the last ones before it."""
    least: int = Field(default=5, ge=1, le=1000)
    """With fewer earlier windows than this, a batch is not judged: the check is *skipped*."""
    season: Literal["hour", "weekday", "month"] | None = None
    """Only windows of the same hour of the day, day of the week or month of the year (UTC, by their start) are compared."""

    @model_validator(mode="after")
    def _enough_windows(self) -> Self:
        if self.least > self.windows:
            raise ValueError(f"least: {self.least} is above windows: {self.windows}; it would never be judged")
        return self

    def in_season(self, start: datetime, other: datetime) -> bool:
        """Return whether two windows are comparable."""
        if self.season == "weekday":
            return start.weekday() == other.weekday()
        return self.season is None or getattr(start, self.season) == getattr(other, self.season)

    def is_comparable(self, past: Past) -> bool:
        """Return whether an earlier window has the figure that is compared."""
        return True

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        """Return an error: a batch is judged with its history, by `judge_against`."""
        return Judgement("error", {}, "the windows before were not looked up")

    def judge_against(self, values: Mapping[str, Any], context: CheckContext, past: Sequence[Past]) -> Judgement:
        """Judge the batch against the windows before it, at most ``windows`` of them."""
        if len(past) < self.least:
            message = f"not judged: there are {len(past)} of the {self.least} accepted windows before it that are needed"
            return Judgement("skipped", self.figures(values), message)
        return self.compare(values, past)

    def figures(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the observed figures of the batch. Later windows are compared with them."""
        raise NotImplementedError  # each kind

    def compare(self, values: Mapping[str, Any], past: Sequence[Past]) -> Judgement:
        """Judge the batch against enough earlier windows."""
        raise NotImplementedError  # each kind
