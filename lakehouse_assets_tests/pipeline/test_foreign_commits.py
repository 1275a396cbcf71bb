"""Another program writes the lake: its commits are noticed, harmless ones pass, and the step that a finding names ends it.

Belongs here: foreign commits on real Delta folders. Does not: lost files (test_evidence), or the comparison case by case.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import EvidenceError
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.restore_logs import AcceptedLoss, restore_logs
from lakehouse_assets.pipeline.evidence import findings_of, refuse_damaged
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.mend import mend
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.queries.row_hashes import compare_row_hashes
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests.support import heal, land, readings, rows_of, runner, silver, window

SPEC = readings(drift={"features": ["value"]})


@pytest.fixture(scope="module")
def scene(spark, tmp_path_factory) -> Path:
    """A lake of two days in two runs, with nothing in quarantine."""
    home = tmp_path_factory.mktemp("foreign")
    (home / "landing").mkdir()
    settings = lake_in(home)
    for day in (1, 2):
        land(settings, day, [f"{name},{day},1{day},2024-01-0{day}T01:00:00Z" for name in "abc"])
        heal(spark, settings, [day], SPEC)
    return home


def lake_in(home: Path) -> Settings:
    return Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home, spark_master="local[2]")


@pytest.fixture
def lake(scene, tmp_path) -> Settings:
    shutil.copytree(scene, tmp_path / "home")
    return lake_in(tmp_path / "home")


def table(settings: Settings, layer: str = "silver") -> DeltaTable:
    return DeltaTable(settings.path(layer, "readings"))


def list_findings(settings: Settings) -> list[tuple[str, str]]:
    return [(finding.layer, finding.kind) for finding in findings_of(settings, SPEC)]


def test_commits_that_change_no_row_pass(lake):
    table(lake).optimize.compact()
    table(lake).optimize.z_order(["sensor"])
    table(lake).alter.set_table_properties({"owner": "ann"}, raise_if_not_exists=False)
    table(lake).alter.set_column_metadata("value", {"comment": "degrees"})
    table(lake).delete("sensor = 'nobody'")
    operations = {entry["operation"] for entry in table(lake).history()}
    assert {"OPTIMIZE", "SET TBLPROPERTIES"} <= operations
    assert list_findings(lake) == []


def test_a_changed_cell_is_noticed_and_a_rebuild_ends_the_finding(lake, spark):
    expected = silver(lake)
    table(lake).update({"value": "77.0"}, predicate="sensor = 'a' and hour = 1")
    (finding,) = findings_of(lake, SPEC)
    assert (finding.layer, finding.kind, finding.mend) == ("silver", "foreign", "`lakehouse rebuild readings`")
    assert "(UPDATE)" in finding.message
    messages = [(f.kind, f.message) for f in compare_row_hashes(lake, SPEC, spark)]
    assert messages == [
        ("more", "2024-01-01 00:00 #1: 1 row(s) are not those of bronze and the decisions"),
        ("fewer", "2024-01-01 00:00 #1: 1 row(s) of bronze and the decisions are missing"),
    ]
    with pytest.raises(EvidenceError, match="another program changed its rows"):
        publish(runner(None, lake, SPEC), [window(1)])
    rebuild(runner(spark, lake, SPEC))
    assert (silver(lake), list_findings(lake), compare_row_hashes(lake, SPEC, spark)) == (expected, [], [])
    table(lake).restore(table(lake).version() - 2)
    assert list_findings(lake) == [("silver", "foreign")]


def test_the_log_of_an_idle_table_is_lost(lake):
    """Weekly maintenance makes two commits of silver: after ten weeks none of the newest 20 names a decision."""
    for week in range(24):
        table(lake).alter.set_table_properties({"week": str(week)}, raise_if_not_exists=False)
    shutil.rmtree(lake.path("baseline", "readings"))
    decisions = logs.decisions(lake, "readings")
    shutil.rmtree(lake.path("ops", "decisions"))
    spec = readings()
    (finding,) = findings_of(lake, spec)
    assert (finding.layer, finding.kind) == ("ops/decisions", "lost")
    assert restore_logs(runner(None, lake, spec)).decisions == len(decisions)
    assert findings_of(lake, spec) == []


def test_silver_whose_commits_name_no_decision_any_more_is_given_up_once(settings):
    """As after the retention of its Delta log."""
    delta.append_arrow(pa.table({"value": [1]}), settings.path("silver", "readings"))
    run = runner(None, settings)
    assert restore_logs(run).decisions == 0
    (finding,) = findings_of(settings, readings())
    assert finding.layer == "ops/decisions" and "--accept-loss" in finding.mend
    loss = AcceptedLoss("ann", "no backup")
    assert [restore_logs(run, loss).given_up for _ in range(2)] == [1, 0]
    assert delta.properties(settings.path("silver", "readings"))[delta.MEANING] == "none"
    assert not any(finding.layer == "ops/decisions" for finding in findings_of(settings, readings()))


def delete_at(settings: Settings, name: str, layer: str, predicate: str):
    def step(passed: str) -> None:
        if passed == name:
            table(settings, layer).delete(predicate)

    return step


@pytest.mark.exhaustive(seconds=15)
def test_a_mark_does_not_hide_rows_that_another_program_deletes_meanwhile(lake, spark):
    land(lake, 3, ["d,3,13,2024-01-03T01:00:00Z"])
    run = runner(spark, lake, SPEC, delete_at(lake, "log_done", "silver", "sensor = 'a'"))
    extract(run, [window(3)])
    with pytest.raises(EvidenceError, match="another program made version"):
        publish(run, [window(3)])
    assert list_findings(lake) == [("silver", "fewer")]
    assert len(ledger.unapplied_decisions(logs.decisions(lake, "readings"))) == 1
    # Once more within the rebuild, between its commit and its mark.
    with pytest.raises(EvidenceError):
        rebuild(runner(spark, lake, SPEC, delete_at(lake, "silver_rebuilt", "silver", "sensor = 'b'")))
    assert ("silver", "fewer") in list_findings(lake)
    rebuild(runner(spark, lake, SPEC))
    assert list_findings(lake) == [] and ledger.unapplied_decisions(logs.decisions(lake, "readings")) == []
    keys = [(row["sensor"], row["hour"]) for row in silver(lake)]
    assert sorted(keys) == [*((name, hour) for name in "abc" for hour in (1, 2)), ("d", 3)]


def test_the_record_of_an_extraction_has_the_rows_that_were_committed(lake, spark):
    land(lake, 3, [f"{name},3,13,2024-01-03T01:00:00Z" for name in "abc"])
    extract(
        runner(spark, lake, SPEC, delete_at(lake, "bronze_committed", "bronze", "sensor = 'a' and hour = '3'")), [window(3)]
    )
    record = next(r for r in logs.extractions(lake, "readings") if r.p_extracted_at == window(3).start)
    assert record.rows == 3
    assert list_findings(lake) == [("bronze", "fewer")]
    assert mend(runner(spark, lake, SPEC)).extractions == 1
    assert list_findings(lake) == []


def test_rows_that_bronze_loses_before_they_are_staged_are_not_judged(lake, spark):
    land(lake, 3, [f"{name},3,13,2024-01-03T01:00:00Z" for name in "abc"])
    before = silver(lake)
    run = runner(spark, lake, SPEC, delete_at(lake, "recover_done", "bronze", "sensor = 'a' and hour = '3'"))
    extract(run, [window(3)])
    with pytest.raises(EvidenceError, match="2 rows were staged, 3 are on record"):
        publish(run, [window(3)])
    assert silver(lake) == before and len(logs.decisions(lake, "readings")) == 2


def test_doubled_profiles_are_noticed_and_written_once(lake):
    columns = ["decision_id", "feature", "stratum", "rows", "mean", "sketch"]
    expected = rows_of(lake.path("baseline", "readings"), columns)
    for compacted in (False, True):
        delta.append_arrow(table(lake, "baseline").to_pyarrow_table(), lake.path("baseline", "readings"))
        if compacted:
            table(lake, "baseline").optimize.compact()
        assert list_findings(lake) == [("baseline", "doubled")] * 2
        refuse_damaged(runner(None, lake, SPEC))
        assert (list_findings(lake), rows_of(lake.path("baseline", "readings"), columns)) == ([], expected)
