"""The drift verdict on a batch: is it distributed as the accepted windows before it?

Belongs here: the order of the judgement. Does not: statistics (feature_result), ranks and chance (single_window), sums over
windows (moving_sum), the messages, or the verdict's effect (gate).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.contracts.stream_drift import StreamDriftSpec
from lakehouse_assets.decisions.drift import messages
from lakehouse_assets.decisions.drift.baseline import Baseline, read_shape
from lakehouse_assets.decisions.drift.baseline_state import count_values
from lakehouse_assets.decisions.drift.categories import Categories
from lakehouse_assets.decisions.drift.distances import Ecdf
from lakehouse_assets.decisions.drift.excess import LARGEST_SHARE, find_category, find_exact_interval, find_interval
from lakehouse_assets.decisions.drift.feature_result import FeatureResult, compare_features
from lakehouse_assets.decisions.drift.method import METHOD
from lakehouse_assets.decisions.drift.moving_sum import find_largest_sum
from lakehouse_assets.decisions.drift.named_rows import LEAST_PRECISION
from lakehouse_assets.decisions.drift.past_statistics import PastStatistics
from lakehouse_assets.decisions.drift.profiles import Key, Profile
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.drift.single_window import (
    ByChance,
    compare_with_chance,
    confirm_by_history,
    rank_batch,
)
from lakehouse_assets.decisions.drift.slice_scores import SLICE, SliceScores
from lakehouse_assets.decisions.drift.slices import Slices
from lakehouse_assets.decisions.drift.statistic_history import StatisticHistory
from lakehouse_assets.decisions.drift.verdict import Action, DriftVerdict, Status, WindowFinding
from lakehouse_assets.decisions.drift.watching import find_watches

Since = Callable[[FeatureResult], Any]


def judge_drift(
    measurements: Sequence[Measurement],
    baseline: Baseline,
    history: StatisticHistory,
    spec: DriftSpec,
    *,
    window: Any = None,
    since: Since = lambda _: None,
    by_chance: ByChance | None = None,
    rows_apart: int = 0,
    method: int = METHOD,
) -> DriftVerdict:
    """Judge one batch by what is known when it is decided. Never raises for its content: that is an error, and quarantines it.

    Every statistic of every feature and stratum is standardized by its own past, leaving itself out; their maximum is ranked
    among the past windows' maxima (`conformal_p_value`). A silent feature (rows, no value) is as far off as can be; a stratum
    without rows is no evidence. A statistic takes part once it has enough windows of its own. Until history is long enough,
    p-values are of Monte Carlo, and only warn. ``window``: the batch's label in `StatisticHistory`. ``since``: gives the first
    of the unbroken run of windows that were off as this one; called only where it drifts. ``by_chance``: p-values of relations
    while uncalibrated, which profiles alone cannot give. ``rows_apart``: rows of the window that are not measured, since drift
    has named them; they count in the volume. ``method``: the version to judge by, which a replay takes from the record.
    """
    try:
        verdict = _judge(measurements, baseline, history, spec, window, since, by_chance or {}, rows_apart, method)
        return replace(verdict, method=method)
    except Exception as error:
        # Whatever it is: the run's other windows go on.
        return DriftVerdict("error", "hold", f"the features cannot be compared: {str(error) or type(error).__name__}")


def _judge(
    measurements: Sequence[Measurement],
    baseline: Baseline,
    history: StatisticHistory,
    spec: DriftSpec,
    window: Any,
    since: Since,
    by_chance: ByChance,
    rows_apart: int,
    method: int,
) -> DriftVerdict:
    declared = {feature.name for feature in spec.features}
    measurements = [m for m in measurements if not isinstance(m, Profile) or m.feature in declared]
    profiles = [m for m in measurements if isinstance(m, Profile)]
    measured = {profile.feature for profile in profiles}
    if unmeasured := [feature.name for feature in spec.features if feature.name not in measured]:
        return DriftVerdict("error", "hold", f"not measured, although declared: {', '.join(unmeasured)}")
    results = compare_features(measurements, baseline, spec, rows_apart)
    keys = {result.key for result in results}
    sizes = {m.key: count_values(m) for m in measurements}
    past = PastStatistics.of(results, history, sizes, spec, window, method)
    results = past.adjust_effects(results, spec)
    # While learning, the first window has no statistic, having had nothing to be compared with; it is known all the same.
    learnt = min(max((baseline.windows(key) for key in keys), default=0), spec.warn_from - 1)
    known_windows = max(int(past.counts.max(initial=0)), learnt)
    verdict = _before_comparison(results, baseline, spec, known_windows)
    status = verdict.status
    if not any(profile.rows for profile in profiles):
        return verdict
    if status == "cold_start":
        action: Action = {"learn": "pass", "warn": "warn", "stop": "hold"}[spec.cold_start]  # type: ignore[assignment]
        return replace(verdict, action=action, message=messages.describe_cold_start(spec))
    if rest := _remaining_time(history, spec, window):
        message = messages.describe_learning_time(rest, str(spec.learn_for))
        return replace(verdict, status="uncalibrated", message=message)
    if status == "uncalibrated":
        finding = compare_with_chance(measurements, results, baseline, spec, by_chance)
        finding = confirm_by_history(finding, results, past, spec)
    else:
        finding, unwatched = _rank_calibrated(measurements, results, past, baseline, history, spec, status)
        verdict = replace(verdict, unwatched=unwatched)
    if finding is None:
        verdict = replace(verdict, message="nothing in this batch is known well enough to be compared")
    else:
        began = since(finding.worst) if finding.worst and finding.action != "pass" else None
        verdict = replace(verdict, results=tuple(results), since=began, **finding._asdict())
        verdict = replace(verdict, message=messages.describe_finding(verdict))
    verdict = _judge_over_time(verdict, baseline, history, spec, window, sizes, method)
    young = _find_young(results, past, baseline, spec) if verdict.calibrated else []
    more = messages.describe_young(young, spec) + messages.describe_absent(verdict.absent)
    # What is named as off was noticed all the same.
    named = verdict.worst.key if verdict.worst and verdict.action != "pass" else None
    unwatched = messages.describe_unwatched([key for key in verdict.unwatched if key != named])
    return replace(verdict, message=verdict.message + more + unwatched)


def _before_comparison(
    results: Sequence[FeatureResult], baseline: Baseline, spec: DriftSpec, known_windows: int
) -> DriftVerdict:
    """The verdict on a batch without rows, and what every other one has as well. ``known_windows``: with a statistic."""
    status: Status = "calibrated" if known_windows >= spec.hold_from else "calibrated_warn_only"
    if known_windows < spec.warn_from:
        status = "uncalibrated" if known_windows else "cold_start"
    declared, keys = {feature.name for feature in spec.features}, {result.key for result in results}
    return DriftVerdict(
        status,
        "pass",
        "the batch has no rows to compare",
        windows_known=known_windows,
        windows_until_warn=max(0, spec.warn_from - known_windows),
        windows_until_hold=max(0, spec.hold_from - known_windows),
        results=tuple(results),
        absent=tuple(key for key in baseline.keys if key[0] in declared and key not in keys),
        statistics={r.key: dict(r.statistics) for r in results if r.statistics},
        levels=spec.levels if isinstance(spec, StreamDriftSpec) else None,
    )


def _remaining_time(history: StatisticHistory, spec: DriftSpec, window: Any) -> timedelta:
    """How long a stream still learns before it is judged: what its baseline's windows, and a newer ``window``, do not span."""
    if not isinstance(spec, StreamDriftSpec):
        return timedelta()
    # A person may have an old window judged again: its age says nothing of the baseline.
    span = max([*history.windows, window]) - min(history.windows, default=window)
    return max(timedelta(), spec.learning_time - span)


