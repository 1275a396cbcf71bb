"""Is this batch distributed as the accepted windows before it: statistics, standardized, ranked among their own past.

Belongs here: the judgement. Does not: its statistics (compared), sums over windows (lasting), the words, or what follows
(gate).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from lakehouse_assets.contracts.drift import VOLUME, DriftSpec
from lakehouse_assets.decisions import chance, words
from lakehouse_assets.decisions.baseline import Baseline, Book, shape_of, values_of
from lakehouse_assets.decisions.categories import Categories
from lakehouse_assets.decisions.compared import FAMILIES, Counted, FeatureResult, compare_all, family
from lakehouse_assets.decisions.distances import Steps
from lakehouse_assets.decisions.lasting import Lasting, lasting
from lakehouse_assets.decisions.measured_history import SIZE, Floats, History
from lakehouse_assets.decisions.profiles import Key, Profile
from lakehouse_assets.decisions.ranks import largest, rank, standardized
from lakehouse_assets.decisions.relations import Measured

__all__ = ["Baseline", "Book", "DriftVerdict", "FeatureResult", "History", "judge_drift", "statistics_from_dict"]

Status = Literal["cold_start", "uncalibrated", "calibrated_warn_only", "calibrated", "error"]
Action = Literal["pass", "warn", "hold"]


@dataclass(frozen=True)
class DriftVerdict:
    """The judgement. ``p_value`` and ``score`` are None at a cold start, in error, and for a batch without rows; uncalibrated,
    ``p_value`` is the least of Monte Carlo's, corrected by Holm.

    ``windows_known``: windows with a statistic of the best-known feature. ``statistics``: what the history is to keep of this
    window, if it is accepted. ``absent``: what the baseline knows and this batch has no row of (told in the
    message, not judged).
    ``lasting``: what adds up over the last windows. ``learns``: False where the baseline has left its pinned reference behind.
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
    lasting: Lasting | None = None
    learns: bool = True
    since: Any = None

    @property
    def calibrated(self) -> bool:
        """Whether the p-value is a rank among windows of history."""
        return self.status in ("calibrated", "calibrated_warn_only")

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe; `statistics_from_dict` reads the statistics back from it."""
        plain = {k: getattr(self, k) for k in ("status", "action", "message", "p_value", "score", "windows_known", "learns")}
        plain |= {"windows_until_warn": self.windows_until_warn, "windows_until_hold": self.windows_until_hold}
        plain["results"] = [result.to_dict() for result in self.results]
        plain["worst"] = self.worst.to_dict() if self.worst else None
        plain["absent"] = [list(key) for key in self.absent]
        plain["statistics"] = [[feature, stratum, dict(s)] for (feature, stratum), s in self.statistics.items()]
        plain["lasting"] = self.lasting.to_dict() if self.lasting else None
        plain["since"] = None if self.since is None else str(self.since)
        return plain


def statistics_from_dict(verdict: Mapping[str, Any]) -> dict[Key, dict[str, float]]:
    """The statistics in a verdict's `to_dict`. Raises KeyError when it is not one."""
    found = {}
    for feature, stratum, *rest in verdict["statistics"]:
        # Lakes made before have the two distances as two numbers.
        found[feature, stratum] = dict(rest[0] if isinstance(rest[0], Mapping) else zip(("ks", "tail"), rest, strict=True))
    return found


def judge_drift(
    measured: Sequence[Measured],
    baseline: Baseline,
    history: History,
    spec: DriftSpec,
    *,
    window: Any = None,
    since: Callable[[FeatureResult], Any] = lambda _: None,
    by_chance: Mapping[Key, tuple[str, float]] | None = None,
) -> DriftVerdict:
    """Judge one batch by what is known when it is decided. Never raises for what a batch may hold: that is an error, held.

    Every statistic of every feature and stratum is standardized by its own past, leaving itself out; their maximum is
    ranked among the past windows' maxima (`ranks.rank`). A silent feature (rows, no value) is as far off as can be; a
    stratum without rows is no evidence. A statistic takes part once it has enough windows of its own. Until history is
    long enough, p-values are of Monte Carlo, and only warn. ``window``: the batch's label in `History`; ``since``: of
    what is farthest off, the first of the unbroken run of windows before it that were off in the same way; asked
    only where a window drifts. ``by_chance``: p-values under
    chance of what the profiles alone cannot say (relations), used while uncalibrated.
    """
    try:
        return _judged(measured, baseline, history, spec, window, since, by_chance or {})
    except Exception as error:
        # Whatever it is: what cannot be judged is held, and the run's other windows go on.
        return DriftVerdict("error", "hold", f"the features cannot be compared: {str(error) or type(error).__name__}")


