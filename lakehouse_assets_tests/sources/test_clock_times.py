"""Clocks that are set back: each row is in one window and in one query, and none is passed over.

Belongs here: bounds of times without a zone, and of dates, as SQL gets them. Does not: a database (test_jdbc, test_mariadb).
"""

import doctest
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import types as T

from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.spark_table import SparkTableSource
from lakehouse_assets.contracts.windows import Window, calendar
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import clock_times
from lakehouse_assets.sources.clock_times import clock_time
from lakehouse_assets.sources.jdbc import JdbcReader
from lakehouse_assets.sources.jdbc_intervals import interval_to_text
from lakehouse_assets.sources.postgres import Postgres
from lakehouse_assets.sources.table_scan import TableScan

MINUTE = timedelta(minutes=1)
# A day on which each zone's clocks are set back: by an hour, by half of one, at midnight, and within an hour of UTC.
ZONES = {
    "America/New_York": "2024-11-03",
    "Australia/Lord_Howe": "2024-04-06",
    "America/Havana": "2024-11-03",
    "Asia/Tehran": "2022-09-21",
    "Atlantic/Azores": "2024-10-27",
}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_the_example() -> None:
    assert doctest.testmod(clock_times).failed == 0


@pytest.mark.parametrize(("name", "day"), ZONES.items())
def test_the_time_never_decreases_and_no_time_is_passed_over(name, day) -> None:
    zone = ZoneInfo(name)
    moments = [moment(day) + MINUTE * n + timedelta(microseconds=1) for n in range(-60, 36 * 60)]
    times = [clock_time(each, zone).replace(microsecond=0) for each in moments]
    local = [each.astimezone(zone).replace(tzinfo=None, microsecond=0) for each in moments]
    assert any(after < before for before, after in pairwise(local)), "the clocks are set back"
    assert all(timedelta() <= after - before <= MINUTE for before, after in pairwise(times))
    assert all(time == min(local[index:]) for index, time in enumerate(times))


class OrdersOfKind(Postgres):
    """A table that no server has: its column of times is of this kind."""

    time_kind = "timestamp without time zone"

    def describe(self):
        return [("at", self.time_kind, self.time_kind)]

    def oldest(self) -> datetime:
        return moment("2024-11-01")


def reader(kind: str = OrdersOfKind.time_kind, recorded=None, **attributes) -> JdbcReader:
    source = {"kind": "jdbc", "connection": "SHOP", "table": "t", "modified": "at", "timezone": "America/New_York"}
    model = JdbcSource.model_validate(source | attributes)
    opened = JdbcReader(model, Settings.from_environment({}), recorded=recorded)
    database = OrdersOfKind(model, Settings.from_environment({}))
    database.time_kind = kind
    opened.__dict__["_database"] = database
    return opened


def stretches(opened: JdbcReader, windows: list[Window]) -> list[tuple[str, str]]:
    """The begin and end of each query of these windows, as days and minutes; `since ever` without a begin."""
    matches = [re.findall(r"(>=|<) '(.{16})", part) for part in opened._parts(opened._spans(windows))]
    by_sign = [dict(pairs) for pairs in matches]
    return [(bounds.get(">=", "since ever"), bounds["<"]) for bounds in by_sign]


@pytest.mark.parametrize("partitions", [1, 2, 3, 5, 7, 64])
def test_parallel_queries_have_each_time_once(partitions) -> None:
    hours = list(calendar(moment("2024-11-03T03:00"), moment("2024-11-03T10:00"), "hourly"))
    parts = stretches(reader(partitions=partitions), hours)
    assert len(parts) == partitions and (parts[0][0], parts[-1][1]) == ("2024-11-02 23:00", "2024-11-03 05:00")
    assert all(end == begin for (_, end), (begin, _) in pairwise(parts))
    assert all(begin <= end for begin, end in parts)


