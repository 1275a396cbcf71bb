"""The main job on the real year, through Dagster on an instance: late days, faulty days, their correction, gold, healing."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.orchestration.healing.foreground import ForegroundRun
from lakehouse_assets.orchestration.healing.window_state import read_statuses
from lakehouse_assets.orchestration.jobs.operation_job import run_job
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.e2e.weather_oracle import compare_gold, compare_silver
from lakehouse_assets_tests.e2e.world import World, keys
from lakehouse_assets_tests.support import PROJECT_ROOT

sys.path.insert(0, str(PROJECT_ROOT / "scripts"))
from land_example import land_part

pytestmark = pytest.mark.exhaustive(seconds=400, story=True)

LATE = ["2013-06-10", "2013-06-11", "2013-06-12"]
FAULTY = ["2013-09-09", "2013-09-10", "2013-09-11", "2013-09-12"]
MOST_JOBS = 40


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    return World(spark, tmp_path_factory.mktemp("weather"), ["weather"])


def test_1_only_arrived_windows_are_requested(world):
    land_part("on_time", world.settings.landing, ["weather"])
    run = ForegroundRun(world.definitions, world.instance, world.settings, world.tables)
    run.report_sources([t.spec for t in world.tables])
    assert (run.report.reported, run.report.unreachable) == (361, [])
    requested_windows = keys(world.tick())
    arrived = {f.stem for f in Path(world.settings.landing, "weather").glob("*.csv")}
    assert set(requested_windows) == {"bronze_weather", "silver_weather", "baseline_weather"}
    assert all(requested_windows[name] == arrived for name in requested_windows)


def test_2_the_year_with_its_gap_takes_one_run_per_range(world, compiled):
    report = world.run()
    assert [(a, b) for _, a, b, _ in report.ranges] == [("2013-01-01", "2013-06-09"), ("2013-06-13", "2013-12-30")]
    assert report.gold == ["gold_daily_weather"]
    # The bound is for each run of bronze, silver and baseline, however many its windows.
    ranges = {step: jobs for step, jobs in world.jobs.items() if step.startswith("weather: 2013")}
    assert len(ranges) == 2
    assert 0 < max(ranges.values()) <= MOST_JOBS, world.jobs
    assert all(world.verdict(day) == "quarantined" for day in FAULTY)


def test_3_late_days_heal_in_one_run_within_the_bound_on_spark_jobs(world, compiled):
    assert keys(world.tick()) == {}
    land_part("late", world.settings.landing, ["weather"])
    report = world.run()
    assert [(a, b) for _, a, b, _ in report.ranges] == [(LATE[0], LATE[-1])]
    assert all(world.verdict(day).startswith("published") for day in LATE)
    (jobs,) = (jobs for step, jobs in world.jobs.items() if step.startswith("weather: 2013"))
    assert 0 < jobs <= MOST_JOBS
    # What was held stays held: nobody asks for it again.
    statuses = read_statuses(world.instance, world.settings, world.tables[0].spec, datetime.now(UTC))
    assert not any(status.is_pending for status in statuses)
    assert keys(world.tick()) == {}


TICKS = """
import dagster as dg
from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.settings import Settings

definitions = build_definitions(Settings.from_environment())
with dg.DagsterInstance.get() as instance:
    for sensor in definitions.sensors:
        if not isinstance(sensor, dg.AutomationConditionSensorDefinition):
            context = dg.build_sensor_context(instance, definitions=definitions)
            tick = sensor.evaluate_tick(context)
            print(sensor.name, len(tick.asset_events), len(tick.run_requests))
    print(dg.evaluate_automation_conditions(definitions, instance).total_requested, "requested")