def _judged(
    measured: Sequence[Measured],
    baseline: Baseline,
    history: History,
    spec: DriftSpec,
    window: Any,
    since: Callable[[FeatureResult], Any],
    by_chance: Mapping[Key, tuple[str, float]],
) -> DriftVerdict:
    declared = {feature.name for feature in spec.features}
    given = [m for m in measured if not isinstance(m, Profile) or m.feature in declared]
    there = {m.feature for m in given if isinstance(m, Profile)}
    missing = [feature.name for feature in spec.features if feature.name not in there]
    if missing:
        return DriftVerdict("error", "hold", f"not measured, although declared: {', '.join(missing)}")
    results = compare_all(given, baseline, spec)
    keys = {result.key for result in results}
    statistics = {r.key: dict(r.statistics) for r in results if r.statistics}
    absent = tuple(key for key in baseline.keys if key[0] in declared and key not in keys)
    columns = [(i, name) for i, r in enumerate(results) for name in r.statistics if family(name)]
    past = history.matrix([(results[i].key, name) for i, name in columns])
    past = past * _as_of_this_size(results, columns, history, {m.key: values_of(m) for m in given})
    counts = (~np.isnan(past)).sum(axis=0)
    # While learning, the first window has no statistic, having had nothing to be compared with; it is known all the same.
    learnt = min(max((baseline.windows(key) for key in keys), default=0), spec.warn_from - 1)
    known = max(int(counts.max(initial=0)), learnt)
    until = {"windows_until_warn": max(0, spec.warn_from - known), "windows_until_hold": max(0, spec.hold_from - known)}
    kept: dict[str, Any] = {"windows_known": known, **until, "absent": absent, "statistics": statistics}
    status: Status = "calibrated" if known >= spec.hold_from else "calibrated_warn_only"
    if known < spec.warn_from:
        status = "uncalibrated" if known else "cold_start"
    if not any(m.rows for m in given if isinstance(m, Profile)):
        return DriftVerdict(status, "pass", "the batch has no rows to compare", results=tuple(results), **kept)
    if status == "cold_start":
        action: Action = {"learn": "pass", "warn": "warn", "stop": "hold"}[spec.cold_start]  # type: ignore[assignment]
        return DriftVerdict(status, action, words.cold_start(spec), results=tuple(results), **kept)
    if status == "uncalibrated":
        verdict = _by_chance(given, results, baseline, spec, kept, by_chance, since)
    else:
        verdict = _ranked(results, columns, past, counts, spec, status, kept, since)
    verdict = _over_time(verdict, baseline, history, spec, window)
    young = _young(results, columns, counts, baseline, spec) if verdict.calibrated else []
    return replace(verdict, message=verdict.message + words.of_young(young, spec) + words.of_absent(absent))


def _young(results, columns, counts, baseline: Baseline, spec: DriftSpec) -> list[tuple[Key, int]]:
    """Features and strata that are new in a table that is not, with the windows that have had them: too few to be judged."""
    declared, found = {feature.name for feature in spec.features}, []
    for i, result in enumerate(results):
        known = max((int(counts[c]) for c, (place, _) in enumerate(columns) if place == i), default=0)
        if result.feature in declared and result.rows and known < spec.warn_from:
            # The first of them had nothing to be compared with.
            found.append((result.key, min(baseline.windows(result.key), spec.warn_from - 1)))
    return found


def _as_of_this_size(results, columns, history: History, sizes: Mapping[Key, int]) -> Floats:
    """What past statistics of shape are multiplied by, (windows, columns): in a batch of fewer values chance alone puts them
    farther off, by the root of the ratio. In one of more values nothing is taken for granted: windows differ by more than
    chance, and that does not grow less with size.
    """
    then = history.matrix([(results[i].key, SIZE) for i, _ in columns])
    now = np.array([sizes.get(results[i].key, 0) if family(name) == "shape" else 0 for i, name in columns], dtype=float)
    ratio = np.divide(then, now, out=np.ones_like(then), where=now > 0)
    return np.sqrt(np.maximum(np.nan_to_num(ratio, nan=1.0), 1.0))


