"""The statistics of the accepted windows: how far each was from its baseline when it was decided.

Belongs here: keeping them as a matrix, in the order of learning or of time. Does not: ranking (ranks), or the baseline.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.decisions.profiles import Key

Floats = NDArray[np.float64]
Statistics = Mapping[Key, Mapping[str, float]]
Column = tuple[Key, str]
# Kept among a window's statistics: the values that they are of.
SIZE = "size"


class History:
    """The statistics of the newest ``remember`` windows: ``{(feature, stratum): {"ks": …, "tail": …}}`` each, and under `SIZE`
    how many values they are of.

    A window whose judgement had no such statistic has NaN in its place.
    """

    def __init__(self, remember: int = 400, windows: Iterable[tuple[Any, Statistics]] = ()) -> None:
        self._remember = remember
        self._columns: dict[Column, int] = {}
        self._labels: list[Any] = []
        self._values = np.full((0, 0), np.nan)
        for window, statistics in windows:
            self.add(window, statistics)

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def windows(self) -> Sequence[Any]:
        """Which window each row is of."""
        return self._labels

    def add(self, window: Any, statistics: Statistics) -> None:
        """Append one window; the oldest is left out when there are too many."""
        self._labels.append(window)
        self._grow(len(self._labels), [(key, name) for key, found in statistics.items() for name in found])
        for key, found in statistics.items():
            for name, value in found.items():
                self._values[-1, self._columns[key, name]] = value
        if len(self._labels) > self._remember:
            self._labels.pop(0)
            self._values = self._values[1:]

    def amend(self, window: Any, key: Key, statistics: Mapping[str, float]) -> None:
        """Put another measurement in the place of a window's own."""
        if window not in self._labels:
            return
        self._grow(len(self), [(key, name) for name in statistics])
        for name, value in statistics.items():
            self._values[self._labels.index(window), self._columns[key, name]] = value

    def matrix(self, columns: Sequence[Column]) -> Floats:
        """(windows, columns)."""
        found = np.full((len(self), len(columns)), np.nan)
        known = [i for i, column in enumerate(columns) if column in self._columns]
        found[:, known] = self._values[:, [self._columns[columns[i]] for i in known]]
        return found

    def _grow(self, rows: int, columns: Iterable[Column]) -> None:
        for column in columns:
            self._columns.setdefault(column, len(self._columns))
        if (rows, len(self._columns)) != self._values.shape:
            grown = np.full((rows, len(self._columns)), np.nan)
            grown[: self._values.shape[0], : self._values.shape[1]] = self._values
            self._values = grown
