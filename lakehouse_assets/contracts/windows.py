"""Extraction windows: half-open UTC intervals, their keys, and the contiguous ranges they form.

Belongs here: the calendar of a table. Does not: which windows exist at a source, or what happened to them.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Literal, NamedTuple

Cadence = Literal["hourly", "daily", "weekly", "monthly"]

KEY_FORMATS: dict[str, str] = {
    "hourly": "%Y-%m-%d-%H:%M",
    "daily": "%Y-%m-%d",
    "weekly": "%Y-%m-%d",
    "monthly": "%Y-%m-%d",
}


class Window(NamedTuple):
    """One extraction-time partition, ``[start, end)`` in UTC."""

    start: datetime
    end: datetime
    key: str


def as_utc(moment: datetime | date) -> datetime:
    """A date is its midnight; a naive time is taken as UTC."""
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def next_start(start: datetime, cadence: Cadence) -> datetime:
    """The start of the window after the one that starts at ``start``."""
    if cadence == "hourly":
        return start + timedelta(hours=1)
    if cadence == "daily":
        return start + timedelta(days=1)
    if cadence == "weekly":
        return start + timedelta(days=7)
    return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)


def window_at(start: datetime, cadence: Cadence) -> Window:
    """The window that starts at ``start`` (UTC)."""
    return _window(as_utc(start), cadence)


def _window(start: datetime, cadence: Cadence) -> Window:
    # What KEY_FORMATS says, ten times as fast: every look at the sources makes the windows of years.
    text = start.isoformat("-", "minutes")
    return Window(start, next_start(start, cadence), text[:16] if cadence == "hourly" else text[:10])


def parse_key(key: str, cadence: Cadence) -> Window:
    """The window of a partition key. Raises ValueError for a key of another form."""
    return window_at(datetime.strptime(key, KEY_FORMATS[cadence]).replace(tzinfo=UTC), cadence)


def calendar(start: datetime, end: datetime, cadence: Cadence) -> Iterator[Window]:
    """Every whole window between ``start`` and ``end``, oldest first."""
    window = window_at(start, cadence)
    while window.end <= end:
        yield window
        window = _window(window.end, cadence)


def contiguous(windows: Iterable[Window]) -> list[list[Window]]:
    """Group windows into unbroken ranges, oldest first.

    >>> a, b, c = (window_at(datetime(2024, 1, d), "daily") for d in (1, 2, 5))
    >>> [[w.key for w in r] for r in contiguous([c, a, b])]
    [['2024-01-01', '2024-01-02'], ['2024-01-05']]
    """
    ranges: list[list[Window]] = []
    for window in sorted(set(windows)):
        if ranges and ranges[-1][-1].end == window.start:
            ranges[-1].append(window)
        else:
            ranges.append([window])
    return ranges
