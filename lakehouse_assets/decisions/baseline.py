"""What a batch is compared with: the merged distributions of the accepted windows, and how far each of them was off.

Belongs here: the baseline, the history of statistics, and the book that keeps both. Does not: judging, or storing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.distances import Distance, Floats, Steps, distances, steps_of
from lakehouse_assets.decisions.profiles import Key, Profile

Statistics = Mapping[Key, Mapping[str, float]]


class Baseline:
    """The accepted windows' distributions, merged by feature and stratum. ``len()``: the windows that it holds."""

    def __init__(self, windows: Iterable[Sequence[Profile]] = ()) -> None:
        self._steps: dict[Key, Steps] = {}
        self._windows: dict[Key, int] = {}
        self._count = 0
        for profiles in windows:
            self.add(profiles)

    def __len__(self) -> int:
        return self._count

    def add(self, profiles: Sequence[Profile]) -> dict[Key, Steps]:
        """Take in one more window; gives back what was read of it. Raises SketchError, and then nothing is taken in."""
        read = {p.key: steps for p in profiles if (steps := steps_of(p)) is not None}
        for key, steps in read.items():
            known = self._steps.get(key)
            self._steps[key] = known.plus(steps) if known else steps
            self._windows[key] = self._windows.get(key, 0) + 1
        self._count += 1
        return read

    def steps(self, key: Key) -> Steps | None:
        """The merged distribution of a feature and stratum, if any window has had it."""
        return self._steps.get(key)

    def windows(self, key: Key) -> int:
        """How many windows had values of it."""
        return self._windows.get(key, 0)

    @property
    def keys(self) -> tuple[Key, ...]:
        """Every feature and stratum that it knows."""
        return tuple(self._steps)


class History:
    """The statistics of past windows, oldest first: ``{(feature, stratum): {"ks": …, "tail": …}}`` each."""

    def __init__(self, windows: Iterable[Statistics] = ()) -> None:
        self._columns: dict[Key, int] = {}
        self._values = np.full((0, 0, 2), np.nan)
        for statistics in windows:
            self.add(statistics)

    def __len__(self) -> int:
        return len(self._values)

    def add(self, statistics: Statistics) -> int:
        """Append one window; gives back its row."""
        row = len(self)
        self._resize(row + 1, statistics)
        for key, found in statistics.items():
            self._values[row, self._columns[key]] = found["ks"], found["tail"]
        return row

    def amend(self, row: int, key: Key, distance: Distance) -> None:
        """Put another measurement in the place of a row's own."""
        self._resize(len(self), (key,))
        self._values[row, self._columns[key]] = distance

    def matrix(self, keys: Sequence[Key]) -> Floats:
        """(windows, keys, 2: ks and tail), NaN where a window has no such statistic."""
        found = np.full((len(self), len(keys), 2), np.nan)
        known = [i for i, key in enumerate(keys) if key in self._columns]
        found[:, known] = self._values[:, [self._columns[keys[i]] for i in known]]
        return found

    def _resize(self, rows: int, keys: Iterable[Key]) -> None:
        for key in keys:
            self._columns.setdefault(key, len(self._columns))
        if (rows, len(self._columns)) != self._values.shape[:2]:
            grown = np.full((rows, len(self._columns), 2), np.nan)
            grown[: self._values.shape[0], : self._values.shape[1]] = self._values
            self._values = grown


class Book:
    """Baseline and history of one table, kept in step: the fold of its accepted windows in the order of their decisions.

    A window's statistics are those of its decision, against what was the baseline then; except the first
    ``spec.warn_from`` windows of a feature and stratum. Those were compared with next to nothing: as they stand, they would be
    the largest distances on record for years, and hide every fault behind them. So once there are that many, each of them is
    measured again, against the others of them; and this, too, is a function of the accepted windows and their order.
    """

    def __init__(self, spec: DriftSpec) -> None:
        self.spec = spec
        self.baseline = Baseline()
        self.history = History()
        self._entries: list[tuple[Any, tuple[Profile, ...], Statistics]] = []
        self._first: dict[Key, list[tuple[int, Steps]]] = {}

    def learn(self, window: Any, profiles: Sequence[Profile], statistics: Statistics) -> None:
        """Take in an accepted window: its profiles, and its verdict's statistics. Raises SketchError as `Baseline.add`."""
        read = self.baseline.add(profiles)
        self._entries.append((window, tuple(profiles), statistics))
        row = self.history.add(statistics)
        for key, steps in read.items():
            early = self._first.setdefault(key, [])
            if self.baseline.windows(key) > self.spec.warn_from:
                continue
            early.append((row, steps))
            if len(early) == self.spec.warn_from:
                merged = self.baseline.steps(key)
                assert merged is not None  # noqa: S101 (it has just been added to)
                for place, each in early:
                    self.history.amend(place, key, distances(each, merged, batch_is_inside=True))
                early.clear()

    def forget(self, window: Any) -> None:
        """Drop a window whose extraction is no longer the accepted one, as if it had never been taken in."""
        if any(entry[0] == window for entry in self._entries):
            kept = self._without(window)
            self.baseline, self.history, self._entries, self._first = kept.baseline, kept.history, kept._entries, kept._first

    def without_window(self, window: Any) -> tuple[Baseline, History]:
        """What ``window`` is to be judged by: everything known but itself. Not a copy: neither is to be changed."""
        kept = self._without(window) if any(entry[0] == window for entry in self._entries) else self
        return kept.baseline, kept.history

    def _without(self, window: Any) -> "Book":
        kept = Book(self.spec)
        for entry in self._entries:
            if entry[0] != window:
                kept.learn(*entry)
        return kept
