"""Audits through Dagster, as the CLI runs them: the jobs, the check of each table's asset, the weekly schedules.

Belongs here: what goes through Dagster and what shows there. Does not: what an audit finds (audit/test_run.py).
"""

from pathlib import Path

import dagster as dg
import pytest

from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.jobs.audits import CHECK, SERVED
from lakehouse_assets.orchestration.jobs.operation_job import run_job
from lakehouse_assets.reports.audit_site import page_path
from lakehouse_assets.storage import audit_log
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import land, readings


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """One published day of a table, and a table of silver that nobody describes."""
    extraction = {"cadence": "daily", "start": "2024-01-01T00:00:00Z", "end": "2024-01-02T00:00:00Z"}
    spec = readings(extraction=extraction)
    new_world = World(spark, tmp_path_factory.mktemp("audits"), [LakehouseTable(spec, Path("nowhere"))])
    land(new_world.settings, 1, [f"s{n},{n % 24},{n}.5,2024-01-01T00:00:00Z" for n in range(50)])
    new_world.run()
    spark.range(5).write.format("delta").save(new_world.settings.path("silver", "stranger"))
    return new_world


def test_a_run_of_the_table_does_not_audit_it(world):
    assert audit_log.read_audits(world.settings) == []


def test_the_job_audits_all_that_is_on_disk_and_fills_in_the_check(world):
    job = run_job(world.definitions, world.instance, "audit_silver", {})
    assert [(a["table"], a["rows"]) for a in job["audits"]] == [("silver/readings", 50), ("silver/stranger", 5)]
    assert job["audits"][0]["verdict"] == "passed"
    assert job["stops"] == []
    assert Path(job["pages"]).is_file()
    key = dg.AssetCheckKey(dg.AssetKey("silver_readings"), CHECK)
    (record,) = world.instance.event_log_storage.get_asset_check_execution_history(key, limit=5)
    evaluation = record.event.dagster_event.asset_check_evaluation_data
    assert evaluation.passed
    assert evaluation.metadata["audit_page"].value == f"{SERVED}/{page_path('silver/readings')}"
    assert Path(evaluation.metadata["audit_page_file"].value).is_file()


def test_the_schedules_are_weekly_and_on_and_start_the_jobs(world):
    schedules = {s.name: s for s in world.definitions.get_repository_def().schedule_defs}
    for stage in ("silver", "gold"):
        schedule = schedules[f"audit_{stage}_weekly"]
        assert schedule.cron_schedule.split()[-1] == "1"
        assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
        assert schedule.job_name == f"audit_{stage}"


def test_nothing_asks_for_the_check_by_itself(world):
    requested = world.tick()
    wanted = {str(r.key) for r in requested.results if r.true_subset.size}
    assert not [key for key in wanted if CHECK in key]
