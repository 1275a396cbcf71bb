"""How many windows a week a stream has: counted over the last seven days.

Belongs here: that count. Does not: the level that follows (contracts/stream_drift).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import datetime, timedelta

from lakehouse_assets.contracts.stream_drift import DAY, WEEK


class WindowRate:
    """The windows that were decided in the seven days before the newest one, whatever their verdict, by their start."""

    def __init__(self, windows: Iterable[datetime] = ()) -> None:
        self._starts = sorted(set(windows))
        self._prune()

    def add(self, window: datetime) -> None:
        """Count one more window; one that is counted already changes nothing."""
        index = bisect_left(self._starts, window)
        if index == len(self._starts) or self._starts[index] != window:
            self._starts.insert(index, window)
            self._prune()

    def windows_per_week(self, window: datetime) -> float:
        """Return the rate when ``window`` is judged, itself included. Infinite until a day of the last seven is known: then as
        many windows are assumed as triggers count.
        """
        newest = max(window, self._starts[-1]) if self._starts else window
        since = bisect_right(self._starts, newest - timedelta(days=7))
        oldest = self._starts[since] if since < len(self._starts) else newest
        observed = (newest - min(oldest, window)).total_seconds()
        if observed < DAY:
            return float("inf")
        index = bisect_left(self._starts, window)
        is_counted = index < len(self._starts) and self._starts[index] == window
        return (len(self._starts) - since + (not is_counted)) * WEEK / observed

    def _prune(self) -> None:
        if self._starts:
            old = bisect_right(self._starts, self._starts[-1] - timedelta(days=7))
            # In large steps: each moves the whole list.
            if old > len(self._starts) // 8:
                del self._starts[:old]
