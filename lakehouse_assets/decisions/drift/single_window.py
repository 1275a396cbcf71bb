"""How strange a batch by itself is: ranks of its statistics among the windows before, or, while history is too short, chance.

Belongs here: testing every statistic, and choosing the feature that is farthest off. Does not: p-values by theory or by draws
(p_values), or what is made of the finding (judge).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.contracts.drift import VOLUME, DriftSpec
from lakehouse_assets.decisions.drift import p_values, statistic_history
from lakehouse_assets.decisions.drift.baseline import Baseline, read_shape
from lakehouse_assets.decisions.drift.categories import Categories, Floats
from lakehouse_assets.decisions.drift.distances import Ecdf
from lakehouse_assets.decisions.drift.feature_result import FAMILIES, TWO_SIDED, CountEvidence, FeatureResult, family_of
from lakehouse_assets.decisions.drift.predictive_tail import conformal_p_value, score_p_value
from lakehouse_assets.decisions.drift.profiles import Key, Profile
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.drift.statistic_history import StatisticHistory, row_maxima, standardize
from lakehouse_assets.decisions.drift.verdict import Action, Finding
from lakehouse_assets.decisions.drift.window_sizes import SAMPLING, rescale

COUNTED = ("missing", "volume")
# So many windows are enough to contradict a test that takes rows for independent.
LEAST_CONFIRMING = 3
ByChance = Mapping[Key, tuple[str, float]]  # a statistic and its p-value


@dataclass(frozen=True)
class PastStatistics:
    """The history of a batch's ranked statistics. ``columns``: index of the result, name of the statistic. ``values``:
    (windows, columns), NaN where unknown. ``counts``: (columns,), the windows that have each.
    """

    columns: Sequence[tuple[int, str]]
    values: Floats
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, results: Sequence[FeatureResult], history: StatisticHistory, sizes: Mapping[Key, int]) -> "PastStatistics":
        """Past statistics, those of shape as if each window had the batch's number of values (``sizes``)."""
        columns = [(index, name) for index, r in enumerate(results) for name in r.statistics if family_of(name)]
        values = history.matrix([(results[index].key, name) for index, name in columns])
        then = history.matrix([(results[index].key, statistic_history.SIZE) for index, _ in columns])
        now = [sizes.get(results[index].key, 0.0) if family_of(name) == "shape" else 0.0 for index, name in columns]
        sampling = np.array([SAMPLING.get(name, 0.0) for _, name in columns])
        values = rescale(values, then, np.array(now, dtype=float), sampling, _two_sided(columns))
        return cls(columns, values, (~np.isnan(values)).sum(axis=0))

    def windows_of(self, result: int) -> int:
        """The number of windows that have the best-known statistic of a result."""
        return max((int(self.counts[c]) for c, (index, _) in enumerate(self.columns) if index == result), default=0)


@dataclass(frozen=True)
class _Family:
    """The ranked statistics of one family. ``columns``: as of `PastStatistics`; ``scores``: (windows + 1, columns), the batch's
    last, in deviations of the others.
    """

    name: str
    columns: Sequence[tuple[int, str]]
    counts: NDArray[np.int64]
    scores: Floats

    @classmethod
    def of(cls, results: Sequence[FeatureResult], past: PastStatistics, chosen: NDArray[np.bool_], name: str) -> "_Family":
        """The chosen statistics of a family, possibly none."""
        indices = [c for c, (_, statistic) in enumerate(past.columns) if chosen[c] and family_of(statistic) == name]
        columns = [past.columns[c] for c in indices]
        now = np.array([results[index].statistics[statistic] for index, statistic in columns], dtype=float)
        scores = standardize(past.values[:, indices], now)
        return cls(name, columns, past.counts[indices], np.where(_two_sided(columns), np.abs(scores), scores))

    def p_value(self, score: float, weights: int) -> float:
        """The p-value of a score as the strangest of all families, whose ``weights`` sum up to this.

        Together they raise as many false alarms as one would (Bonferroni's inequality, weighted). The rank alone of the shape
        counts as it is: beyond all of 99 windows is 1 % whatever the tail.
        """
        past, own = self.maxima[:-1], FAMILIES[self.name]
        tail = weights / own * score_p_value(past, score)
        return min(1.0, tail, conformal_p_value(past, score) if self.name == "shape" else 1.0)

    @cached_property
    def maxima(self) -> Floats:
        """(windows + 1,), -inf where a window has none of the statistics."""
        return row_maxima(self.scores)

    def large(self, results: Sequence[FeatureResult], least: float) -> list[int]:
        """The columns whose change is large enough to matter."""
        return [c for c, (index, name) in enumerate(self.columns) if results[index].effects.get(name, 0.0) > least]


