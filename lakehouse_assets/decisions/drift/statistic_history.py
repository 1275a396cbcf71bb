"""The statistics of the accepted windows, each as far from its baseline as when it was decided, and conformal ranks among them.

Belongs here: the matrix in the order of learning, standardizing by the others, the rank that is a p-value. Does not: how a
statistic is measured, or what follows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.decisions.drift.method import EQUAL_TERMS, METHOD
from lakehouse_assets.decisions.drift.profiles import Key
from lakehouse_assets.decisions.drift.season_parts import Calendar
from lakehouse_assets.decisions.drift.slices import Slices

Floats = NDArray[np.float64]
Statistics = Mapping[Key, Mapping[str, float]]
Column = tuple[Key, str]
SIZE = "size"  # the name under which a window's number of values is kept
# A statistic that never varied: any change of a thousandth counts as one deviation, rounding counts as none.
LEAST_SPREAD = 1e-3
# A window that knows fewer of the statistics has a smaller maximum for that reason alone.
LEAST_KNOWN = 0.8
# Whatever is farther off is as far: its square must stay a number.
FARTHEST_OFF = 1e100


class StatisticHistory:
    """The statistics of the newest ``remember`` windows, ``{(feature, stratum): {"ks": …, "tail": …}}`` each, with the number
    of their values as `SIZE`. A statistic that a window does not have is NaN. Beside them the windows' slices.
    """

    def __init__(self, remember: int) -> None:
        self._remember = remember
        self._columns: dict[Column, int] = {}
        self._labels: list[Any] = []
        self._values = np.full((0, 0), np.nan)
        self._slices: list[Slices | None] = []
        self._calendar: tuple[Any, str, Calendar | None] | None = None

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def windows(self) -> Sequence[Any]:
        """The label of each row's window."""
        return self._labels

    @property
    def slices(self) -> Sequence[Slices | None]:
        """The slices of each row's window; None where it has none."""
        return self._slices

    def count_slices(self) -> int:
        """Return the number of slices of the newest window that has some."""
        return next((len(each.conditions) for each in reversed(self._slices) if each is not None), 0)

    def add(self, window: Any, statistics: Statistics, slices: Slices | None = None) -> None:
        """Append one window; the oldest is dropped when there are too many."""
        self._calendar = None
        self._labels.append(window)
        self._slices.append(slices)
        for key, by_name in statistics.items():
            self._set(-1, key, by_name)
        self._grow(())
        if len(self._labels) > self._remember:
            self._labels.pop(0)
            self._slices.pop(0)
            self._values = self._values[1:]

    def amend(self, window: Any, key: Key, statistics: Mapping[str, float]) -> None:
        """Replace statistics of a window; nothing where it is not remembered."""
        if window in self._labels:
            self._set(self._labels.index(window), key, statistics)

    def calendar(self, window: Any, timezone: str) -> Calendar | None:
        """The calendar of all windows before ``window`` is judged, which is not added; None where labels are no times."""
        if self._calendar is None or self._calendar[0] is not window or self._calendar[1] != timezone:
            self._calendar = (window, timezone, Calendar.of(self._labels, window, timezone))
        return self._calendar[2]

    def latest(self) -> dict[Key, dict[str, float]]:
        """Of each statistic the value of the newest window that has one."""
        newest: dict[Key, dict[str, float]] = {}
        for (key, name), column in self._columns.items():
            values = self._values[:, column]
            values = values[~np.isnan(values)]
            if values.size:
                newest.setdefault(key, {})[name] = float(values[-1])
        return newest

    def matrix(self, columns: Sequence[Column]) -> Floats:
        """(windows, columns)."""
        values = np.full((len(self), len(columns)), np.nan)
        present = [index for index, column in enumerate(columns) if column in self._columns]
        values[:, present] = self._values[:, [self._columns[columns[index]] for index in present]]
        return values

    def _set(self, row: int, key: Key, statistics: Mapping[str, float]) -> None:
        self._grow([(key, name) for name in statistics])
        for name, value in statistics.items():
            self._values[row, self._columns[key, name]] = value

    def _grow(self, columns: Iterable[Column]) -> None:
        for column in columns:
            self._columns.setdefault(column, len(self._columns))
        shape = (len(self), len(self._columns))
        if shape != self._values.shape:
            grown = np.full(shape, np.nan)
            grown[: self._values.shape[0], : self._values.shape[1]] = self._values
            self._values = grown


def standardize(history: Floats, now: Floats) -> Floats:
    """Each row in deviations from the mean of all *other* rows, the last of which is ``now``.

    ``history``: (windows, m), ``now``: (m,), NaN where unknown; gives (windows + 1, m). Every row is treated alike, which makes
    the rank of the last one a p-value.
    """
    # Computed in place: the memory of a new array costs more than what is computed.
    rows = np.vstack([history, now])
    np.clip(rows, -FARTHEST_OFF, FARTHEST_OFF, out=rows)
    unknown = np.isnan(rows)
    counts = len(rows) - np.count_nonzero(unknown, axis=0)
    has_unknown = bool(unknown.any())
    filled = np.where(unknown, 0.0, rows) if has_unknown else rows
    # Centred first, or the difference of squares below would cancel.
    filled -= filled.sum(axis=0) / np.maximum(counts, 1)
    if has_unknown:
        filled[unknown] = 0.0
    others, squares = np.maximum(counts - 1, 1), filled**2
    mean = filled.sum(axis=0) - filled
    mean /= others
    np.subtract(squares.sum(axis=0), squares, out=squares)
    squares /= others
    squares -= mean**2
    spread = np.sqrt(np.maximum(squares, LEAST_SPREAD**2, out=squares), out=squares)
    filled -= mean
    filled /= spread
    if has_unknown:
        filled[unknown] = np.nan
    return filled


def row_maxima(rows: Floats) -> Floats:
    """Return each row's largest known value; -inf if it has none. (windows, m) → (windows,)."""
    return np.where(np.isnan(rows), -np.inf, rows).max(axis=1, initial=-np.inf)


def past_maxima(scores: Floats, method: int = METHOD) -> Floats:
    """Return each past window's largest known score; -inf where it has none, or knows too few for a fair comparison.

    A batch has all of the scores. Of the windows before it, those that know `LEAST_KNOWN` of them count: the maximum of fewer
    is smaller, so that new features would make every batch look strange. Where these windows are fewer than those that know
    the least known score, as many of the best-known windows count. ``scores``: (windows, m); gives (windows,).
    """
    maxima = row_maxima(scores)
    if method < EQUAL_TERMS or not scores.size:
        return maxima
    is_known = ~np.isnan(scores)
    shares, least = is_known.mean(axis=1), max(int(is_known.sum(axis=0).min()), 1)
    enough = min(LEAST_KNOWN, float(np.partition(shares, -least)[-least]))
    return np.where(shares >= enough, maxima, -np.inf)