def _rank_calibrated(
    measurements: Sequence[Measurement],
    results: list[FeatureResult],
    past: PastStatistics,
    baseline: Baseline,
    history: StatisticHistory,
    spec: DriftSpec,
    status: Status,
) -> tuple[WindowFinding | None, tuple[Key, ...]]:
    """The finding among the windows before, with the rows that are off, and the features that are not watched."""
    may_hold = status == "calibrated"
    slices = _score_slices(measurements, history, spec, spec.hold_from if may_hold else spec.warn_from, past.method)
    finding = rank_batch(results, past, spec, may_hold=may_hold, slices=slices)
    if finding and finding.worst and finding.action != "pass":
        finding = finding._replace(worst=_name_excess(finding.worst, measurements, baseline, spec))
    declared = {feature.name for feature in spec.features}
    watches = find_watches(results, past, spec, with_slices=slices is not None)
    return finding, tuple(w.key for w in watches if not w.is_watched and w.key[0] in declared)


def _score_slices(
    measurements: Sequence[Measurement], history: StatisticHistory, spec: DriftSpec, least_windows: int, method: int
) -> SliceScores | None:
    if not spec.slices:
        return None
    declared = [feature.name for feature in spec.features]
    now = next((each.only(declared) for each in measurements if isinstance(each, Slices)), None)
    return SliceScores.of(now, history.slices, least_windows, method)