def _two_sided(columns: Sequence[tuple[int, str]]) -> NDArray[np.bool_]:
    return np.array([statistic in TWO_SIDED for _, statistic in columns], dtype=bool)


class _Strangest(NamedTuple):
    """The strangest statistic of all families; ``result``: the index of its result."""

    p_value: float
    score: float
    result: int
    statistic: str


def rank_batch(results: list[FeatureResult], past: PastStatistics, spec: DriftSpec, *, may_hold: bool) -> Finding | None:
    """Rank the batch among the windows before it; every result gets its own p-value. None where no statistic is known in
    `warn_from` windows.
    """
    # Few windows say little of what is rare: a statistic must be as well known as the rule asks before it can hold a batch.
    least_windows = spec.hold_from if may_hold else spec.warn_from
    if not (past.counts >= spec.warn_from).any():
        return None
    best = _rank(results, past, past.counts >= least_windows, spec)
    action: Action = "pass"
    if best and best.p_value <= spec.warn_at:
        action = "hold" if may_hold and best.p_value <= spec.hold_at else "warn"
    else:
        # What is not known for long enough to hold a batch can be warned of: a new station.
        other = _rank(results, past, (past.counts >= spec.warn_from) & (past.counts < least_windows), spec)
        if other and other.p_value <= spec.warn_at:
            best, action = other, "warn"
    if best is None:
        return Finding(action, 1.0, None, None)
    worst = results[best.result]
    if action != "pass":
        level = spec.hold_at if action == "hold" else spec.warn_at
        worst = _most_telling(replace(worst, statistic=best.statistic), results, level, spec)
    return Finding(action, best.p_value, best.score, worst)


def _rank(results: list[FeatureResult], past: PastStatistics, chosen: NDArray[np.bool_], spec: DriftSpec) -> _Strangest | None:
    """The strangest of the chosen statistics that is large enough to matter, of the family in which it is the strangest; None
    where none is. Every result gets its score and p-values.
    """
    families = [f for name in FAMILIES if (f := _Family.of(results, past, chosen, name)).columns]
    weights = sum(FAMILIES[family.name] for family in families)
    best: _Strangest | None = None
    for family in families:
        _score_results(results, family, weights, spec)
        large = family.large(results, spec.min_effect)
        # What is too small to matter is never the reason; leaving it out can only raise the p-value.
        if not large:
            continue
        first = max(large, key=lambda c: float(np.nan_to_num(family.scores[-1, c], nan=-np.inf)))
        score = float(family.scores[-1, first])
        p_value = family.p_value(score, weights)
        if best is None or (p_value, -score) < (best.p_value, -best.score):
            best = _Strangest(p_value, score, *family.columns[first])
    return best


def _score_results(results: list[FeatureResult], family: _Family, weights: int, spec: DriftSpec) -> None:
    """Give every result of a family its score, its p-value by itself, and the one corrected for all features and families."""
    large = set(family.large(results, spec.min_effect))
    by_result: dict[int, list[int]] = {}
    for c, (index, _) in enumerate(family.columns):
        by_result.setdefault(index, []).append(c)
    for index, own in sorted(by_result.items()):
        top = row_maxima(family.scores[:, own])
        score, p_value = float(top[-1]), score_p_value(top[:-1], float(top[-1]))
        corrected, result = family.p_value(score, weights), results[index]
        if large & set(own) and family.columns[own[0]][1] in COUNTED:
            result = replace(result, count_evidence=CountEvidence(corrected, score))
        if result.p_value is None or p_value < result.p_value:
            statistic = family.columns[own[int(np.nan_to_num(family.scores[-1, own], nan=-np.inf).argmax())]][1]
            ranked: dict[str, Any] = {"score": score, "statistic": statistic, "p_value": p_value}
            ranked["windows"] = int(family.counts[own].max())
            result = replace(result, **ranked, corrected=min(corrected, result.corrected or 1.0))
        results[index] = result


