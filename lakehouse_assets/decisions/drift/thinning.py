"""Which of a stream's many windows its baseline holds: the first of each slot of time.

Belongs here: the slots. Does not: what is merged of the windows (stream_baseline), or reading them (storage).
"""

from collections.abc import Iterable
from copy import copy
from datetime import datetime

from lakehouse_assets.contracts.stream_drift import StreamDriftSpec

# Of how many windows at once the oldest leave.
STEP = 100


class Thinning:
    """The first window that joins in each slot keeps the slot, also while it is quarantined or is extracted again.

    Slots are aligned to the epoch. They are short at first, so that a new stream is known after minutes. When more than
    `remember` of them have a window, two neighbours become one, until `remember` slots span `remember_days`. So which windows
    a baseline holds follows from their order alone, and changes by one window a slot.
    """

    def __init__(self, spec: StreamDriftSpec) -> None:
        self._remember, self._longest, self.length = spec.remember, spec.longest_slot, spec.shortest_slot
        self._by_slot: dict[int, datetime] = {}

    @classmethod
    def of(cls, spec: StreamDriftSpec, windows: Iterable[datetime]) -> "Thinning":
        """After these windows, in the order in which they joined for the first time."""
        thinning = cls(spec)
        for window in windows:
            thinning.add(window)
        return thinning

    def copy(self) -> "Thinning":
        """Return the same slots, to be changed."""
        other = copy(self)
        other._by_slot = self._by_slot.copy()
        return other

    def add(self, window: datetime) -> None:
        """Give a window its slot, if nobody has it."""
        self._by_slot.setdefault(self._slot(window), window)
        while len(self._by_slot) > self._remember and self.length < self._longest:
            self.length = min(2 * self.length, self._longest)
            windows, self._by_slot = self._by_slot.values(), {}
            for each in windows:
                self._by_slot.setdefault(self._slot(each), each)

    def newest(self, count: int) -> list[datetime]:
        """Return the windows of the newest slots in the order of joining: ``count``, and up to `STEP` - 1 more."""
        windows = list(self._by_slot.values())
        return windows[max(0, (len(windows) - count) // STEP * STEP) :]

    def _slot(self, window: datetime) -> int:
        return int(window.timestamp() // self.length)
