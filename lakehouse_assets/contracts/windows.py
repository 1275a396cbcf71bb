"""Extraction windows: half-open UTC intervals, their keys, and the contiguous ranges they form.

Belongs here: the calendar of a table. Does not: which windows exist at a source, or what happened to them.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple

Cadence = Literal["1min", "5min", "15min", "hourly", "daily", "weekly", "monthly"]
# Of windows: `moment` is that of a stream, whose windows are milliseconds that no calendar has.
WindowCadence = Cadence | Literal["moment"]

MINUTES = {"1min": 1, "5min": 5, "15min": 15}
LENGTHS: dict[str, timedelta] = {cadence: timedelta(minutes=minutes) for cadence, minutes in MINUTES.items()}
LENGTHS |= {"hourly": timedelta(hours=1), "daily": timedelta(days=1), "weekly": timedelta(days=7)}
LENGTHS["moment"] = timedelta(milliseconds=1)
# Dagster's partitions stay few where windows are many: at most 96 windows of a calendar share one.
PARTITIONS: dict[str, Cadence] = {"1min": "hourly", "5min": "hourly", "15min": "daily"}
# Characters of a key. Keys sort as their windows do.
KEY_LENGTHS = {"daily": 10, "weekly": 10, "monthly": 10, "moment": 23}
KEY_FORMATS: dict[str, str] = dict.fromkeys(("daily", "weekly", "monthly"), "%Y-%m-%d")
KEY_FORMATS |= dict.fromkeys((*MINUTES, "hourly"), "%Y-%m-%d-%H:%M") | {"moment": "%Y-%m-%d-%H:%M:%S.%f"}


class Window(NamedTuple):
    """One extraction-time partition, ``[start, end)`` in UTC."""

    start: datetime
    end: datetime
    key: str


def as_utc(moment: datetime | date) -> datetime:
    """Return a time in UTC: a date is its midnight, a naive time is UTC."""
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def next_start(start: datetime, cadence: WindowCadence) -> datetime:
    """Return the start of the window after the one that starts at ``start``."""
    if cadence in LENGTHS:
        return start + LENGTHS[cadence]
    return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)


def window_start(moment: datetime, cadence: WindowCadence) -> datetime:
    """Return the start of the window that a moment (UTC) lies in. Weeks begin on Monday.

    >>> window_start(datetime(2024, 5, 2, 7, 30, tzinfo=UTC), "weekly").isoformat()
    '2024-04-29T00:00:00+00:00'
    """
    if cadence == "moment":
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    hour = moment.replace(minute=0, second=0, microsecond=0)
    if cadence in MINUTES:
        return hour.replace(minute=moment.minute // MINUTES[cadence] * MINUTES[cadence])
    if cadence == "hourly":
        return hour
    day = hour.replace(hour=0)
    if cadence == "weekly":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if cadence == "monthly" else day


def window_at(start: datetime, cadence: WindowCadence) -> Window:
    """Return the window that starts at ``start`` (UTC)."""
    return _window(as_utc(start), cadence)


def _window(start: datetime, cadence: WindowCadence) -> Window:
    # The same key as by KEY_FORMATS, ten times as fast: every poll of the sources makes the windows of years.
    text = start.isoformat("-", "milliseconds" if cadence == "moment" else "minutes")
    return Window(start, next_start(start, cadence), text[: KEY_LENGTHS.get(cadence, 16)])


def partition_of(start: datetime, cadence: WindowCadence) -> Window:
    """Return the partition in Dagster that a calendar's window lies in: its own, or of short windows their hour or day."""
    longer = PARTITIONS.get(cadence)
    return window_at(start, cadence) if longer is None else window_at(window_start(as_utc(start), longer), longer)


def parse_key(key: str, cadence: WindowCadence) -> Window:
    """Return the window of a key. Raises ValueError for a key of another form."""
    return window_at(datetime.strptime(key, KEY_FORMATS[cadence]).replace(tzinfo=UTC), cadence)


def calendar(start: datetime, end: datetime, cadence: Cadence) -> Iterator[Window]:
    """Yield every full window between ``start`` and ``end``, oldest first."""
    window = window_at(start, cadence)
    while window.end <= end:
        yield window
        window = _window(window.end, cadence)


def closed_windows(start: datetime, end: datetime, cadence: Cadence) -> list[Window]:
    """Return the same windows. The last calendars are kept: a run makes the one of its table three times."""
    start, end = as_utc(start), as_utc(end)
    # Where windows begin at the bounds of their cadence, so do their ends.
    last = window_start(end, cadence) if start == window_start(start, cadence) else end
    return list(_kept_calendar(start, last, cadence))


@lru_cache(maxsize=4)
def _kept_calendar(start: datetime, end: datetime, cadence: Cadence) -> tuple[Window, ...]:
    return tuple(calendar(start, end, cadence))


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