def _name_excess(
    worst: FeatureResult, measurements: Sequence[Measurement], baseline: Baseline, spec: DriftSpec
) -> FeatureResult:
    """The result with the values that there are too many of. Beside what is usual in a season that would be misleading. Where
    rows may be quarantined alone, an interval that is precise enough for that comes first.
    """
    profile, normal = next((m for m in measurements if m.key == worst.key), None), baseline.shape(worst.key)
    if profile is None or worst.season is not None or worst.statistic in (SLICE, "missing"):
        return worst
    batch = read_shape(profile)
    if isinstance(batch, Ecdf) and isinstance(normal, Ecdf):
        # All rows of a stratum may be off: they are a part of the window.
        share = LARGEST_SHARE if worst.stratum is None else 1.0
        exact = find_exact_interval(batch, normal, LEAST_PRECISION, share) if spec.divides else None
        return replace(worst, excess=exact or find_interval(batch, normal))
    if isinstance(batch, Categories) and isinstance(normal, Categories):
        return replace(worst, excess=find_category(batch, normal))
    return worst


def _find_young(
    results: Sequence[FeatureResult], past: PastStatistics, baseline: Baseline, spec: DriftSpec
) -> list[tuple[Key, int]]:
    """Features and strata with too few windows to be judged, and how many; the first had nothing to be compared with."""
    declared, most = {feature.name for feature in spec.features}, spec.warn_from - 1
    young = [r.key for i, r in enumerate(results) if r.feature in declared and r.rows and past.windows_of(i) <= most]
    return [(key, min(baseline.windows(key), most)) for key in young]


def _judge_over_time(
    verdict: DriftVerdict,
    baseline: Baseline,
    history: StatisticHistory,
    spec: DriftSpec,
    window: Any,
    sizes: Mapping[Key, int],
    method: int,
) -> DriftVerdict:
    """Add a shift that accumulates over windows, and how far the baseline itself has moved: both can only warn."""
    largest = find_largest_sum(verdict.results, history, spec, window, sizes, method)
    verdict = replace(verdict, moving_sum=largest)
    if largest is not None and largest.p_value <= spec.lasting_at and verdict.action == "pass":
        worst = next(r for r in verdict.results if r.key == (largest.feature, largest.stratum))
        message = messages.describe_moving_sum(largest, worst)
        verdict = replace(verdict, action="warn", message=message, worst=worst, since=largest.since)
    shifts = baseline.shifts()
    if shifts and shifts[0].distance > spec.max_shift:
        action: Action = "warn" if verdict.action == "pass" else verdict.action
        message = f"{verdict.message}; {messages.describe_shift(shifts[0], spec)}"
        verdict = replace(verdict, action=action, message=message, learns=False)
    return verdict
