"""How many windows a week a stream has: counted over the last seven days.

Belongs here: that count. Does not: the level that follows (contracts/stream_drift).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from lakehouse_assets.contracts.stream_drift import DAY, WEEK


class WindowRate:
    """The windows that were decided in the seven days before the newest one, whatever their verdict, by their start."""

    def __init__(self, windows: Iterable[datetime] = ()) -> None:
        self._starts = sorted(set(windows))
        self._prune()

    @classmethod
    def of_sorted(cls, windows: Sequence[datetime]) -> "WindowRate":
        """Return the rate of windows in order, each once; only the last days' are looked at."""
        first = bisect_right(windows, windows[-1] - timedelta(days=7)) if windows else 0
        rate = cls()
        rate._starts = [*windows[first:]]
        return rate

    def add(self, window: datetime) -> None:
        """Count one more window; one that is counted already changes nothing."""
        index = bisect_left(self._starts, window)
        if index == len(self._starts) or self._starts[index] != window:
            self._starts.insert(index, window)
            self._prune()

    def windows_per_week(self, window: datetime) -> float:
        """Return the rate when ``window`` is judged, itself included if it is of these days. Infinite until a day of the last
        seven is known: then as many windows are assumed as triggers count.
        """
        newest = max(window, self._starts[-1]) if self._starts else window
        after = newest - timedelta(days=7)
        since = bisect_right(self._starts, after)
        oldest = self._starts[since] if since < len(self._starts) else newest
        is_recent = window > after
        observed = (newest - (min(oldest, window) if is_recent else oldest)).total_seconds()
        if observed < DAY:
            return float("inf")
        index = bisect_left(self._starts, window)
        is_counted = index < len(self._starts) and self._starts[index] == window
        return (len(self._starts) - since + (is_recent and not is_counted)) * WEEK / observed

    def _prune(self) -> None:
        if self._starts:
            old = bisect_right(self._starts, self._starts[-1] - timedelta(days=7))
            # In large steps: each moves the whole list.
            if old > len(self._starts) // 8:
                del self._starts[:old]
