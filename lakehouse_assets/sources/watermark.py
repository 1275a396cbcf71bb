"""What a window takes of a source that has only the present: everything since what was last taken, from a ledger.

Belongs here: spans of time out of what is on record (pure). Does not: reading, or keeping the record (storage/positions).
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from lakehouse_assets.contracts.windows import Window

Taken = tuple[datetime | None, datetime]


def taken(windows: Iterable[Window], recorded: Mapping[datetime, str], overlap: timedelta) -> dict[Window, Taken]:
    """What each of these windows takes, ``[low, high)``; the same for ever for one that is on record.

    Of those that are not, the newest takes all since the last one taken (``low`` None: since ever), and ``overlap`` before it
    again. The others take nothing (``low == high``): it covers them, as it does a window that comes late.

    >>> a, b, c = (Window(datetime(2024, 1, d), datetime(2024, 1, d + 1), str(d)) for d in (1, 2, 3))
    >>> spans = taken([a, b], {}, timedelta(hours=1))
    >>> [(low and low.isoformat(), high.isoformat()) for low, high in spans.values()]
    [('2024-01-02T00:00:00', '2024-01-02T00:00:00'), (None, '2024-01-03T00:00:00')]
    >>> taken([c], {b.start: as_text(*spans[b])}, timedelta(hours=1))[c][0].isoformat()
    '2024-01-02T23:00:00'
    """
    known = {start: from_text(text) for start, text in recorded.items()}
    found = {window: known.get(window.start, (window.end, window.end)) for window in sorted(windows)}
    fresh = [window for window in found if window.start not in known]
    last = max((high for low, high in known.values() if low != high), default=None)
    if fresh and (last is None or fresh[-1].end > last):
        found[fresh[-1]] = (last - overlap if last else None, fresh[-1].end)
    return found


def as_text(low: datetime | None, high: datetime) -> str:
    """A span as the record keeps it."""
    return json.dumps({"low": low.isoformat() if low else None, "high": high.isoformat()})


def from_text(text: str) -> Taken:
    """A span from the record."""
    given = json.loads(text)
    return (datetime.fromisoformat(given["low"]) if given["low"] else None, datetime.fromisoformat(given["high"]))
