"""The verdict of the drift check: the record that a decision keeps, its JSON, and since when earlier records say the same.

Belongs here: those records. Does not: how they are reached (judge), or the messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nlargest
from typing import Any, Literal, NamedTuple

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.stream_drift import Levels
from lakehouse_assets.decisions import ledger, log_parts
from lakehouse_assets.decisions.drift.feature_result import FeatureResult
from lakehouse_assets.decisions.drift.method import FIRST_METHOD, METHOD
from lakehouse_assets.decisions.drift.moving_sum import MovingSum
from lakehouse_assets.decisions.drift.profiles import Key

Status = Literal["cold_start", "uncalibrated", "calibrated_warn_only", "calibrated", "error"]
Action = Literal["pass", "warn", "hold"]
# The earlier windows that are compared, quarantined ones too. A longer drift was reported long ago.
LOOK_BACK = 60


class WindowFinding(NamedTuple):
    """The result for one batch by itself: action, least p-value, its score in deviations of the past, and farthest feature."""

    action: Action
    p_value: float
    score: float | None
    worst: FeatureResult | None


@dataclass(frozen=True)
class DriftVerdict:
    """The judgement. ``p_value`` and ``score`` are None at a cold start, in error, and for a batch without rows; uncalibrated,
    ``p_value`` is the least of Monte Carlo's, corrected by Holm. ``windows_known``: windows with a statistic of the best-known
    feature. ``statistics``: for the history, if the window is accepted. ``absent``: features and strata of the baseline without
    a row in this batch (named, not judged). ``unwatched``: those whose windows differ too much for a fault to be noticed.
    ``learns``: False where the baseline is too far from its pinned reference. ``levels``: of a stream, those of this window.
    ``method``: the version of the method that it follows.
    """

    status: Status
    action: Action
    message: str
    p_value: float | None = None
    score: float | None = None
    windows_known: int = 0
    windows_until_warn: int = 0
    windows_until_hold: int = 0
    results: tuple[FeatureResult, ...] = ()
    worst: FeatureResult | None = None
    absent: tuple[Key, ...] = ()
    unwatched: tuple[Key, ...] = ()
    statistics: Mapping[Key, Mapping[str, float]] = field(default_factory=dict)
    moving_sum: MovingSum | None = None
    learns: bool = True
    since: Any = None
    levels: Levels | None = None
    method: int = METHOD

    @property
    def calibrated(self) -> bool:
        """Whether the p-value is a rank among windows of history."""
        return self.status in ("calibrated", "calibrated_warn_only")

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe; `read_statistics` reads the statistics back from it."""
        plain = {
            k: getattr(self, k)
            for k in ("status", "action", "message", "p_value", "score", "windows_known", "learns", "method")
        }
        plain |= {"windows_until_warn": self.windows_until_warn, "windows_until_hold": self.windows_until_hold}
        plain["results"] = [result.to_dict() for result in self.results]
        plain["worst"] = self.worst.to_dict() if self.worst else None
        plain["absent"] = [list(key) for key in self.absent]
        plain["unwatched"] = [list(key) for key in self.unwatched]
        plain["statistics"] = [[feature, stratum, dict(s)] for (feature, stratum), s in self.statistics.items()]
        plain["lasting"] = self.moving_sum.to_dict() if self.moving_sum else None
        plain["since"] = None if self.since is None else str(self.since)
        # Verdicts of other tables are what they were before streams had levels.
        return plain | ({"levels": self.levels._asdict()} if self.levels else {})


def read_statistics(verdict: Mapping[str, Any]) -> dict[Key, dict[str, float]]:
    """The statistics in a verdict's `to_dict`. Raises KeyError when it is not one."""
    return {(feature, stratum): dict(values) for feature, stratum, values in verdict["statistics"]}


def read_method(verdict: Mapping[str, Any] | None) -> int:
    """The version of the method in a verdict's `to_dict`; where there is no verdict, today's."""
    return int(verdict.get("method", FIRST_METHOD)) if verdict is not None else METHOD


def find_drift_start(
    decisions: Iterable[Decision], earlier: Mapping[str, Mapping[str, Any]], start: datetime, worst: FeatureResult
) -> datetime | None:
    """The first of the windows right before ``start`` that all drifted, with this feature and stratum the farthest off, to the
    same side; None where the window before did not. ``earlier``: drift verdicts by id of decisions that were read without.
    """
    latest = _latest_before(decisions, start, start)
    since = None
    for window in sorted(latest, reverse=True)[:LOOK_BACK]:
        drift = latest[window].drift or earlier.get(latest[window].decision_id) or {}
        then = drift.get("worst") or {}
        if drift.get("action") not in ("warn", "hold") or (then.get("feature"), then.get("stratum")) != worst.key:
            break
        # Lower today is nothing that began with yesterday's higher.
        if (then.get("median_shift") or 0.0) * (worst.median_shift or 0.0) < 0:
            break
        since = window
    return since


def windows_compared(decisions: Iterable[Decision], starts: Sequence[datetime]) -> tuple[datetime, datetime] | None:
    """The first and the last decided window that `find_drift_start` may compare with one of ``starts``; None for none."""
    windows = _latest_before(decisions, min(starts), max(starts))
    return (min(windows), max(windows)) if windows else None


def _latest_before(decisions: Iterable[Decision], first: datetime, end: datetime) -> dict[datetime, Decision]:
    """The current decision of each window, on its last extraction: of the windows from ``first`` to before ``end``, and of
    `LOOK_BACK` before them.
    """
    current = ledger.current_decisions(log_parts.since_windows(decisions, first, LOOK_BACK)).values()
    before = [d for d in current if d.p_extracted_at and d.p_extracted_at < end and d.superseded_by is None]
    earlier = nlargest(LOOK_BACK, {start for d in before if (start := d.p_extracted_at) and start < first})
    oldest = min(earlier, default=first)
    return ledger.newest_by_window(d for d in before if d.p_extracted_at and d.p_extracted_at >= oldest)
