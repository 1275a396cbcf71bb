"""Windows of a guard by a column of time: their calendar, what statistics say of a file, and what a YAML may declare.

Belongs here: the pure rules. Does not: real tables (guards/test_windows).
"""

import json
from datetime import UTC, date, datetime, timedelta

import pytest
from pydantic import ValidationError

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.windows import window_start
from lakehouse_assets.decisions.guard_windows import Scanned, covered_windows, last_scan, moment_of_table

DAY = datetime(2024, 5, 1, tzinfo=UTC)


def guard(**changes):
    windows = {"column": "at", "cadence": "daily", **changes.pop("windows", {})}
    columns = {"id": "bigint", "at": "timestamp"}
    return GuardSpec.model_validate({"name": "orders", "path": "p", "columns": columns, "windows": windows, **changes})


@pytest.mark.parametrize(
    ("cadence", "expected"),
    [("hourly", (5, 1, 7)), ("daily", (5, 1, 0)), ("weekly", (4, 29, 0)), ("monthly", (5, 1, 0))],
)
def test_a_window_starts_at_its_hour_day_monday_or_month(cadence, expected):
    start = window_start(datetime(2024, 5, 1, 7, 59, 59, 999999, tzinfo=UTC), cadence)
    assert (start.month, start.day, start.hour) == expected
    assert window_start(start, cadence) == start


@pytest.mark.parametrize(
    ("low", "high", "windows"),
    [
        ("2024-05-01T00:00:00.000Z", "2024-05-01T23:59:59.999Z", {DAY}),
        ("2024-05-01", "2024-05-01", {DAY}),
        ("2024-05-01T01:30:00.000+02:00", "2024-05-01T01:40:00.000+02:00", {datetime(2024, 4, 30, tzinfo=UTC)}),
        ("2024-05-01T23:59:59.999Z", "2024-05-02T00:00:00.000Z", None),
        (None, "2024-05-02T00:00:00.000Z", None),
        ("+10000-01-01T00:00:00Z", "2024-05-02", None),
    ],
)
def test_a_file_is_opened_unless_its_statistics_name_one_window(low, high, windows):
    assert covered_windows(low, high, "daily") == windows


def test_the_table_as_a_whole_is_named_by_a_moment_that_no_window_has():
    first = moment_of_table(DAY, set())
    assert first == DAY.replace(microsecond=1000)
    assert moment_of_table(DAY, {first}) == DAY.replace(microsecond=2000)


def test_checks_see_windows_of_their_cadence_and_other_guards_keep_their_hash():
    assert guard().cadence == "daily"
    again = GuardSpec.model_validate_json(guard(publish={"to": "./clean"}).model_dump_json(by_alias=True))
    assert again.windows == guard().windows
    assert "windows" not in GuardSpec.model_validate({"name": "orders", "path": "p"}).ruleset()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"columns": {"id": "bigint"}}, "windows.column: at: declare it in `columns` as date or timestamp"),
        ({"columns": {"at": "string"}}, "it is declared as string"),
        ({"columns": {"at": "date"}, "windows": {"cadence": "hourly"}}, "the date at has no hours"),
        ({"start": 3}, "start: it counts versions; with `windows`, the first day is `windows.start`"),
        ({"cadence": "hourly"}, "cadence: remove it"),
        ({"key": ["id"], "publish": {"to": "./clean"}}, "add at to `key`, or remove `key`"),
        (
            {"checks": [{"check": "not_null", "column": "id", "name": "table_windows"}]},
            "its asset has a check of this name anyway",
        ),
    ],
)
def test_windows_that_cannot_be_are_refused_with_the_way_out(changes, text):
    with pytest.raises(ValidationError, match=text):
        guard(**changes)


def test_a_key_with_the_column_of_time_is_published():
    published = guard(key=["id", "at"], publish={"to": "./clean"}, windows={"start": date(2024, 5, 1)})
    assert published.windows and published.windows.first == DAY


def scan(number: int, table: str, version: int) -> ExtractionRecord:
    """The record of a scan: the ``number``-th, of a version."""
    at = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(minutes=number)
    position = json.dumps({"scanned": version, "digest": f"d{version}", "cut": "at, daily"})
    return ExtractionRecord("orders", at, 1, f"{table}@d{version}", 0, (), version, "run", at, position=position)


@pytest.mark.parametrize(
    ("scans", "expected"),
    [
        ([], None),
        ([("a", 3), ("a", 10)], ("a", 10)),
        ([("a", 10), ("a", 7)], ("a", 10)),  # a record that was made again keeps its scan
        ([("a", 10), ("b", 0)], ("b", 0)),  # another table, whose versions begin anew
        ([("a", 10), ("b", 0), ("b", 2), ("b", 1)], ("b", 2)),
    ],
)
def test_the_last_scan_is_of_the_table_that_is_there(scans, expected):
    records = [scan(number, table, version) for number, (table, version) in enumerate(scans)]
    found_scan = last_scan({record.batch: record for record in records})
    assert found_scan == (expected and Scanned(expected[1], expected[0], f"d{expected[1]}", "at, daily"))
