"""A `tests.yaml`, pure: values as they are written, mistakes with file and line, and rows that differ.

Belongs here: reading and comparing. Does not: running a test (test_table_tests beside the rooms).
"""

from pathlib import Path

import pytest

from lakehouse_assets.contracts.expected_rows import row_differences
from lakehouse_assets.contracts.gold_rules import silver_schemas
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.contracts.table_tests import window_keys
from lakehouse_assets.contracts.table_tests_file import read_tests
from lakehouse_assets.errors import ConfigError
from lakehouse_assets_tests.support import readings

GOLD = {"name": "days", "sql": "days.sql", "key": ["hour"]}
SPEC = readings(gold=[GOLD], columns={**readings().model_dump()["columns"], "note": {"type": "string", "from": "my note"}})
SENSORS = readings(name="sensors", key=["id"], last_modified=None, columns={"id": "string", "site": "int"}, checks=[])
SPECS = {"readings": SPEC, "sensors": SENSORS}
SQL = "select hour, count(*) as n from silver_readings join silver_sensors on sensor = id group by hour"
QUERIES = {"readings": {"days": read_gold(SQL, "days.sql", silver_schemas(list(SPECS.values())))}}


def read(tmp_path: Path, text: str, tables=("readings",)):
    path = tmp_path / "tests.yaml"
    path.write_text(text)
    return read_tests(path, {name: SPECS[name] for name in tables}, SPECS, QUERIES)


def test_cells_are_texts_as_they_are_written(tmp_path):
    text = """
tests:
  - name: a
    batches:
      - rows:
          - {sensor: 007, hour: 1.50, value: NO, updated: 2024-01-01, my note: null}
          - "half a line"
          - {sensor: ~, my note: {"a": [1, null]}}
        verdict: published
      - {rows: [{sensor: "~"}]}
      - {window: 2024-01-09, rows: []}
"""
    [(table, test, location)] = read(tmp_path, text)
    first, second, third = test.batches
    assert first.rows == (
        {"sensor": "007", "hour": "1.50", "value": "NO", "updated": "2024-01-01", "my note": None},
        "half a line",
        {"sensor": None, "my note": '{"a": [1, null]}'},
    )
    assert (second.rows, third.rows) == (({"sensor": "~"},), ())
    assert (table, location) == ("readings", f"{tmp_path}/tests.yaml:3")
    assert window_keys(test, SPEC) == ["2024-01-01", "2024-01-02", "2024-01-09"]


