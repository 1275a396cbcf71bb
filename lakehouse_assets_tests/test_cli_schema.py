"""`lakehouse schema` as a person types it: listings, plans and refusals, of tables made without a JVM.

Belongs here: what the command prints, and that it writes nothing. Does not: carrying a plan out (orchestration).
"""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.queries import schema_status
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.version_marks import mark_version
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import readings, window

GOLD = {"name": "means", "sql": "means.sql", "key": ["sensor"]}


MOMENT = pa.timestamp("us", "UTC")
KINDS = {
    "sensor": pa.string(), "hour": pa.int16(), "level": pa.float64(), "updated": MOMENT, "p_extracted_at": MOMENT,
    "extraction_seq": pa.int32(), "_content_hash": pa.string(),
}  # fmt: skip


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """A table whose silver lacks a column and has one that nobody promises, and a last batch of another type."""
    for name, value in (("LAKEHOUSE_ROOT", tmp_path / "lake"), ("DAGSTER_HOME", tmp_path)):
        monkeypatch.setenv(name, str(value))
    (tmp_path / "means.sql").write_text("select sensor, avg(value) as mean from silver_readings group by sensor")
    spec = readings(gold=[GOLD], schema={"type_changes": "quarantine"}, checks=[{"check": "not_null", "column": "value"}])
    table = LakehouseTable(spec, Path(tmp_path))
    monkeypatch.setattr("lakehouse_assets.cli.schema.select_tables", lambda names=(): [table])
    return Settings.from_environment()


def publish(settings, names=("sensor", "hour", "value", "updated"), **types: str) -> None:
    now = datetime(2024, 6, 1, tzinfo=UTC)
    record = ExtractionRecord("readings", window(1).start, 1, "print", 3, tuple(names), 0, "run", now, (), types)
    logs.record_extractions(settings, [record])
    logbook.write(settings, [logbook.decided(1)])
    rows = pa.table({name: pa.array([], kind) for name, kind in KINDS.items()})
    write_deltalake(settings.path("silver", "readings"), rows)


def run(*arguments: str):
    return CliRunner().invoke(cli.app, ["schema", *arguments])


def run_json(*arguments: str):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_show_has_promised_and_present_and_arrived_side_by_side(settings):
    publish(settings, (*("sensor", "hour", "value", "updated"), "my_x20_note"), value="string")
    rows = {row["column"]: row for row in run_json("show", "readings")}
    assert rows["hour"] == {"column": "hour", "promised": "int", "by": "defs.yaml", "table": "smallint", "arrived": "text"}
    assert (rows["value"]["table"], rows["value"]["arrived"]) == ("", "string")
    assert (rows["level"]["promised"], rows["level"]["table"]) == ("", "double")
    assert rows["my note"]["arrived"] == "text"
    assert "promised" in run("show", "readings").stdout


def test_diff_lists_differences_with_advice_and_readers(settings):
    publish(settings, value="string")
    rows = run_json("diff", "readings")
    silver = {row["column"]: (row["promised"], row["found"]) for row in rows if row["where"] == "silver"}
    assert silver == {"hour": ("int", "smallint"), "value": ("double", ""), "level": ("", "double")}
    [arrived] = [row for row in rows if row["where"] != "silver"]
    assert (arrived["column"], arrived["promised"], arrived["found"], arrived["is"]) == (
        "value", "double", "string", "quarantined",
    )  # fmt: skip
    assert arrived["read by"] == "check not_null_value, gold_means.mean"
    assert "declare the new type" in arrived["what to do"]


def test_diff_looks_at_the_newest_extraction_with_rows_and_at_undeclared_columns_of_earlier_ones(settings):
    publish(settings, (*("sensor", "hour", "value", "updated"), "Tariff"))
    newer = (
        (2, 3, ("sensor", "hour", "value", "updated", "my_x20_note")),
        (3, 0, ()),
        (4, 0, ("sensor", "hour", "value", "updated")),
    )
    for number, rows, names in newer:
        now = datetime(2024, 6, number, tzinfo=UTC)
        record = ExtractionRecord("readings", window(number).start, 1, "print", rows, names, 0, "run", now)
        logs.record_extractions(settings, [record])
    differences = [(row["where"], row["column"], row["is"]) for row in run_json("diff", "readings") if row["where"] != "silver"]
    day = {n: f"arrived {window(n).start:%Y-%m-%d %H:%M} #1" for n in (1, 2)}
    assert differences == [(day[2], "my_x20_note", "accepted"), (day[1], "Tariff", "accepted")]


