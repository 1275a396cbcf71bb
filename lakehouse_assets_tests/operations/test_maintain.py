"""Maintenance on real Delta: what it removes, and that nothing that is held, published or still to be folded goes.

Belongs here: compaction, VACUUM, retention of quarantine, and the runs that Dagster forgets. Does not: schedules' wiring.
"""

import os
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from delta.tables import DeltaTable
from pydantic import ValidationError

from lakehouse_assets.decisions import ledger
from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.operations.maintain import maintain
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.release import discard, release
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.jobs.maintenance import delete_old_runs
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets_tests.support import heal, land, readings, rows_of, runner, silver, window

SPEC = readings(maintenance={"quarantine_days": 30})
LATER = datetime(2024, 9, 1, tzinfo=UTC)
CHECK_OFF = "spark.databricks.delta.retentionDurationCheck.enabled"


def rows(day: int, *more: str) -> list[str]:
    return [f"{row},2024-01-{day:02d}T00:00:00Z" for row in (f"a,{day},{day}", *more)]


def quarantined_batches(settings) -> dict[int, int]:
    rows = rows_of(settings.path("quarantine", "readings"), ["p_extracted_at", "extraction_seq"])
    days = [row["p_extracted_at"].day for row in rows]
    return {day: days.count(day) for day in sorted(set(days))}


@pytest.mark.exhaustive(seconds=60)
def test_maintenance_removes_closed_rows_and_keeps_quarantined_and_published_ones(spark, settings):
    land(settings, 1, rows(1, "b,1,999"))  # superseded below
    land(settings, 2, rows(2, "b,2,999"))  # held for good
    land(settings, 3, rows(3, "b,3,999"))  # released
    land(settings, 4, rows(4, "b,4,999"))  # its bad row is given up
    land(settings, 5, [])  # held whole
    for days in ([1, 2], [3], [4, 5]):
        heal(spark, settings, days, SPEC)
    land(settings, 1, rows(1))
    heal(spark, settings, [1], SPEC)
    release(runner(spark, settings, SPEC), window(3).start, None, waived=["*"], by="me", because="x")
    discard(runner(spark, settings, SPEC), window(4).start, None, by="me", because="x")
    assert quarantined_batches(settings).keys() == {1, 2, 3, 4}
    before = silver(settings)
    bronze = rows_of(settings.path("bronze", "readings"), ["p_extracted_at", "extraction_seq", "_content_hash"])
    orphan = Path(settings.path("silver", "readings"), "part-of-a-run-that-died.parquet")
    orphan.write_bytes(b"half a file")
    os.utime(orphan, (0, 0))

    with pytest.raises(ValidationError, match="vacuum_days"):
        readings(maintenance={"vacuum_days": 6})
    first = {m.layer: m for m in maintain(runner(spark, settings, SPEC))}
    assert first["quarantine"].rows_removed == 0, "closed today"
    results = {m.layer: m for m in maintain(replace(runner(spark, settings, SPEC), clock=lambda: LATER))}
    assert not orphan.exists()
    assert first["silver"].files_before > first["silver"].files_after == results["silver"].files_after == 1
    assert results["quarantine"].rows_removed == 3, "of the fourth, what was held before it was given up"
    assert quarantined_batches(settings) == {2: 1, 4: 1}
    assert silver(settings) == before
    assert rows_of(settings.path("bronze", "readings"), ["p_extracted_at", "extraction_seq", "_content_hash"]) == bronze
    # Even a VACUUM that keeps no past at all leaves what is held to be released.
    spark.conf.set(CHECK_OFF, "false")
    try:
        for layer in ("bronze", "silver", "quarantine"):
            DeltaTable.forPath(spark, settings.path(layer, "readings")).vacuum(0)
    finally:
        spark.conf.unset(CHECK_OFF)
    release(runner(spark, settings, SPEC), window(2).start, None, waived=["*"], by="me", because="x")
    assert ("b", 2, 999.0) in {(row["sensor"], row["hour"], row["value"]) for row in silver(settings)}
    proof = rebuild(runner(spark, settings, SPEC))
    assert (proof.gained, proof.lost) == (0, 0)
    # The window without rows waits for a person still.
    assert {d.p_extracted_at.day for d in ledger.quarantined_decisions(logs.decisions(settings, "readings"))} == {5}


