"""What may be expected of a statistic: by one season, with or without the pull of the window before, or nothing at all.

Belongs here: these candidates, and the choice of the likeliest. Does not: computing them (seasons).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.contracts.drift import Season
from lakehouse_assets.decisions.drift.distances import Floats
from lakehouse_assets.decisions.drift.statistic_history import LEAST_SPREAD

# The share of a statistic's windows that a season must say something of.
LEAST_SHARE = 0.8


class Candidate(NamedTuple):
    """``past``: (windows, m), deviations in the order of time; the others (m,). NaN: nothing is said."""

    seasons: Sequence[Season]
    past: Floats
    now: Floats
    expected: Floats
    pull: Floats


class Candidates:
    """What may be subtracted from statistics, and how much likelier each makes their past. The first is nothing at all."""

    def __init__(self, nothing: Candidate, wanted: Sequence[Season]) -> None:
        self._all, self._wanted = [nothing], wanted
        self._is_known = np.isfinite(nothing.past)
        self._counts = self._is_known.sum(axis=0)
        # Of differences of large numbers, rounding is no deviation.
        self._sizes = np.where(self._is_known, np.abs(nothing.past), 0.0)
        largest = np.maximum(self._sizes.max(axis=0, initial=0.0), np.abs(nothing.expected))
        self._least = np.maximum(LEAST_SPREAD, 1e-9 * largest)
        self._likelihoods: list[tuple[Floats, NDArray[np.bool_]]] = []

    def add(self, candidate: Candidate) -> None:
        """Compare one more with nothing."""
        both = self._is_known & np.isfinite(candidate.past)
        count = np.maximum(both.sum(axis=0), 1)
        before = np.where(both, self._sizes, 0.0).sum(axis=0) / count + self._least
        after = np.where(both, np.abs(candidate.past), 0.0).sum(axis=0) / count + self._least
        is_usable = np.isfinite(candidate.now) & (count >= LEAST_SHARE * self._counts)
        is_wanted = [each in ("auto", own) for each, own in zip(self._wanted, candidate.seasons, strict=True)]
        self._all.append(candidate)
        self._likelihoods.append((count * np.log(before / after), is_usable & is_wanted))

    def choose(self, least_gain: float) -> Candidate:
        """Of each statistic the likeliest candidate, if it is so by ``least_gain`` for a season and again for a pull."""
        wanted = self._wanted
        best, best_gain = np.zeros(len(wanted), dtype=int), np.array([0.0 if each == "auto" else -np.inf for each in wanted])
        for index, (likelihood, is_usable) in enumerate(self._likelihoods, start=1):
            candidate = self._all[index]
            is_seasonal = np.array([season != "none" for season in candidate.seasons], dtype=int)
            gain = likelihood - least_gain * (is_seasonal + (candidate.pull > 0))
            is_better = is_usable & (gain > best_gain)
            best, best_gain = np.where(is_better, index, best), np.where(is_better, gain, best_gain)
        past = np.empty(self._sizes.shape[::-1]).T
        now, expected, pull = (np.empty(len(wanted)) for _ in range(3))
        seasons: list[Season] = ["none"] * len(wanted)
        for index in set(best.tolist()):
            candidate, columns = self._all[index], np.flatnonzero(best == index)
            past[:, columns] = candidate.past[:, columns]
            for chosen, values in zip((now, expected, pull), candidate[2:], strict=True):
                chosen[columns] = values[columns]
            for column in columns.tolist():
                seasons[column] = candidate.seasons[column]
        return Candidate(seasons, past, now, expected, pull)
