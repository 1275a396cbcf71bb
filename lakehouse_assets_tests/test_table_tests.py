"""Tests beside tables (`tests.yaml`): the repository's own, what differences they show, and that they judge as a run does.

Belongs here: given rows on Spark, the command, and the same rows through a lake. Does not: mistakes in the file (contracts).
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from py4j.clientserver import ClientServerConnection
from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.table_tests import TableTest
from lakehouse_assets.testing import find_table_tests, verify_table_test
from lakehouse_assets.testing.table_tests import DeclaredTest, run_table_test
from lakehouse_assets_tests.support import heal, land, readings, silver

SNAPSHOT = {"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "mode": "snapshot"}


@pytest.mark.parametrize("declared", find_table_tests(), ids=str)
def test_the_tables_of_this_repository(spark, declared):
    verify_table_test(spark, declared)


def test_a_test_asks_java_for_little(spark, monkeypatch):
    """Most of a test's time is messages to Java and jobs of a few rows. Columns built call by call took 4,300 messages."""
    [declared] = [each for each in find_table_tests() if each.test.name == "a_reading_that_cannot_be_true_is_quarantined_alone"]
    messages: list[str] = []
    send = ClientServerConnection.send_command

    def count(self, command: str) -> str:
        messages.append(command)
        return send(self, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", count)
    spark.sparkContext.setJobGroup("a table's test", "counted")
    try:
        assert run_table_test(spark, declared) == []
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert len([message for message in messages if not message.startswith("m\nd\n")]) < 1_200
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("a table's test")) <= 4


def declare(spec: TableSpec, others=(), queries=None, **test) -> DeclaredTest:
    specs = {each.name: each for each in (spec, *others)}
    return DeclaredTest(TableTest.model_validate({"name": "t", **test}), "tests.yaml:1", spec, specs, queries or {})


BATCHES = [
    ["a,1,10,2024-01-01T01:00:00Z", "b,1,500,2024-01-01T01:00:00Z", "c,1,x,2024-01-01T01:00:00Z", ",1,1,2024-01-01T01:00:00Z"],
    ["a,1,NA,2024-01-02T01:00:00Z", "b,1,7,2024-01-02T01:00:00Z", "b,1,8,2024-01-02T02:00:00Z", "d,2,1,2024-01-02T01:00:00Z"],
    ["a,1,11,2023-12-31T01:00:00Z", "d,2,900,2024-01-03T01:00:00Z", "too,few"],
]


@pytest.mark.parametrize(
    "changes",
    [
        {"surrogate_key": {"name": "sk", "from": ["sensor", "hour"]}},
        pytest.param({"extraction": SNAPSHOT}, marks=pytest.mark.exhaustive(seconds=30)),
        pytest.param({"extraction": {**SNAPSHOT, "mode": "append"}, "key": []}, marks=pytest.mark.exhaustive(seconds=15)),
        pytest.param(
            {"extraction": {**SNAPSHOT, "mode": "upsert", "delete_when": "value = 7"}}, marks=pytest.mark.exhaustive(seconds=15)
        ),
    ],
    ids=["upsert", "snapshot", "append", "deletes"],
)
def test_given_rows_are_judged_and_folded_as_by_a_run(spark, settings, changes):
    """Verdicts, reasons and every cell of silver are those of a lake with the same rows."""
    row_count = {"check": "distinct_count", "columns": ["sensor"], "max": 2, "severity": "warning"}
    spec = readings(checks=[*readings().model_dump(exclude_unset=True)["checks"], row_count], supersede="any", **changes)
    for day, rows in enumerate(BATCHES, 1):
        land(settings, day, rows)
    published = heal(spark, settings, range(1, len(BATCHES) + 1), spec)
    decisions = [decision for _, decision in sorted(published.current.items())]
    names = ("sensor", "hour", "value", "updated")
    listed = [
        [dict(zip(names, (c or None for c in r.split(",")), strict=True)) if r.count(",") == 3 else r for r in rows]
        for rows in BATCHES
    ]
    batches = [
        {"rows": rows, "verdict": d.verdict, "reasons": [reason.check for reason in d.reasons]}
        for rows, d in zip(listed, decisions, strict=True)
    ]
    expected = [{name: None if v is None else _text(v) for name, v in row.items()} for row in silver(settings)]
    assert {d.verdict for d in decisions} == {"published_with_warnings"}
    assert run_table_test(spark, declare(spec, batches=batches, silver=expected)) == []
    assert not Path(settings.root, "staging").exists() or not any(Path(settings.root, "staging", "readings").glob("*"))


