"""Is this batch distributed as the accepted windows before it: statistics, standardized, ranked among their own past.

Belongs here: the judgement and its words. Does not: distances, what is kept of the past (baseline), or what follows (gate).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.baseline import Baseline, Book, History
from lakehouse_assets.decisions.distances import FARTHEST, Distance, Floats, distances, steps_of
from lakehouse_assets.decisions.profiles import Key, Profile, SketchError, describe

__all__ = ["Baseline", "Book", "DriftVerdict", "FeatureResult", "History", "judge_drift", "statistics_from_dict"]

Status = Literal["learning", "calibrated_warn_only", "calibrated", "error"]
Action = Literal["pass", "warn", "hold"]
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
# A statistic that never varied: any change of a thousandth counts as one deviation, rounding counts as none.
LEAST_SPREAD = 1e-3


@dataclass(frozen=True)
class FeatureResult:
    """One feature and stratum of the batch. Quantiles (at `SHARES`) and ``median_shift`` are in the feature's unit.

    ``score``: the larger of its two statistics, in deviations of that statistic's own history; ``p_value``: its rank among
    the ``windows`` that have one. Both are None while it is being learnt. ``silent``: rows, but no value in any.
    """

    feature: str
    stratum: str | None
    ks: float | None = None
    tail: float | None = None
    score: float | None = None
    p_value: float | None = None
    windows: int = 0
    silent: bool = False
    quantiles: tuple[float, ...] | None = None
    baseline_quantiles: tuple[float, ...] | None = None
    median_shift: float | None = None

    @property
    def key(self) -> Key:
        """Feature and stratum."""
        return (self.feature, self.stratum)


@dataclass(frozen=True)
class DriftVerdict:
    """The judgement. ``p_value`` and ``score`` are None while learning, in error, and for a batch without rows.

    ``windows_known``: windows with a statistic of the best-known feature. ``statistics``: what the history is to keep of this
    window, if it is accepted. ``absent``: what the baseline knows and this batch has no row of (reported, not judged).
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
    statistics: Mapping[Key, Mapping[str, float]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe; `statistics_from_dict` reads the statistics back from it."""
        plain = {k: getattr(self, k) for k in ("status", "action", "message", "p_value", "score", "windows_known")}
        plain |= {"windows_until_warn": self.windows_until_warn, "windows_until_hold": self.windows_until_hold}
        plain["results"] = [_plain(result) for result in self.results]
        plain["worst"] = _plain(self.worst) if self.worst else None
        plain["absent"] = [list(key) for key in self.absent]
        plain["statistics"] = [[feature, stratum, s["ks"], s["tail"]] for (feature, stratum), s in self.statistics.items()]
        return plain


def _plain(result: FeatureResult) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(result).items()}


def statistics_from_dict(verdict: Mapping[str, Any]) -> dict[Key, dict[str, float]]:
    """The statistics in a verdict's `to_dict`. Raises KeyError when it is not one."""
    return {(feature, stratum): {"ks": ks, "tail": tail} for feature, stratum, ks, tail in verdict["statistics"]}


def standardized(history: Floats, now: Floats) -> Floats:
    """Each row in deviations from the mean of all *other* rows, the last of which is ``now``.

    ``history``: (windows, m), ``now``: (m,), NaN where unknown; gives (windows + 1, m). Every row is treated alike, the new one
    too: that symmetry is what makes the rank of the last one a p-value.
    """
    rows = np.vstack([history, now])
    known = ~np.isnan(rows)
    # Centred first, or the difference of squares below would lose what it is after.
    rows = rows - np.nan_to_num(np.nanmean(np.where(known.any(axis=0), rows, 0.0), axis=0))
    filled = np.where(known, rows, 0.0)
    others = np.maximum(known.sum(axis=0) - 1, 1)
    mean = (filled.sum(axis=0) - filled) / others
    square = ((filled**2).sum(axis=0) - filled**2) / others
    spread = np.sqrt(np.maximum(square - mean**2, LEAST_SPREAD**2))
    return np.where(known, (filled - mean) / spread, np.nan)


def judge_drift(profiles: Sequence[Profile], baseline: Baseline, history: History, spec: DriftSpec) -> DriftVerdict:
    """Judge one batch by what is known when it is decided. Never raises for what a batch may hold: that is an error, held.

    Two distances per feature and stratum; each standardized by its own past, leaving itself out; their maximum ranked among
    the past windows' maxima, p = (1 + #{h ≥ s}) / (B + 1): a conformal p-value (Vovk, Gammerman and Shafer, 2005), valid
    for windows that are exchangeable, however dependent the readings within one are. A silent feature (rows, no value) is as
    far off as can be; a stratum without rows is no evidence. A feature takes part once it has enough windows of its own.
    """
    declared = {feature.name for feature in spec.features}
    given = [profile for profile in profiles if profile.feature in declared]
    missing = [feature.name for feature in spec.features if feature.name not in {p.feature for p in given}]
    if missing:
        return DriftVerdict("error", "hold", f"not measured, although declared: {', '.join(missing)}")
    try:
        results = [_measured(profile, baseline) for profile in given]
    except (SketchError, ValueError) as error:
        return DriftVerdict("error", "hold", f"the features cannot be compared: {error}")
    keys = [result.key for result in results]
    statistics = {r.key: {"ks": r.ks, "tail": r.tail} for r in results if r.ks is not None and r.tail is not None}
    absent = tuple(key for key in baseline.keys if key[0] in declared and key not in keys)
    past = history.matrix(keys)
    counts = (~np.isnan(past[:, :, 0])).sum(axis=0)
    # While learning, the first window has no statistic, having had nothing to be compared with; it is known all the same.
    learnt = min(max((baseline.windows(key) for key in keys), default=0), spec.warn_from - 1)
    known = max(int(counts.max(initial=0)), learnt)
    until = {"windows_until_warn": max(0, spec.warn_from - known), "windows_until_hold": max(0, spec.hold_from - known)}
    kept: dict[str, Any] = {"windows_known": known, **until, "absent": absent, "statistics": statistics}
    status: Status = "calibrated" if known >= spec.hold_from else "calibrated_warn_only"
    status = "learning" if known < spec.warn_from else status
    if not any(profile.rows for profile in given):
        return DriftVerdict(status, "pass", "the batch has no rows to compare", results=tuple(results), **kept)
    # Ten windows say nothing of what is rare: a feature must be as well known as the rule asks before it can hold a batch.
    needed = spec.hold_from if status == "calibrated" else spec.warn_from
    taking = [i for i, r in enumerate(results) if r.ks is not None and counts[i] >= needed]
    if status == "learning" or not taking:
        more = until["windows_until_warn"]
        text = f"learning what is normal: {known} windows known, {more} more until drift can be warned of"
        text = text if status == "learning" else "nothing in this batch is known well enough to be compared"
        return DriftVerdict(status, "pass", text, results=tuple(results), **kept)
    now = np.array([(results[i].ks, results[i].tail) for i in taking], dtype=float)
    both = standardized(past[:, taking].reshape(len(past), -1), now.ravel()).reshape(len(past) + 1, len(taking), 2)
    scores = np.where(np.isnan(both), -np.inf, both).max(axis=2)
    for place, i in enumerate(taking):
        p = _rank(scores[:-1, place], scores[-1, place])
        results[i] = replace(results[i], score=float(scores[-1, place]), p_value=p, windows=int(counts[i]))
    # What is too small to matter is never the reason; leaving it out can only raise the p-value.
    large = [i for i in taking if (results[i].tail or 0.0) > spec.min_effect]
    worst = max((results[i] for i in large), key=lambda r: r.score or 0.0, default=None)
    p_value = _rank(scores[:-1].max(axis=1), worst.score) if worst and worst.score is not None else 1.0
    action: Action = "pass"
    if p_value <= spec.warn_at:
        action = "hold" if status == "calibrated" and p_value <= spec.hold_at else "warn"
    message = _words(action, worst, p_value, known)
    score = worst.score if worst else None
    return DriftVerdict(status, action, message, p_value, score, results=tuple(results), worst=worst, **kept)


def _rank(past: Floats, now: float) -> float:
    """The share of windows, this one included, that are at least as strange; ties count against strangeness."""
    known = past[past > -np.inf]
    return float((1 + np.count_nonzero(known >= now - 1e-9)) / (known.size + 1))


def _measured(profile: Profile, baseline: Baseline) -> FeatureResult:
    batch, normal = steps_of(profile), baseline.steps(profile.key)
    found = FeatureResult(profile.feature, profile.stratum, silent=batch is None and profile.rows > 0)
    distance: Distance | None = None
    if normal is not None:
        found = replace(found, baseline_quantiles=tuple(normal.quantiles(SHARES).tolist()))
        distance = distances(batch, normal) if batch is not None else FARTHEST if found.silent else None
    if batch is not None:
        found = replace(found, quantiles=tuple(batch.quantiles(SHARES).tolist()))
    if found.quantiles and found.baseline_quantiles:
        found = replace(found, median_shift=found.quantiles[2] - found.baseline_quantiles[2])
    return found if distance is None else replace(found, ks=distance.ks, tail=distance.tail)


def _words(action: Action, worst: FeatureResult | None, p_value: float, known: int) -> str:
    if worst is None or worst.p_value is None:
        return f"nothing differs from the baseline by enough to matter ({known} windows known)"
    if action == "pass":
        return f"like the {known} windows before (p = {p_value:.3g}); farthest off is {describe(worst.key)}"
    shift = worst.median_shift
    if worst.silent:
        what = "every value is missing"
    elif shift and abs(shift) > 1e-9:
        what = f"median {abs(shift):.3g} {'higher' if shift > 0 else 'lower'} than the baseline"
    else:
        what = f"same median as the baseline, another spread or shape (KS {worst.ks:.2g})"
    beyond = round(worst.p_value * (worst.windows + 1)) - 1
    rank = f"every one of {worst.windows} windows" if beyond == 0 else f"all but {beyond} of {worst.windows} windows"
    return f"{describe(worst.key)}: {what}; beyond {rank} before (p = {p_value:.3g})"