def test_windows_that_are_no_range_have_each_time_once() -> None:
    minutes = list(calendar(moment("2024-11-03T05:30"), moment("2024-11-03T05:45"), "5min"))
    minutes += list(calendar(moment("2024-11-03T06:30"), moment("2024-11-03T06:45"), "5min"))
    assert stretches(reader(), minutes) == [("2024-11-03 01:30", "2024-11-03 01:45")]


@pytest.mark.parametrize("cadence", ["1min", "5min", "15min", "hourly"])
def test_a_window_has_the_same_times_whatever_windows_are_asked_for_with_it(cadence) -> None:
    database = reader()._database
    windows = {w: (w.start, w.end) for w in calendar(moment("2024-11-03T03:00"), moment("2024-11-03T10:00"), cadence)}
    together = database.bounds(windows)
    alone = {window: bounds for window, span in windows.items() for _, bounds in database.bounds({window: span}).items()}
    assert together == alone
    assert all(end == begin for (_, end), (begin, _) in pairwise(together.values()))
    repeated = [w for w in windows if moment("2024-11-03T05:00") <= w.start < moment("2024-11-03T06:00")]
    assert repeated and not set(repeated) & set(together), "their times come again"


@pytest.mark.parametrize("kind", [T.TimestampNTZType(), T.DateType()])
@pytest.mark.parametrize(("name", "day"), ZONES.items())
def test_a_table_of_spark_has_each_time_in_one_window(name, day, kind) -> None:
    source = SparkTableSource.model_validate({"kind": "table", "table": "t", "modified": "at", "timezone": name})
    scan = TableScan(None, source, None, {}, False)  # type: ignore[arg-type]
    starts = [window.start for window in calendar(moment(day), moment(day) + timedelta(hours=36), "5min")]
    bounds = [scan._bound(start, kind) for start in starts]
    assert bounds == sorted(bounds)


@pytest.mark.parametrize("overlap", [0, 1, 30, 60, 90])
def test_a_watermark_passes_over_no_time_of_clocks_that_are_set_back(overlap) -> None:
    recorded: dict[datetime, str] = {}
    bounds = []
    for window in calendar(moment("2024-11-03T03:00"), moment("2024-11-03T10:00"), "hourly"):
        opened = reader(recorded=recorded, history="watermark", overlap_minutes=overlap)
        bounds += opened._database.bounds(opened._spans([window])).values()
        recorded |= {each.start: text for each, text in opened.positions([window]).items()}
    assert bounds[0][0] is None and bounds[-1][1] == datetime.fromisoformat("2024-11-03T05:00")
    assert all(low <= high for (_, high), (low, _) in pairwise(bounds))


@pytest.mark.parametrize(
    ("start", "end", "cadence", "overlap", "low", "high"),
    [
        # The rows of a day are stamped with it until it is over.
        ("2024-06-11T20:00", "2024-06-11T21:00", "hourly", 30, "2024-06-11", "2024-06-11 17:00"),
        ("2024-06-12T04:00", "2024-06-12T05:00", "hourly", 30, "2024-06-11", "2024-06-12 01:00"),
        ("2024-06-12T04:00", "2024-06-12T05:00", "hourly", 0, "2024-06-12", "2024-06-12 01:00"),
        ("2024-06-11T00:00", "2024-06-12T00:00", "daily", 60, "2024-06-10", "2024-06-11 20:00"),
    ],
)
def test_dates_of_a_watermark_are_read_from_their_midnight_on(start, end, cadence, overlap, low, high) -> None:
    recorded = {moment("2024-01-01"): interval_to_text(None, moment(start))}
    opened = reader("date", recorded, history="watermark", overlap_minutes=overlap)
    assert stretches(opened, list(calendar(moment(start), moment(end), cadence))) == [(f"{low} 00:00", high)]


def test_a_window_that_a_newer_one_covers_reads_no_date() -> None:
    first, second = calendar(moment("2024-06-11T20:00"), moment("2024-06-11T22:00"), "hourly")
    opened = reader("date", history="watermark", overlap_minutes=30)
    assert list(opened._database.bounds(opened._spans([first, second]))) == [second]
