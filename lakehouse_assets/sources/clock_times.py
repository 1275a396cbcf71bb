"""Moments as a source's clocks show them, for columns of times that name no zone.

Belongs here: a moment and a zone → a time without one (pure). Does not: bounds of windows, or SQL (database, table_scan).
"""

from bisect import bisect_left
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo


def clock_time(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return the earliest time that the clocks show at a moment or later, without a zone.

    It is the time at the moment, except where clocks are about to be set back: there it is the first time that comes again.
    So it never decreases from one moment to a later one, and a time that comes twice is between the moments of its second.

    >>> new_york = ZoneInfo("America/New_York")  # on 2024-11-03, clocks were set back at 06:00 UTC
    >>> times = [datetime.fromisoformat(f"2024-11-03T{text}+00:00") for text in ("04:30", "05:30", "06:00", "06:30")]
    >>> [f"{clock_time(each, new_york):%H:%M}" for each in times]
    ['00:30', '01:00', '01:00', '01:30']
    """
    local = moment.astimezone(zone)
    offset = local.utcoffset() or timedelta()
    repeated = offset - (local.replace(fold=1).utcoffset() or timedelta())
    if repeated <= timedelta():
        return local.replace(tzinfo=None)
    since = moment.replace(microsecond=0)

    def is_set_back(seconds: int) -> bool:
        return (_at(since, seconds, zone).utcoffset() or timedelta()) < offset

    seconds = bisect_left(range(int(repeated.total_seconds()) + 1), True, key=is_set_back)
    return _at(since, seconds, zone).replace(tzinfo=None)


def _at(since: datetime, seconds: int, zone: ZoneInfo) -> datetime:
    return (since + timedelta(seconds=seconds)).astimezone(zone)