@pytest.mark.exhaustive(seconds=8)
def test_a_table_that_lies_elsewhere_by_a_link(spark, settings, tmp_path):
    land(settings, 1, rows(1))
    heal(spark, settings, [1], SPEC)
    before, path = silver(settings), Path(settings.path("silver", "readings"))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    orphan = tmp_path / "elsewhere" / "part-of-a-run-that-died.parquet"
    orphan.write_bytes(b"half a file")
    os.utime(orphan, (0, 0))
    maintain(runner(spark, settings, SPEC))
    assert not orphan.exists()
    assert silver(settings) == before


def test_it_waits_for_whoever_writes_the_table(spark, settings):
    land(settings, 1, rows(1))
    heal(spark, settings, [1], SPEC)
    began, finished = threading.Event(), threading.Event()

    def keep() -> None:
        maintain(runner(spark, settings, SPEC, lambda _: began.set()))
        finished.set()

    worker = threading.Thread(target=keep)
    with table_lock(settings, "readings"):
        worker.start()
        assert not began.wait(1.5), "it has begun beside a writer"
    worker.join(60)
    assert finished.is_set()


def test_only_old_runs_without_materializations_are_deleted(settings):
    tables = [LakehouseTable(SPEC, Path("nowhere"))]
    definitions = build_definitions(settings, tables)
    with dg.DagsterInstance.local_temp(str(settings.dagster_home)) as instance:
        job = definitions.resolve_job_def("sweep_staging")
        assert job.execute_in_process(instance=instance).success

        @dg.asset(name="made")
        def results():
            return 1

        dg.materialize([results], instance=instance, resources={"io_manager": dg.mem_io_manager})
        now = datetime.now(UTC)
        assert delete_old_runs(instance, settings, [SPEC], now) == 0
        assert delete_old_runs(instance, settings, [SPEC], now + timedelta(days=91)) == 1
        assert len(instance.get_runs()) == 1
        assert instance.get_latest_materialization_event(dg.AssetKey("made"))


def test_runs_that_stay_do_not_keep_the_clean_up_from_those_behind_them(settings):
    definitions = build_definitions(settings, [LakehouseTable(SPEC, Path("nowhere"))])
    with dg.DagsterInstance.local_temp(str(settings.dagster_home)) as instance:

        @dg.asset(name="made")
        def results():
            return 1

        later = datetime.now(UTC) + timedelta(days=91)
        for _ in range(3):
            dg.materialize([results], instance=instance, resources={"io_manager": dg.mem_io_manager})
        assert definitions.resolve_job_def("sweep_staging").execute_in_process(instance=instance).success
        assert [delete_old_runs(instance, settings, [SPEC], later, batch_size=2) for _ in range(4)] == [0, 1, 0, 0]
        assert len(instance.get_runs()) == 3
        # The run at which it has stopped may be gone by the next time.
        delete_old_runs(instance, settings, [SPEC], later, batch_size=2)
        for run in instance.get_runs():
            instance.delete_run(run.run_id)
        assert definitions.resolve_job_def("sweep_staging").execute_in_process(instance=instance).success
        assert delete_old_runs(instance, settings, [SPEC], later, batch_size=2) == 1


def test_each_table_has_its_run_once_a_week(settings):
    definitions = build_definitions(settings, [LakehouseTable(SPEC, Path("nowhere"))])
    schedule = definitions.resolve_schedule_def("maintain_weekly")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    context = dg.build_schedule_context(scheduled_execution_time=LATER)
    (request,) = schedule.evaluate_tick(context).run_requests
    assert request.asset_selection == [dg.AssetKey("maintenance_readings")]
    assert definitions.resolve_asset_graph().get(dg.AssetKey("maintenance_readings")).pools == {"table_readings"}
    assert not delta.exists(settings.path("silver", "readings"))
