"""How strange a batch by itself is: ranks of its statistics among the windows before, or, while history is too short, chance.

Belongs here: testing every statistic, and choosing the feature that is farthest off. Does not: p-values by theory or by draws
(p_values), or what is made of the finding (judge).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.contracts.drift import VOLUME, DriftSpec
from lakehouse_assets.decisions.drift import p_values
from lakehouse_assets.decisions.drift.baseline import Baseline, read_shape
from lakehouse_assets.decisions.drift.categories import Categories
from lakehouse_assets.decisions.drift.distances import Ecdf
from lakehouse_assets.decisions.drift.feature_result import CountEvidence, FeatureResult
from lakehouse_assets.decisions.drift.method import EQUAL_TERMS
from lakehouse_assets.decisions.drift.past_statistics import Family, PastStatistics
from lakehouse_assets.decisions.drift.predictive_tail import score_p_values
from lakehouse_assets.decisions.drift.profiles import Key, Profile
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.drift.slice_scores import SLICE, SliceFinding, SliceScores
from lakehouse_assets.decisions.drift.statistic_families import FAMILIES
from lakehouse_assets.decisions.drift.verdict import Action, WindowFinding

COUNTED = ("missing", "volume")
# So many windows are enough to contradict a test that takes rows for independent.
LEAST_CONFIRMING = 3
ByChance = Mapping[Key, tuple[str, float]]  # a statistic and its p-value


class _Strangest(NamedTuple):
    """The strangest statistic of all families; ``result``: the index of its result."""

    p_value: float
    score: float
    result: int
    statistic: str
    slice: SliceFinding | None = None


def rank_batch(
    results: list[FeatureResult], past: PastStatistics, spec: DriftSpec, *, may_hold: bool, slices: SliceScores | None = None
) -> WindowFinding | None:
    """Rank the batch among the windows before it; every result gets its own p-value. None where no statistic is known in
    `warn_from` windows. ``slices``: those that are known well enough for that.
    """
    # Few windows say little of what is rare: a statistic must be as well known as the rule asks before it can hold a batch.
    least_windows = spec.hold_from if may_hold else spec.warn_from
    if not (past.counts >= spec.warn_from).any():
        return None
    best = _rank(results, past, past.counts >= least_windows, spec, slices)
    action: Action = "pass"
    if best and best.p_value <= spec.warn_at:
        action = "hold" if may_hold and best.p_value <= spec.hold_at else "warn"
    else:
        # What is not known for long enough to hold a batch can be warned of: a new station.
        other = _rank(results, past, (past.counts >= spec.warn_from) & (past.counts < least_windows), spec)
        if other and other.p_value <= spec.warn_at:
            best, action = other, "warn"
    if best is None:
        return WindowFinding(action, 1.0, None, None)
    worst = results[best.result]
    if action != "pass":
        level = spec.hold_at if action == "hold" else spec.warn_at
        worst = replace(worst, statistic=best.statistic)
        if best.statistic == SLICE and best.slice:
            worst = replace(worst, score=best.score, p_value=best.slice.p_value, windows=best.slice.windows)
        worst = _most_telling(worst, results, level, spec.warn_at if past.method < EQUAL_TERMS else level, spec)
        worst = replace(worst, slice=_name_slice(worst, best, slices, spec))
        index = next(index for index, r in enumerate(results) if r.key == worst.key)
        worst = replace(worst, **past.find_season(index, worst.statistic))
    return WindowFinding(action, best.p_value, best.score, worst)


def _rank(
    results: list[FeatureResult],
    past: PastStatistics,
    chosen: NDArray[np.bool_],
    spec: DriftSpec,
    slices: SliceScores | None = None,
) -> _Strangest | None:
    """The strangest of the chosen statistics and of the slices that is large enough to matter, of the family in which it is the
    strangest; None where none is. Every result gets its score and p-values.
    """
    families = [f for name in FAMILIES if (f := past.family(chosen, name)).indices]
    weights = sum(FAMILIES[family.name] for family in families) + (FAMILIES[SLICE] if slices else 0)
    best: _Strangest | None = None
    changes: dict[int, dict[str, Any]] = {}
    for family in families:
        large = family.large(results, spec.min_effect)
        _score_results(results, changes, family, weights, large)
        # What is too small to matter is never the reason; leaving it out can only raise the p-value.
        if not large:
            continue
        first = max(large, key=lambda c: float(np.nan_to_num(family.scores[-1, c], nan=-np.inf)))
        score = float(family.scores[-1, first])
        p_value = family.p_value(score, weights)
        if best is None or (p_value, -score) < (best.p_value, -best.score):
            best = _Strangest(p_value, score, *family.columns[first])
    for index, change in changes.items():
        results[index] = replace(results[index], **change)
    if slices and (slice_finding := slices.farthest(spec.min_effect)):
        p_value = slices.p_value(slice_finding.score, weights)
        index = next((i for i, result in enumerate(results) if result.key == (slice_finding.feature, None)), None)
        if index is not None and (best is None or (p_value, -slice_finding.score) < (best.p_value, -best.score)):
            best = _Strangest(p_value, slice_finding.score, index, SLICE, slice_finding)
    return best


def _name_slice(worst: FeatureResult, best: _Strangest, slices: SliceScores | None, spec: DriftSpec) -> SliceFinding | None:
    """The slice to name beside the farthest feature: the one that is the finding, or a rare one of that feature."""
    if slices is None or worst.statistic == SLICE:
        return best.slice
    slice_finding = slices.farthest(spec.min_effect, worst.feature) if worst.stratum is None else None
    return slice_finding if slice_finding and slices.p_value(slice_finding.score, FAMILIES[SLICE]) <= spec.hold_at else None


def _score_results(
    results: Sequence[FeatureResult], changes: dict[int, dict[str, Any]], family: Family, weights: int, large: Sequence[int]
) -> None:
    """Add to the ``changes`` of every result of a family its score, its p-value by itself, and the one corrected for all
    features and families. ``large``: the family's columns that are large enough to matter.
    """
    of_columns = [index for index, _ in family.columns]
    starts = [c for c, index in enumerate(of_columns) if c == 0 or index != of_columns[c - 1]]
    tops = np.maximum.reduceat(np.where(np.isnan(family.scores), -np.inf, family.scores), starts, axis=1)
    p_values, last = score_p_values(tops[:-1], tops[-1]), np.nan_to_num(family.scores[-1], nan=-np.inf).tolist()
    large_results, counts = {of_columns[c] for c in large}, family.past.counts[family.indices].tolist()
    for start, end, score, p_value in zip(starts, [*starts[1:], len(last)], tops[-1].tolist(), p_values, strict=True):
        index = of_columns[start]
        corrected, before, change = family.p_value(score, weights), results[index], changes.setdefault(index, {})
        if index in large_results and family.columns[start][1] in COUNTED:
            change["count_evidence"] = CountEvidence(corrected, score)
        least = change.get("p_value", before.p_value)
        if least is None or p_value < least:
            statistic = family.columns[max(range(start, end), key=last.__getitem__)][1]
            least_corrected = change.get("corrected", before.corrected) or 1.0
            change |= {"score": score, "statistic": statistic, "p_value": p_value, "windows": max(counts[start:end])}
            change |= {"corrected": min(corrected, least_corrected), **family.past.find_season(index, statistic)}


def _most_telling(
    worst: FeatureResult, results: Sequence[FeatureResult], level: float, of_counts: float, spec: DriftSpec
) -> FeatureResult:
    """Return the result to name, of several that are far off. The volume comes first, since fewer rows move everything. Then
    come missing values, if they are farther off than the rest. A single feature comes before relations of features.
    ``of_counts``: the level at which volume and missing values are far off.
    """
    counts = [(r, r.count_evidence.score) for r in results if r.count_evidence and r.count_evidence.p_value <= of_counts]
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


def confirm_by_history(
    finding: WindowFinding, results: Sequence[FeatureResult], past: PastStatistics, spec: DriftSpec
) -> WindowFinding:
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
) -> WindowFinding:
    """Test every result by Monte Carlo, two p-values for a number or a category, corrected by Holm; it can only warn. Every
    result gets its own p-value. ``by_chance``: those of relations, which profiles alone cannot give.
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
            name = next((each for each in ("tail", "folded_tail") if each in result.effects), "tail")
            tests.append((index, name, 1.0 / (most_tests * p_values.DRAWS)))
        elif isinstance(batch, Categories) and isinstance(normal, Categories):
            # Of more categories than are kept by name, only the folded distances are known.
            names = ("g", "tail") if "g" in result.statistics else ("folded", "folded_tail")
            pair = p_values.monte_carlo_categories(batch, normal, result.key)
            tests += [(index, name, p) for name, p in zip(names, pair, strict=True)]
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
    return WindowFinding("warn" if least <= spec.warn_at else "pass", least, None, worst)