def _most_telling(worst: FeatureResult, results: Sequence[FeatureResult], level: float, spec: DriftSpec) -> FeatureResult:
    """Return the result to name, of several that are far off. The volume comes first, since fewer rows move everything. Then
    come missing values, if they are farther off than the rest. A single feature comes before relations of features.
    """
    counts = [(r, r.count_evidence.score) for r in results if r.count_evidence and r.count_evidence.p_value <= spec.warn_at]
    for result, _ in counts:
        if result.feature == VOLUME:
            return replace(result, statistic=VOLUME)
    result, score = max(counts, key=lambda pair: pair[1], default=(worst, 0.0))
    if score > (worst.score or 0.0):
        return replace(result, statistic="missing")
    if not worst.correlations:
        return worst
    off = [r for r in results if r.corrected is not None and r.corrected <= level and r.effect > spec.min_effect]
    return max((r for r in off if not r.correlations), key=lambda r: r.score or 0.0, default=worst)


def confirm_by_history(finding: Finding, results: Sequence[FeatureResult], past: PastStatistics, spec: DriftSpec) -> Finding:
    """Return a finding by chance alone, which takes rows for independent, as long as the few windows known do not contradict:
    where they differ among themselves as much as this one does, it is no warning.
    """
    is_known = past.counts >= LEAST_CONFIRMING
    if finding.action == "pass" or not is_known.any():
        return finding
    best = _rank(list(results), past, is_known, spec)
    return finding if best and best.p_value <= spec.warn_at else finding._replace(action="pass", worst=None)


def compare_with_chance(
    measurements: Sequence[Measurement], results: list[FeatureResult], baseline: Baseline, spec: DriftSpec, by_chance: ByChance
) -> Finding:
    """Test every result by Monte Carlo, two p-values for a number, corrected by Holm; it can only warn. Every result gets its
    own p-value. ``by_chance``: those of relations, which profiles alone cannot give.
    """
    profiles = {m.key: m for m in measurements if isinstance(m, Profile)}
    tests: list[tuple[int, str, float]] = []
    most_tests = 2 * sum(1 for r in results if r.tail is not None) + len(results)
    for index, result in enumerate(results):
        if result.key in by_chance:
            tests.append((index, *by_chance[result.key]))
        profile, normal = profiles.get(result.key), baseline.shape(result.key)
        if profile is None or normal is None:
            continue
        batch = read_shape(profile)
        if result.silent:
            tests.append((index, "tail", 1.0 / (most_tests * p_values.DRAWS)))
        elif isinstance(batch, Categories) and isinstance(normal, Categories):
            tests.append((index, "g", p_values.monte_carlo_categories(batch, normal, result.key)))
        elif isinstance(batch, Ecdf) and isinstance(normal, Ecdf):
            ks, tail = p_values.monte_carlo(batch, normal, result.key)
            tests += [(index, "ks", ks), (index, "tail", tail)]
        if "missing" in result.statistics:
            tests.append((index, "missing", 10.0 ** -result.statistics["missing"]))
    worst: FeatureResult | None = None
    least = 1.0
    for (index, name, _), p in zip(tests, p_values.correct_by_holm([p for _, _, p in tests]), strict=True):
        before = results[index].corrected
        if before is None or p < before:
            results[index] = replace(results[index], corrected=p, statistic=name)
        if results[index].effects.get(name, 0.0) > spec.min_effect and (worst is None or p < least):
            worst, least = replace(results[index], corrected=p, statistic=name), p
    return Finding("warn" if least <= spec.warn_at else "pass", least, None, worst)
