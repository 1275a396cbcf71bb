"""A batch's ranked statistics beside those of the accepted windows, made comparable: less what is usual in such a window, and
as if all windows had the batch's size; and their scores by family.

Belongs here: that preparation. Does not: seasons (seasons), sizes (window_sizes), or what is found (single_window).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.contracts.drift import DriftSpec, Season
from lakehouse_assets.decisions.drift import statistic_history
from lakehouse_assets.decisions.drift.distances import Floats
from lakehouse_assets.decisions.drift.effects import effect_of_surprise
from lakehouse_assets.decisions.drift.feature_result import FeatureResult
from lakehouse_assets.decisions.drift.method import METHOD
from lakehouse_assets.decisions.drift.predictive_tail import PastScores
from lakehouse_assets.decisions.drift.profiles import Key
from lakehouse_assets.decisions.drift.seasons import Remainders, subtract_seasons
from lakehouse_assets.decisions.drift.statistic_families import FAMILIES, TWO_SIDED, family_of
from lakehouse_assets.decisions.drift.statistic_history import StatisticHistory, past_maxima, standardize
from lakehouse_assets.decisions.drift.window_sizes import SAMPLING, rescale


def _find_seasons(results: Sequence[FeatureResult], columns: Sequence[tuple[int, str]], spec: DriftSpec) -> list[Season]:
    """The season of each column. What has no value at all is as far off as can be in any season. Of relations, correlations
    hardly have one, and spreads are those of the features.
    """
    of_results: list[Season] = ["none" if result.silent else spec.season_of(result.feature) for result in results]
    return ["none" if name.startswith(("spread ", "pair ")) else of_results[index] for index, name in columns]


@dataclass(frozen=True)
class PastStatistics:
    """``columns``: index of the result, name of the statistic. ``values``: (windows, columns), NaN where unknown; ``now``,
    ``two_sided``: (columns,). ``counts``: (columns,), the windows that have each. ``usual``: what seasons explain.
    ``method``: the version by which windows are ranked.
    """

    columns: Sequence[tuple[int, str]]
    values: Floats
    now: Floats
    counts: NDArray[np.int64]
    two_sided: NDArray[np.bool_]
    usual: Remainders
    method: int = METHOD

    @classmethod
    def of(
        cls,
        results: Sequence[FeatureResult],
        history: StatisticHistory,
        sizes: Mapping[Key, int],
        spec: DriftSpec,
        window: Any,
        method: int = METHOD,
    ) -> "PastStatistics":
        """``sizes``: the number of values that each result is of. ``window``: the batch's label in ``history``."""
        columns = [(index, name) for index, r in enumerate(results) for name in r.statistics if family_of(name)]
        values = history.matrix([(results[index].key, name) for index, name in columns])
        now = np.array([results[index].statistics[name] for index, name in columns], dtype=float)
        wanted = _find_seasons(results, columns, spec)
        usual = subtract_seasons(values, now, history.calendar(window, spec.timezone), wanted)
        is_seasonal = np.array([choice.is_made for choice in usual.choices], dtype=bool)
        is_signed = np.array([name in TWO_SIDED for _, name in columns], dtype=bool)
        # Around what is usual, too near is as strange as too far, and a distance varies less than around 0.
        two_sided = is_signed | is_seasonal
        sampling = np.array([SAMPLING.get(name, 0.0) for _, name in columns])
        sampling = np.where(is_seasonal & ~is_signed, 0.0, sampling)
        of_results = history.matrix([(result.key, statistic_history.SIZE) for result in results])
        then = of_results.take([index for index, _ in columns], axis=1)
        own_sizes = [sizes.get(result.key, 0.0) for result in results]
        size = [own_sizes[index] if family_of(name) == "shape" else 0.0 for index, name in columns]
        comparable = rescale(usual.past, then, np.array(size, dtype=float), sampling, two_sided)
        return cls(columns, comparable, usual.now, (~np.isnan(values)).sum(axis=0), two_sided, usual, method)

    @cached_property
    def _families(self) -> dict[tuple[bytes, str], "Family"]:
        return {}

    @cached_property
    def _indices_by_family(self) -> Mapping[str, NDArray[np.int64]]:
        names = [family_of(name) for _, name in self.columns]
        return {family: np.array([c for c, name in enumerate(names) if name == family], dtype=int) for family in FAMILIES}

    @cached_property
    def _column_of(self) -> Mapping[tuple[int, str], int]:
        return {each: c for c, each in enumerate(self.columns)}

    def indices_of(self, chosen: NDArray[np.bool_], name: str) -> list[int]:
        """The chosen columns of a family, ascending."""
        indices = self._indices_by_family[name]
        return indices[chosen[indices]].tolist()

    def family(self, chosen: NDArray[np.bool_], name: str) -> "Family":
        """The chosen statistics of a family, possibly none; scored once, however often it is asked for."""
        key = (chosen.tobytes(), name)
        if key not in self._families:
            self._families[key] = Family.of(self, chosen, name)
        return self._families[key]

    def windows_of(self, result: int) -> int:
        """The number of windows that have the best-known statistic of a result."""
        return self._most_windows.get(result, 0)

    @cached_property
    def _most_windows(self) -> Mapping[int, int]:
        most: dict[int, int] = {}
        for (index, _), count in zip(self.columns, self.counts.tolist(), strict=True):
            most[index] = max(count, most.get(index, 0))
        return most

    def adjust_effects(self, results: Sequence[FeatureResult], spec: DriftSpec) -> list[FeatureResult]:
        """Results whose effects are of the change from what is usual, where anything is."""
        adjusted = list(results)
        for (index, name), choice, expected in zip(self.columns, self.usual.choices, self.usual.expected.tolist(), strict=True):
            if choice.is_made:
                result = adjusted[index]
                change = result.statistics[name] - expected
                effect = effect_of_surprise(name, change, result.effects.get(name, 0.0), spec)
                shift = result.usual_shift
                if name == "location" and result.deviation is not None:
                    shift = expected * result.deviation
                adjusted[index] = replace(result, effects={**result.effects, name: effect}, usual_shift=shift)
        return adjusted

    def find_season(self, index: int, statistic: str | None) -> dict[str, Any]:
        """The ``season`` and the ``usual`` value of a statistic of the batch's result at ``index``; None both without one."""
        column = self._column_of.get((index, str(statistic)))
        if column is None or not self.usual.choices[column].is_made:
            return {"season": None, "usual": None}
        return {"season": self.usual.choices[column], "usual": round(float(self.usual.expected[column]), 9)}


