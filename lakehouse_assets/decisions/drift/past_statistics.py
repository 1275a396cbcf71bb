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
from lakehouse_assets.decisions.drift.predictive_tail import conformal_p_value, score_p_value
from lakehouse_assets.decisions.drift.profiles import Key
from lakehouse_assets.decisions.drift.seasons import Remainders, remove_seasons
from lakehouse_assets.decisions.drift.statistic_families import FAMILIES, TWO_SIDED, family_of
from lakehouse_assets.decisions.drift.statistic_history import StatisticHistory, row_maxima, standardize
from lakehouse_assets.decisions.drift.window_sizes import SAMPLING, rescale


def _season_of(result: FeatureResult, statistic: str, spec: DriftSpec) -> Season:
    """What has no value at all is as far off as can be in any season. Of relations, correlations hardly have one, and spreads
    are those of the features.
    """
    is_without = result.silent or statistic.startswith(("spread ", "pair "))
    return "none" if is_without else spec.season_of(result.feature)


@dataclass(frozen=True)
class PastStatistics:
    """``columns``: index of the result, name of the statistic. ``values``: (windows, columns), NaN where unknown; ``now``,
    ``two_sided``: (columns,). ``counts``: (columns,), the windows that have each. ``usual``: what seasons explain.
    """

    columns: Sequence[tuple[int, str]]
    values: Floats
    now: Floats
    counts: NDArray[np.int64]
    two_sided: NDArray[np.bool_]
    usual: Remainders

    @classmethod
    def of(
        cls, results: Sequence[FeatureResult], history: StatisticHistory, sizes: Mapping[Key, int], spec: DriftSpec, window: Any
    ) -> "PastStatistics":
        """``sizes``: the number of values that each result is of. ``window``: the batch's label in ``history``."""
        columns = [(index, name) for index, r in enumerate(results) for name in r.statistics if family_of(name)]
        values = history.matrix([(results[index].key, name) for index, name in columns])
        now = np.array([results[index].statistics[name] for index, name in columns], dtype=float)
        wanted: list[Season] = [_season_of(results[index], name, spec) for index, name in columns]
        usual = remove_seasons(values, now, history.windows, window, wanted, timezone=spec.timezone)
        is_seasonal = np.array([choice.is_made for choice in usual.choices], dtype=bool)
        is_signed = np.array([name in TWO_SIDED for _, name in columns], dtype=bool)
        # Around what is usual, too near is as strange as too far, and a distance varies less than around 0.
        two_sided = is_signed | is_seasonal
        sampling = np.array([SAMPLING.get(name, 0.0) for _, name in columns])
        sampling = np.where(is_seasonal & ~is_signed, 0.0, sampling)
        then = history.matrix([(results[index].key, statistic_history.SIZE) for index, _ in columns])
        size = [sizes.get(results[index].key, 0.0) if family_of(name) == "shape" else 0.0 for index, name in columns]
        comparable = rescale(usual.past, then, np.array(size, dtype=float), sampling, two_sided)
        return cls(columns, comparable, usual.now, (~np.isnan(values)).sum(axis=0), two_sided, usual)

    @cached_property
    def _families(self) -> dict[tuple[bytes, str], "Family"]:
        return {}

    def family(self, chosen: NDArray[np.bool_], name: str) -> "Family":
        """The chosen statistics of a family, possibly none; scored once, however often it is asked for."""
        key = (chosen.tobytes(), name)
        if key not in self._families:
            self._families[key] = Family.of(self, chosen, name)
        return self._families[key]

    def windows_of(self, result: int) -> int:
        """The number of windows that have the best-known statistic of a result."""
        return max((int(self.counts[c]) for c, (index, _) in enumerate(self.columns) if index == result), default=0)

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

    def name_season(self, result: FeatureResult, index: int) -> FeatureResult:
        """A result, ``index`` of the batch's, with the season and the usual value of its strangest statistic."""
        column = next((c for c, each in enumerate(self.columns) if each == (index, result.statistic)), None)
        if column is None or not self.usual.choices[column].is_made:
            return replace(result, season=None, usual=None)
        return replace(result, season=self.usual.choices[column], usual=round(float(self.usual.expected[column]), 9))


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
        indices = [c for c, (_, statistic) in enumerate(past.columns) if chosen[c] and family_of(statistic) == name]
        scores = standardize(past.values[:, indices], past.now[indices])
        return cls(name, past, indices, np.where(past.two_sided[indices], np.abs(scores), scores))

    @property
    def columns(self) -> Sequence[tuple[int, str]]:
        """Index of the result, and name of the statistic."""
        return [self.past.columns[c] for c in self.indices]

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