ONE = "tests:\n  - name: a\n    batches:\n      - rows: [{sensor: x}]\n        verdict: published\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tests: []", ":1: tests: Tuple should have at least 1 item"),
        ("", ":1: expected one document with the key `tests`"),
        ("tests:\n  - name: a\n    batches:\n      - {rows: [{sensor: x}]}", ":2: tests.0: nothing is expected; add verdict"),
        (ONE.replace("published", "publish"), ":5: tests.0.batches.0.verdict: Input should be 'published'"),
        (ONE.replace("sensor: x", "sensr: x"), ":4: tests.0.batches.0.rows.0.sensr: the batch has no column 'sensr'"),
        (ONE.replace("[{sensor: x}]", "[]"), ":4: tests.0.batches.0.rows: no rows; for a batch without"),
        (ONE.replace("[{sensor: x}]", "x"), ":4: tests.0.batches.0.rows: a list is wanted: [a, b]"),
        (ONE.replace("[{sensor: x}]", "[{sensor: x}]\n        window: May"), ":5: tests.0.batches.0.window: time data 'May'"),
        (ONE + "      - rows: [{sensor: x}]\n        window: 2024-01-01\n", ":7: tests.0.batches.1.window: 2024-01-01 does"),
        (ONE + ONE.partition("\n")[2], ":6: tests.1.name: another test is called 'a' too"),
        (ONE + "        reasons: [in_rang]\n", ":6: tests.0.batches.0.reasons.0: there is no check 'in_rang'; there"),
        (ONE + "        failing_rows: {2: [not_empty]}\n", ":6: tests.0.batches.0.failing_rows.2: there is no row 2; rows are"),
        (ONE + "        missing_columns: [note]\n", ":6: tests.0.batches.0.missing_columns.0: no column 'note' is declared"),
        (ONE + "        new_columns: [sensor]\n", ":6: tests.0.batches.0.new_columns.0: the column 'sensor' is declared"),
        (ONE + "    silver: [{hours: 1}]\n", ":6: tests.0.silver.0.hours: silver has no column 'hours'; it has sensor, hour"),
        (ONE + "    silver: [{hour: one}]\n", ":6: tests.0.silver.0.hour: 'one' is no int"),
        (ONE + "    tables: {sensor: []}\n", ":6: tests.0.tables.sensor: there is no other table 'sensor'; there are sensors"),
        (ONE + "    tables: {sensors: [{site: x}]}\n", ":6: tests.0.tables.sensors.0.site: 'x' is no int"),
        (ONE + "    gold: {day: {verdict: published}}\n", ":6: tests.0.gold.day: readings has no gold table 'day'"),
        (ONE + "    gold: {days: {rows: []}}\n", ":6: tests.0.gold.days: it reads silver_sensors: give its rows"),
        (ONE + "    tables: {sensors: []}\n    gold:\n      days: {rows: [{m: 1}]}\n", ":8: tests.0.gold.days.rows.0.m: gold"),
        (ONE + "    table: sensors\n", ":6: tests.0.table: there is no table 'sensors' in this folder; there are readings"),
        (ONE + "    whatever: 1\n", ":6: tests.0.whatever: not known here"),
    ],
    ids=str,
)  # fmt: skip
def test_a_mistake_has_file_line_and_key(tmp_path, text, message):
    with pytest.raises(ConfigError) as error:
        read(tmp_path, text)
    assert f"tests.yaml{message}" in str(error.value)


def test_of_a_folder_with_several_tables_each_test_names_its_own(tmp_path):
    with pytest.raises(ConfigError, match=r"tests.yaml:2: tests.0.table: name one of readings, sensors"):
        read(tmp_path, ONE, ("readings", "sensors"))
    [(table, _, _)] = read(tmp_path, ONE + "    table: readings\n", ("readings", "sensors"))
    assert table == "readings"


TYPES = {
    "n": "decimal(6,2)",
    "x": "double",
    "at": "timestamp",
    "ok": "boolean",
    "tags": "struct<a: int, b: string>",
    "t": "string",
}
ROW = {"n": "1.50", "x": "0.3", "at": "2024-01-01T00:00:00.000000Z", "ok": "true", "tags": '{"a": 1, "b": null}', "t": "1.50"}


@pytest.mark.parametrize(
    ("expected", "same"),
    [
        ({"n": "1.5"}, True),
        ({"x": "0.30000000000000004", "ok": "True"}, True),
        ({"x": "0.3001"}, False),
        ({"at": "2024-01-01"}, True),
        ({"at": "2024-01-01T01:00:00+01:00"}, True),
        ({"at": "2024-01-01T00:00:00.000001"}, False),
        ({"tags": '{"a": 1}'}, True),
        ({"t": "1.5"}, False),
        ({"t": None}, False),
        ({}, True),
    ],
    ids=str,
)
def test_values_are_compared_by_their_type(expected, same):
    assert (row_differences([expected], [ROW], TYPES) == []) == same


def test_differences_name_the_rows_of_either_side():
    other = {**ROW, "t": None}
    assert row_differences([{"n": "1.5"}, {"n": "1.5", "t": "1.50"}], [ROW, other], TYPES) == []
    assert row_differences([{"t": "2"}], [ROW, other], TYPES) == [
        "missing: {t: 2}",
        "not expected: {t: 1.50}",
        "not expected: {t: null}",
    ]
    assert row_differences([], [{"t": "1.50"}], {"t": "string"}) == ["not expected: {t: 1.50}"]