def _ranked(
    results, columns, past, counts, spec: DriftSpec, status: Status, kept: dict[str, Any], since: Callable[[FeatureResult], Any]
) -> DriftVerdict:
    # Ten windows say nothing of what is rare: a statistic must be as well known as the rule asks before it can hold a batch.
    needed = spec.hold_from if status == "calibrated" else spec.warn_from
    if not (counts >= spec.warn_from).any():
        text = "nothing in this batch is known well enough to be compared"
        return DriftVerdict(status, "pass", text, results=tuple(results), **kept)
    found = [_strangest(results, columns, past, counts >= needed, name, times, spec) for name, times in FAMILIES.items()]
    best = min([f for f in found if f], key=lambda f: (f.p_value, -f.score), default=None)
    action: Action = "pass"
    if best and best.p_value <= spec.warn_at:
        action = "hold" if status == "calibrated" and best.p_value <= spec.hold_at else "warn"
    else:
        # What is not known for long enough to hold a batch can be warned of: a new station, or missing values while their
        # doubled p-value could not be as low as the level yet.
        for name, times in FAMILIES.items():
            young = (counts >= spec.warn_from) & ((counts < needed) | (times > spec.warn_at * (counts + 1)))
            other = _strangest(results, columns, past, young, name, 1, spec)
            if other and other.p_value <= spec.warn_at and (action == "pass" or best is None or other.p_value < best.p_value):
                best, action = other, "warn"
    worst = results[best.place] if best else None
    if best and worst is not None and action != "pass":
        level = spec.hold_at if action == "hold" else spec.warn_at
        worst = _told(replace(worst, statistic=best.statistic), results, level, spec)
    p_value, score = (best.p_value, best.score) if best else (1.0, None)
    begun = since(worst) if worst is not None and action != "pass" else None
    text = words.of_rank(action, worst, p_value, kept["windows_known"], begun)
    return DriftVerdict(status, action, text, p_value, score, results=tuple(results), worst=worst, since=begun, **kept)


def _told(worst: FeatureResult, results: Sequence[FeatureResult], level: float, spec: DriftSpec) -> FeatureResult:
    """Of several that are off, the one that says most: the volume, since fewer rows are farther off in everything; then missing
    values, where they are farther off than what is left; a feature by itself before features together.
    """
    counted = [(r, r.counted.score) for r in results if r.counted is not None and r.counted.p_value <= spec.warn_at]
    for result, _ in counted:
        if result.feature == VOLUME:
            return replace(result, statistic=VOLUME)
    result, score = max(counted, key=lambda pair: pair[1], default=(worst, 0.0))
    if score > (worst.score or 0.0):
        return replace(result, statistic="missing")
    if not worst.correlations:
        return worst
    off = [r for r in results if r.corrected is not None and r.corrected <= level and r.effect > spec.min_effect]
    return max((r for r in off if not r.correlations), key=lambda r: r.score or 0.0, default=worst)


class _Strangest(NamedTuple):
    """``p_value``: of its being the strangest of its family. ``place``: among the results."""

    p_value: float
    score: float
    place: int
    statistic: str