"""


def without_java(world: World, *command: str) -> str:
    """The output of a command in a process of its own, where a Java that is started leaves a mark and fails."""
    home = Path(world.settings.dagster_home)
    java = home / "no_java" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(f"#!/bin/sh\ntouch {home}/java_was_started\nexit 1\n")
    java.chmod(0o755)
    (home / "dagster.yaml").touch()
    environment = {
        "PATH": f"{java.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "JAVA_HOME": str(java.parent.parent),
        "HOME": str(home),
        "DAGSTER_HOME": str(home),
        "LAKEHOUSE_ROOT": world.settings.root,
        "LAKEHOUSE_LANDING": world.settings.landing,
    }
    process = subprocess.run(
        command, env=environment, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert process.returncode == 0, process.stderr
    assert not (home / "java_was_started").exists()
    return process.stdout


def test_4_a_second_run_does_nothing_and_starts_no_jvm(world):
    assert "nothing to do: each window that has arrived is judged" in without_java(
        world, "lakehouse", "run", "--table", "weather"
    )


def test_4_ticks_and_validation_start_no_jvm(world):
    output = without_java(world, sys.executable, "-c", TICKS)
    assert {"watch_sources 0 0", "announce_quarantined 0 0"} <= set(output.splitlines())
    assert "0 requested" in output
    without_java(world, "lakehouse", "check", "validate")
    without_java(world, "dagster", "definitions", "validate")


def test_5_few_clean_windows_are_quarantined(world):
    quarantined_starts = [start for (start, _), d in world.current_decisions().items() if d.verdict == "quarantined"]
    clean = [start for start in quarantined_starts if f"{start:%Y-%m-%d}" not in FAULTY]
    assert len(clean) <= 0.05 * 264


def test_6_the_correction_replaces_the_quarantined_window(world):
    land_part("corrections", world.settings.landing, ["weather"])
    report = world.run()
    assert [(a, b) for _, a, b, _ in report.ranges] == [(FAULTY[0], FAULTY[-1])]
    assert report.gold == ["gold_daily_weather"]
    for day in FAULTY:
        assert world.verdict(day, 2).startswith("published")
        assert world.current_decisions()[(datetime.fromisoformat(day).replace(tzinfo=UTC), 1)].superseded_by


def test_7_silver_equals_the_oracle_row_by_row(world):
    # Three clean days of 72 rows are in quarantine by drift.
    assert compare_silver(world.settings) > 25_800


def test_8_gold_equals_its_silver(world):
    compare_gold(world.settings)


def test_9_a_rebuild_from_bronze_gives_the_same_silver(world):
    spec = world.tables[0].spec
    rebuilt = rebuild(Run(world.settings, spec, lambda: world.spark, "rebuild", lambda: datetime(2024, 1, 1, tzinfo=UTC)))
    assert (rebuilt.gained, rebuilt.lost) == (0, 0)


def test_the_ui_shows_a_faulty_day_and_its_check(world):
    """Metadata of the first extraction's run: the verdict by partition, the check that failed in it, and its plot."""
    instance = world.instance
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=dg.AssetKey("silver_weather"), asset_partitions=[FAULTY[0]]), limit=10
    ).records
    verdicts = [r.asset_materialization.metadata["verdict"].value for r in records]
    assert verdicts[-1] == "quarantined"
    assert verdicts[0].startswith("published")
    history = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(dg.AssetKey("silver_weather"), "drift"), limit=5000
    )
    failed = {h.partition: h.event.dagster_event.event_specific_data for h in history if h.status.value == "FAILED"}
    assert set(FAULTY) <= set(failed)
    evaluation = failed[FAULTY[0]]
    assert "data:image/png;base64," in evaluation.metadata["plot"].value
    assert "quarantine release" in evaluation.metadata["what_to_do"].value


def test_definitions_describe_the_assets(world):
    graph = world.definitions.resolve_asset_graph()
    silver = graph.get(dg.AssetKey("silver_weather"))
    schema = {c.name: c for c in silver.metadata["dagster/column_schema"].columns}
    assert schema["pressure_kpa"].tags["unit"] == "kPa"
    assert silver.owners == ["team:weather"]
    lineage = graph.get(dg.AssetKey("gold_daily_weather")).metadata["dagster/column_lineage"].deps_by_column
    assert [(d.asset_key.to_user_string(), d.column_name) for d in lineage["temp_mean_c"]] == [("silver_weather", "temp_c")]


def test_releasing_and_discarding_go_through_dagster_and_show_there(world):
    """The clean days that drift holds are released by a job; the row with 1,048 mph of wind is discarded by another."""
    before = world.instance.get_materialized_partitions(dg.AssetKey("silver_weather"))
    for drifted, because in (("2013-01-30", "cold and damp"), ("2013-05-09", "so it was"), ("2013-11-24", "EWR was right")):
        config = {"table": "weather", "window": drifted, "by": "me", "because": because, "override": ["drift"]}
        run_job(world.definitions, world.instance, "release_quarantine", config)
        assert world.verdict(drifted).startswith("published")
    config = {"table": "weather", "window": "2013-02-12", "by": "me", "because": "no such wind"}
    run_job(world.definitions, world.instance, "discard_quarantine", config)
    assert ledger.quarantined_decisions(logs.decisions(world.settings, "weather")) == []
    assert world.instance.get_materialized_partitions(dg.AssetKey("silver_weather")) == before
    check = dg.AssetCheckKey(dg.AssetKey("silver_weather"), "drift")
    latest = world.instance.event_log_storage.get_asset_check_execution_history(check, limit=1)[0]
    assert latest.status.value == "SUCCEEDED"
    assert world.run().gold == ["gold_daily_weather"]
    run_job(world.definitions, world.instance, "discard_quarantine", config)
    assert len([d for d in logs.decisions(world.settings, "weather") if d.kind == "discarded"]) == 1, "done once"
    with pytest.raises(RefusedError, match="has no quarantined rows"):
        run_job(world.definitions, world.instance, "discard_quarantine", {**config, "because": "again"})