@dataclass(frozen=True)
class Family:
    """The ranked statistics of one family. ``indices``: into the columns of ``past``; ``scores``: (windows + 1, columns), the
    batch's last, in deviations of the others.
    """

    name: str
    past: PastStatistics
    indices: Sequence[int]
    scores: Floats

    @classmethod
    def of(cls, past: PastStatistics, chosen: NDArray[np.bool_], name: str) -> "Family":
        """The chosen statistics of a family, possibly none."""
        indices = past.indices_of(chosen, name)
        scores = standardize(past.values[:, indices], past.now[indices])
        return cls(name, past, indices, np.where(past.two_sided[indices], np.abs(scores), scores))

    @cached_property
    def columns(self) -> Sequence[tuple[int, str]]:
        """Index of the result, and name of the statistic."""
        return [self.past.columns[c] for c in self.indices]

    def p_value(self, score: float, weights: int) -> float:
        """The p-value of a score as the strangest of all families, whose ``weights`` sum up to this.

        Together they raise as many false alarms as one would (Bonferroni's inequality, weighted). The rank alone of the shape
        counts as it is: beyond all of 99 windows is 1 % whatever the tail.
        """
        tail = weights / FAMILIES[self.name] * self._past_maxima.p_value(score)
        return min(1.0, tail, self._past_maxima.rank(score) if self.name == "shape" else 1.0)

    @cached_property
    def _past_maxima(self) -> PastScores:
        return PastScores.of(past_maxima(self.scores[:-1], self.past.method))

    def large(self, results: Sequence[FeatureResult], least: float) -> list[int]:
        """The columns whose change is large enough to matter."""
        return [c for c, (index, name) in enumerate(self.columns) if results[index].effects.get(name, 0.0) > least]