def _strangest(results, every, past: Floats, taking, members: str, times: int, spec: DriftSpec) -> _Strangest | None:
    """The strangest of a family's columns, of those that take part, that is large enough to matter; every result is told its
    own. p-values are multiplied by ``times``.
    """
    places = [c for c in range(len(every)) if taking[c] and family(every[c][1]) == members]
    if not places:
        return None
    columns = [every[c] for c in places]
    now = np.array([results[i].statistics[name] for i, name in columns], dtype=float)
    scores, counts = standardized(past[:, places], now), (~np.isnan(past[:, places])).sum(axis=0)
    past_tops = largest(scores[:-1])
    best: tuple[float, int, str] | None = None
    of_result: dict[int, list[int]] = {}
    for place, (i, _) in enumerate(columns):
        of_result.setdefault(i, []).append(place)
    for i, own in sorted(of_result.items()):
        top = largest(scores[:, own])
        winner = own[int(np.nan_to_num(scores[-1, own], nan=-np.inf).argmax())]
        p = rank(top[:-1], float(top[-1]))
        among_all = min(1.0, times * rank(past_tops, float(top[-1])))
        if results[i].p_value is None or p < results[i].p_value:
            told = {"score": float(top[-1]), "statistic": columns[winner][1], "p_value": p, "windows": int(counts[own].max())}
            results[i] = replace(results[i], **told, corrected=min(among_all, results[i].corrected or 1.0))
        # What is too small to matter is never the reason; leaving it out can only raise the p-value.
        large = [place for place in own if results[i].effects.get(columns[place][1], 0.0) > spec.min_effect]
        if large and members != "shape":
            results[i] = replace(results[i], counted=Counted(among_all, float(top[-1])))
        if large and (best is None or scores[-1, large].max() > best[0]):
            first = max(large, key=lambda place: scores[-1, place])
            best = (float(scores[-1, first]), i, columns[first][1])
    if best is None:
        return None
    return _Strangest(min(1.0, times * rank(past_tops, best[0])), *best)


def _by_chance(
    given,
    results,
    baseline: Baseline,
    spec: DriftSpec,
    kept,
    more: Mapping[Key, tuple[str, float]],
    since: Callable[[FeatureResult], Any],
) -> DriftVerdict:
    """Monte Carlo in the place of history, two p-values for a number, corrected together; only a warning can come of it."""
    profiles = {m.key: m for m in given if isinstance(m, Profile)}
    tests: list[tuple[int, str, float]] = []
    asked = 2 * sum(1 for r in results if r.tail is not None) + len(results)
    for i, result in enumerate(results):
        if result.key in more:
            tests.append((i, *more[result.key]))
        profile, normal = profiles.get(result.key), baseline.shape(result.key)
        if profile is None or normal is None:
            continue
        batch = shape_of(profile)
        if result.silent:
            tests.append((i, "tail", 1.0 / (asked * chance.DRAWS)))
        elif isinstance(batch, Categories) and isinstance(normal, Categories):
            tests.append((i, "g", chance.monte_carlo_categories(batch, normal, result.key)))
        elif isinstance(batch, Steps) and isinstance(normal, Steps):
            found = chance.monte_carlo(batch, normal, result.key)
            tests += [(i, name, p) for name, p in zip(("ks", "tail"), found, strict=True)]
        if "missing" in result.statistics:
            tests.append((i, "missing", 10.0 ** -result.statistics["missing"]))
    worst: FeatureResult | None = None
    for (i, name, _), p in zip(tests, chance.holm([p for _, _, p in tests]), strict=True):
        before = results[i].corrected
        if before is None or p < before:
            results[i] = replace(results[i], corrected=p, statistic=name)
        if results[i].effects.get(name, 0.0) > spec.min_effect and (worst is None or p < (worst.corrected or 1.0)):
            worst = replace(results[i], corrected=p, statistic=name)
    p_value = worst.corrected if worst and worst.corrected is not None else 1.0
    action: Action = "warn" if p_value <= spec.warn_at else "pass"
    begun = since(worst) if worst is not None and action != "pass" else None
    text = words.by_chance(action, worst, p_value, kept["windows_known"], kept["windows_until_warn"], begun)
    return DriftVerdict("uncalibrated", action, text, p_value, results=tuple(results), worst=worst, since=begun, **kept)


def _over_time(verdict: DriftVerdict, baseline: Baseline, history: History, spec: DriftSpec, window: Any) -> DriftVerdict:
    """With what adds up over windows, and with how far the baseline itself has moved: both can only warn."""
    found = lasting(verdict.results, history, spec, window)
    verdict = replace(verdict, lasting=found)
    if found is not None and found.p_value <= spec.lasting_at and verdict.action == "pass":
        worst = next(r for r in verdict.results if r.key == (found.feature, found.stratum))
        text = words.of_lasting(found, worst)
        verdict = replace(verdict, action="warn", message=text, worst=worst, since=found.since)
    moved = baseline.moved()
    if moved and moved[0].distance > spec.max_shift:
        action: Action = "warn" if verdict.action == "pass" else verdict.action
        text = f"{verdict.message}; {words.of_moved(moved[0], spec)}"
        verdict = replace(verdict, action=action, message=text, learns=False)
    return verdict
