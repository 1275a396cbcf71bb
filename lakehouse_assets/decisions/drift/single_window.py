"""How strange a batch by itself is: ranks of its statistics among the windows before, or, while history is too short, chance.

Belongs here: testing every statistic, and choosing the feature that is farthest off. Does not: p-values by theory or by draws
(p_values), or what is made of the finding (judge).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.contracts.drift import VOLUME, DriftSpec
from lakehouse_assets.decisions.drift import p_values, statistic_history
from lakehouse_assets.decisions.drift.baseline import Baseline, read_shape
from lakehouse_assets.decisions.drift.categories import Categories, Floats
from lakehouse_assets.decisions.drift.distances import Ecdf
from lakehouse_assets.decisions.drift.feature_result import FAMILY_FACTORS, CountEvidence, FeatureResult, family_of
from lakehouse_assets.decisions.drift.profiles import Key, Profile
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.drift.statistic_history import StatisticHistory, conformal_p_value, row_maxima, standardize
from lakehouse_assets.decisions.drift.verdict import Action, Finding

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
        """Past statistics of shape, scaled to the batch's number of values (``sizes``) where it has fewer: chance alone puts it
        farther off, by the root of the ratio.
        """
        columns = [(index, name) for index, r in enumerate(results) for name in r.statistics if family_of(name)]
        values = history.matrix([(results[index].key, name) for index, name in columns])
        then = history.matrix([(results[index].key, statistic_history.SIZE) for index, _ in columns])
        now = [sizes.get(results[index].key, 0.0) if family_of(name) == "shape" else 0.0 for index, name in columns]
        ratio = np.divide(then, np.array(now), out=np.ones_like(then), where=np.array(now) > 0)
        values = values * np.sqrt(np.maximum(np.nan_to_num(ratio, nan=1.0), 1.0))
        return cls(columns, values, (~np.isnan(values)).sum(axis=0))

    def windows_of(self, result: int) -> int:
        """The number of windows that have the best-known statistic of a result."""
        return max((int(self.counts[c]) for c, (index, _) in enumerate(self.columns) if index == result), default=0)


class _Strangest(NamedTuple):
    """The strangest statistic of a family; ``result``: the index of its result."""

    p_value: float
    score: float
    result: int
    statistic: str


def rank_batch(results: list[FeatureResult], past: PastStatistics, spec: DriftSpec, *, may_hold: bool) -> Finding | None:
    """Rank the batch among the windows before it; every result gets its own p-value. None where no statistic is known in
    `warn_from` windows.
    """
    # Ten windows say nothing of what is rare: a statistic must be as well known as the rule asks before it can hold a batch.
    least_windows = spec.hold_from if may_hold else spec.warn_from
    if not (past.counts >= spec.warn_from).any():
        return None
    families = [
        _rank_family(results, past, past.counts >= least_windows, name, factor, spec) for name, factor in FAMILY_FACTORS.items()
    ]
    best = min([f for f in families if f], key=lambda f: (f.p_value, -f.score), default=None)
    action: Action = "pass"
    if best and best.p_value <= spec.warn_at:
        action = "hold" if may_hold and best.p_value <= spec.hold_at else "warn"
    else:
        # What is not known for long enough to hold a batch can be warned of: a new station, or missing values while their
        # doubled p-value could not be as low as the level yet.
        for name, factor in FAMILY_FACTORS.items():
            few = (past.counts < least_windows) | (factor > spec.warn_at * (past.counts + 1))
            other = _rank_family(results, past, (past.counts >= spec.warn_from) & few, name, 1, spec)
            if other and other.p_value <= spec.warn_at and (action == "pass" or best is None or other.p_value < best.p_value):
                best, action = other, "warn"
    if best is None:
        return Finding(action, 1.0, None, None)
    worst = results[best.result]
    if action != "pass":
        level = spec.hold_at if action == "hold" else spec.warn_at
        worst = _most_telling(replace(worst, statistic=best.statistic), results, level, spec)
    return Finding(action, best.p_value, best.score, worst)


def _rank_family(
    results: list[FeatureResult], past: PastStatistics, chosen: NDArray[np.bool_], family: str, factor: int, spec: DriftSpec
) -> _Strangest | None:
    """The strangest of a family's chosen statistics that is large enough to matter; every result gets its score and p-value.
    p-values over all features are multiplied by ``factor``.
    """
    indices = [c for c, (_, name) in enumerate(past.columns) if chosen[c] and family_of(name) == family]
    if not indices:
        return None
    columns, past_values = [past.columns[c] for c in indices], past.values[:, indices]
    scores = standardize(past_values, np.array([results[index].statistics[name] for index, name in columns], dtype=float))
    past_maxima = row_maxima(scores[:-1])
    best: tuple[float, int, str] | None = None
    by_result: dict[int, list[int]] = {}
    for c, (index, _) in enumerate(columns):
        by_result.setdefault(index, []).append(c)
    for index, own in sorted(by_result.items()):
        top = row_maxima(scores[:, own])
        score, p = float(top[-1]), conformal_p_value(top[:-1], float(top[-1]))
        among_all = min(1.0, factor * conformal_p_value(past_maxima, score))
        result = results[index]
        if result.p_value is None or p < result.p_value:
            statistic = columns[own[int(np.nan_to_num(scores[-1, own], nan=-np.inf).argmax())]][1]
            ranked: dict[str, Any] = {"score": score, "statistic": statistic, "p_value": p}
            ranked["windows"] = int(past.counts[[indices[c] for c in own]].max())
            result = replace(result, **ranked, corrected=min(among_all, result.corrected or 1.0))
        # What is too small to matter is never the reason; leaving it out can only raise the p-value.
        large = [c for c in own if result.effects.get(columns[c][1], 0.0) > spec.min_effect]
        if large and family != "shape":
            result = replace(result, count_evidence=CountEvidence(among_all, score))
        if large and (best is None or scores[-1, large].max() > best[0]):
            first = max(large, key=lambda c: scores[-1, c])
            best = (float(scores[-1, first]), index, columns[first][1])
        results[index] = result
    return _Strangest(min(1.0, factor * conformal_p_value(past_maxima, best[0])), *best) if best else None


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