def _text(value) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def test_each_difference_is_named(spark):
    spec = readings(checks=[{"check": "in_range", "column": "value", "max": 100}])
    rows = [{"sensor": "a", "hour": "1", "value": "1"}, {"sensor": "b", "hour": "1", "value": "101"}]
    batch = {"rows": rows, "verdict": "published", "reasons": ["not_there"], "failing_rows": {1: ["in_range_value"]}}
    lines = run_table_test(spark, declare(spec, batches=[batch], silver=[{"sensor": "b"}]))
    assert lines[0].startswith(
        "batch 1 (2024-01-01): the verdict is published_with_warnings, expected published (in_range_value: "
    )
    assert lines[1:] == [
        "batch 1 (2024-01-01): the reasons are in_range_value; expected not_there",
        "batch 1 (2024-01-01), row 1: fails none; expected in_range_value",
        "batch 1 (2024-01-01), row 2: fails in_range_value; expected none",
        "silver: missing: {sensor: b}",
        "silver: not expected: {sensor: a}",
    ]
    with pytest.raises(AssertionError, match=r"tests\.yaml:1: readings: t\nbatch 1"):
        verify_table_test(spark, declare(spec, batches=[batch]))


def test_tables_that_checks_read_and_columns_that_come_and_go(spark):
    sensors = readings(
        name="sensors", key=["id"], last_modified=None, columns={"id": "string", "sites": "array<int>"}, checks=[]
    )
    check = {"check": "foreign_key", "columns": ["sensor"], "table": "sensors", "to": ["id"]}
    spec = readings(checks=[check], schema={"new_columns": "evolve"})
    first = {"rows": [{"sensor": "a", "hour": "1", "value": "1"}], "verdict": "published"}
    second = {
        "rows": [{"sensor": "a", "hour": "1", "note": "x"}, {"sensor": "z", "hour": "1"}],
        "missing_columns": ["value"], "new_columns": ["note"], "failing_rows": {2: ["foreign_key_sensor"]},
    }  # fmt: skip
    tables = {"sensors": [{"id": "a", "sites": "[1, 2]"}]}
    rows = [{"sensor": "a", "value": "1", "note": "x"}]
    assert run_table_test(spark, declare(spec, [sensors], batches=[first, second], tables=tables, silver=rows)) == []
    # A table that is not given was never published: the check is in error, and quarantines the batch.
    lost = {**first, "verdict": "quarantined", "reasons": ["foreign_key_sensor"]}
    assert run_table_test(spark, declare(spec, [sensors], batches=[lost], silver=[])) == []


PROJECT = """type: lakehouse_assets.LakehouseTable
attributes:
  name: orders
  source: {kind: files, path: "orders/{window:%Y-%m-%d}.csv", format: csv}
  extraction: {cadence: daily, start: 2024-05-01}
  key: [order_id]
  columns: {order_id: bigint, amount: "decimal(10,2)"}
  checks: [{check: in_range, column: amount, min: 0}]
"""
TEST = """tests:
  - name: negative_amounts_stay_out
    batches:
      - rows: [{order_id: 1, amount: 5}, {order_id: 2, amount: -5}]
        verdict: published_with_warnings
    silver: [{order_id: 1, amount: 5.00}]
"""


@pytest.fixture
def project(tmp_path, monkeypatch, spark):
    """A project of one table. The tests' own session stays the process's."""
    folder = tmp_path / "tables" / "orders"
    folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    (folder / "defs.yaml").write_text(PROJECT)
    monkeypatch.setenv("LAKEHOUSE_PROJECT", str(tmp_path))
    monkeypatch.setattr("lakehouse_assets.storage.session.build_session", lambda *_: spark)
    return folder


def command(*arguments: str):
    return CliRunner().invoke(cli.app, ["test", *arguments])


def test_the_command_lists_tests_and_ends_with_code_8(project):
    assert command().stdout.strip().endswith("write them into tests.yaml beside a table's defs.yaml")
    assert type(command("orders").exception).__name__ == "RefusedError"
    (project / "tests.yaml").write_text(TEST)
    result = command("orders")
    assert (result.exit_code, result.stdout.count("passed")) == (0, 1)
    (project / "tests.yaml").write_text(TEST.replace("5.00", "6"))
    result = command("--json")
    [row] = json.loads(result.stdout)
    assert (row["table"], row["result"]) == ("orders", "failed")
    assert row["differences"] == [
        "silver: missing: {order_id: 1, amount: 6}",
        "silver: not expected: {order_id: 1, amount: 5.00}",
    ]
    assert getattr(result.exception, "exit_code", None) == 8
    assert "silver: missing: {order_id: 1, amount: 6}" in command().stdout
    assert not (project.parent.parent / "data").exists()
    (project / "tests.yaml").write_text(TEST.replace("amount: 5}", "amounts: 5}"))
    result = CliRunner().invoke(cli.app, ["check", "validate"])
    assert getattr(result.exception, "exit_code", None) == 2
    assert f"{project}/tests.yaml:4: tests.0.batches.0.rows.0.amounts: the batch has no column 'amounts'" in str(
        result.exception
    )
