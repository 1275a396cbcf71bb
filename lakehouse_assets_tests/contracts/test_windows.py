"""The calendar: windows are half-open, keys read back, ranges are unbroken."""

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.contracts.windows import (
    Cadence,
    calendar,
    closed_windows,
    contiguous,
    parse_key,
    window_at,
    window_start,
)

CADENCES = ["hourly", "daily", "weekly", "monthly"]
# Each month has these days.
STARTS = st.builds(
    lambda seconds, day: datetime.fromtimestamp(seconds, UTC).replace(day=day), st.integers(0, 4 * 10**9), st.integers(1, 28)
)


@pytest.mark.parametrize("cadence", CADENCES)
def test_a_key_reads_back(cadence):
    for window in list(calendar(datetime(2023, 12, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC), cadence))[:80]:
        assert parse_key(window.key, cadence) == window
        assert window.start < window.end


def test_an_unfinished_window_is_not_in_the_calendar():
    windows = list(calendar(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, 23, tzinfo=UTC), "daily"))
    assert [w.key for w in windows] == ["2024-01-01"]


@given(st.sets(st.integers(0, 400)))
def test_ranges_hold_every_window_once_and_no_gap(days):
    start = datetime(2024, 1, 1, tzinfo=UTC)
    windows = [window_at(start + timedelta(days=d), "daily") for d in days]
    ranges = contiguous(windows)
    assert sorted(w for r in ranges for w in r) == sorted(windows)
    assert all(a.end == b.start for r in ranges for a, b in zip(r, r[1:], strict=False))
    assert all(a[-1].end < b[0].start for a, b in zip(ranges, ranges[1:], strict=False))


@given(start=STARTS, length=st.timedeltas(timedelta(0), timedelta(days=70)), cadence=st.sampled_from(get_args(Cadence)))
def test_the_kept_calendar_is_the_calendar(start, length, cadence):
    """Whether the start is at a bound of the cadence or not."""
    if cadence in ("1min", "5min"):
        length /= 100
    for first in (start, window_start(start, cadence)):
        assert closed_windows(first, first + length, cadence) == [*calendar(first, first + length, cadence)]