def test_diff_looks_at_extractions_with_rows_before_the_newest_with_rows(settings, monkeypatch):
    monkeypatch.setattr(schema_status, "RECENT", 1)
    publish(settings, ("sensor", "hour", "value", "updated", "Tariff"))
    for number, rows, more in ((2, 0, ()), (3, 3, ()), (4, 0, ("late",)), (5, 0, ())):
        now, names = datetime(2024, 6, number, tzinfo=UTC), ("sensor", "hour", "value", "updated", *more)
        record = ExtractionRecord("readings", window(number).start, 1, "print", rows, names, 0, "run", now)
        logs.record_extractions(settings, [record])
    differences = [row["column"] for row in run_json("diff", "readings") if row["where"] != "silver"]
    assert differences == ["Tariff"]


def test_a_plan_that_rewrites_names_another_programs_rows_which_it_replaces(settings):
    publish(settings)
    path = settings.path("silver", "readings")
    mark_version(settings, "readings", "run-2", datetime(2024, 6, 2, tzinfo=UTC), 0, 0)
    assert "another program" not in run("migrate", "readings").output
    write_deltalake(path, pa.table({name: pa.array([None], kind) for name, kind in KINDS.items()}), mode="append")
    DeltaTable(path).delete()
    result = run("migrate", "readings", "--json")
    assert "another program changed its rows: version 1 (WRITE), 2 (DELETE)" in result.stderr
    assert {step["rewrites data"] for step in json.loads(result.stdout)} == {"yes"}


def test_a_plan_is_printed_without_changes(settings):
    publish(settings)
    before = delta.version(settings.path("silver", "readings"))
    steps = [(row["step"], row["column"], row["rewrites data"], row["reversible"]) for row in run_json("migrate", "readings")]
    assert steps == [("drop", "level", "yes", "no"), ("widen", "hour", "yes", "yes"), ("add", "value", "yes", "yes")]
    renamed = run_json("migrate", "readings", "--rename", "level=value")
    assert [(row["step"], row["was"], row["becomes"]) for row in renamed] == [
        ("rename", "level", "value"), ("widen", "smallint", "int"),
    ]  # fmt: skip
    assert "nothing is changed yet" in run("migrate", "readings").stderr
    refused = run("migrate", "readings", "--apply")
    assert isinstance(refused.exception, RefusedError)
    assert "--apply --lose level" in str(refused.exception)
    assert delta.version(settings.path("silver", "readings")) == before


@pytest.mark.parametrize(
    ("rules", "reversible"),
    [
        ('{"columns": {"level": {"type": "double", "from": "hour"}}}', "yes"),
        ('{"columns": {"level": "double"}}', "no"),
        ('{"columns": {"level": {"type": "double"}}}', "no"),
    ],
)
def test_a_column_of_an_earlier_contract_can_be_read_again(settings, rules, reversible):
    publish(settings)
    logbook.write(settings, [logbook.decided(2, ruleset=rules)])
    dropped = next(row for row in run_json("migrate", "readings") if row["step"] == "drop")
    assert (dropped["column"], dropped["reversible"]) == ("level", reversible)


@pytest.mark.parametrize(
    ("rename", "message"), [("level", "OLD=NEW"), ("no=value", "no column 'no'"), ("level=nope", "'nope' has to be declared")]
)
def test_a_rename_that_makes_no_sense_is_refused(settings, rename, message):
    publish(settings)
    result = run("migrate", "readings", "--rename", rename)
    assert isinstance(result.exception, RefusedError)
    assert message in str(result.exception)


def test_a_rename_to_a_column_missing_in_bronze_names_the_fix(settings):
    publish(settings, ("sensor", "hour", "level", "updated"))
    result = run("migrate", "readings", "--rename", "level=value")
    assert "write `from: level`" in str(result.exception)


def test_a_table_that_is_gone_names_the_command_that_makes_it_again(settings):
    publish(settings)
    shutil.rmtree(settings.path("silver", "readings"))
    assert "`lakehouse rebuild`" in str(run("migrate", "readings").exception)


def test_a_table_that_is_not_there_yet(settings):
    result = run("migrate", "readings")
    assert isinstance(result.exception, RefusedError)
    assert "has no silver table; the first run makes it" in str(result.exception)
    assert {row["table"] for row in run_json("show", "readings")} == {""}
    assert run_json("diff", "readings") == []
