"""When the rows of each window were modified: intervals of time, which a source without history hands out once.

Belongs here: windows → intervals, and intervals as text. Does not: SQL (databases), or reading (jdbc).
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from lakehouse_assets.contracts.windows import Window

# From and until when, UTC; None: since ever.
Interval = tuple[datetime | None, datetime]
# When the rows of each window were modified.
Spans = Mapping[Window, Interval]


def assign_intervals(windows: Iterable[Window], recorded: Mapping[datetime, str], overlap: timedelta) -> dict[Window, Interval]:
    """Return the interval ``[low, high)`` of each of these windows. A recorded one never changes.

    Of the others, the newest window reads everything since the last interval (``low`` None: since ever), plus ``overlap``
    before it. The rest read nothing (``low == high``): the newest covers them, and covers a window that comes late.

    >>> a, b, c = (Window(datetime(2024, 1, d), datetime(2024, 1, d + 1), str(d)) for d in (1, 2, 3))
    >>> spans = assign_intervals([a, b], {}, timedelta(hours=1))
    >>> [(low and low.isoformat(), high.isoformat()) for low, high in spans.values()]
    [('2024-01-02T00:00:00', '2024-01-02T00:00:00'), (None, '2024-01-03T00:00:00')]
    >>> assign_intervals([c], {b.start: interval_to_text(*spans[b])}, timedelta(hours=1))[c][0].isoformat()
    '2024-01-02T23:00:00'
    """
    recorded_intervals = {start: interval_from_text(text) for start, text in recorded.items()}
    intervals = {window: recorded_intervals.get(window.start, (window.end, window.end)) for window in sorted(windows)}
    unrecorded = [window for window in intervals if window.start not in recorded_intervals]
    last = max((high for low, high in recorded_intervals.values() if low != high), default=None)
    if unrecorded and (last is None or unrecorded[-1].end > last):
        intervals[unrecorded[-1]] = (last - overlap if last else None, unrecorded[-1].end)
    return intervals


def interval_to_text(low: datetime | None, high: datetime) -> str:
    """Return an interval as text for the record."""
    return json.dumps({"low": low.isoformat() if low else None, "high": high.isoformat()})


def interval_from_text(text: str) -> Interval:
    """Return an interval from the record's text."""
    bounds = json.loads(text)
    return (datetime.fromisoformat(bounds["low"]) if bounds["low"] else None, datetime.fromisoformat(bounds["high"]))


def merge_spans(spans: Spans) -> list[Interval]:
    """Return the spans' times as contiguous intervals, oldest first; an empty span adds none."""
    merged: list[Interval] = []
    filled = [(low, high) for low, high in spans.values() if low is None or low < high]
    for low, high in sorted(filled, key=lambda pair: (pair[0] is not None, pair)):
        if merged and low is not None and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
