"""A baseline's jobs and a release that teaches, as the CLI runs them: a cold start that stops, and both ways out of it.

Belongs here: what goes through Dagster and what shows there. Does not: the operations themselves (operations/test_baseline).
"""

import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.release import release
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.jobs.operation_job import run_job
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.baseline import baseline_events
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import land, readings, runner, window

AUTHOR = {"table": "readings", "by": "ann", "because": "a new sensor"}
FEATURES = ["value", {"name": "site", "expr": "left(sensor, 1)"}]


@pytest.fixture
def world(spark, tmp_path):
    """Two days have arrived, and nothing is known."""
    drift = {"features": FEATURES, "cold_start": "stop"}
    extraction = {"cadence": "daily", "start": datetime(2024, 1, 1, tzinfo=UTC), "end": datetime(2024, 1, 5, tzinfo=UTC)}
    spec = readings(checks=[], drift=drift, extraction=extraction)
    new_world = World(spark, tmp_path, [LakehouseTable(spec, Path("nowhere"))])
    for day in (1, 2):
        dice = random.Random(day)
        land(new_world.settings, day, [f"s{n},{n % 24},{dice.gauss(10, 1):.3f},2024-01-01T00:00:00Z" for n in range(100)])
    new_world.run()
    return new_world


def verdicts(world):
    return [decision.verdict for _, decision in sorted(world.current_decisions("readings").items())]


def run_baseline_job(world, job, **more):
    return run_job(world.definitions, world.instance, job, {**AUTHOR, **more})


@pytest.mark.exhaustive(seconds=15)
def test_a_release_with_teach_ends_a_cold_start(world):
    assert verdicts(world) == ["quarantined", "quarantined"]
    config = {**AUTHOR, "window": "2024-01-01", "override": ["drift"], "teach": "yes"}
    run_job(world.definitions, world.instance, "release_quarantine", config)
    learnt = world.instance.get_latest_materialization_event(dg.AssetKey("baseline_readings")).asset_materialization
    assert (learnt.partition, learnt.metadata["teaches"].value) == ("2024-01-01", True)
    run_job(world.definitions, world.instance, "release_quarantine", {**AUTHOR, "window": "2024-01-02"})
    assert [verdict.startswith("published") for verdict in verdicts(world)] == [True, True]
    assert run_baseline_job(world, "pin_baseline")["windows"] == 2
    assert run_baseline_job(world, "pin_baseline", clear=True)["event"] == "unpin"
    assert run_baseline_job(world, "pin_baseline", clear=True)["event"] == "unpin", "the same request, done once"
    with pytest.raises(RefusedError, match="not pinned"):
        run_baseline_job(world, "pin_baseline", clear=True, because="once more")
    assert [event.kind for event in baseline_events(world.settings, "readings")] == ["pin", "unpin"]
    assert run_baseline_job(world, "reset_baseline")["windows"] == 2


@pytest.mark.exhaustive(seconds=15)
def test_a_release_of_a_dead_process_is_reported_once(world):
    spec, author = world.tables[0].spec, {name: AUTHOR[name] for name in ("by", "because")}
    key = dg.AssetKey("silver_readings")
    run = replace(runner(world.spark, world.settings, spec), clock=lambda: datetime.now(UTC))
    release(run, window(1).start, None, waived=["drift"], **author)
    before = world.instance.get_latest_materialization_event(key).timestamp
    config = {**AUTHOR, "window": "2024-01-01", "override": ["drift"]}
    run_job(world.definitions, world.instance, "release_quarantine", config)
    event = world.instance.get_latest_materialization_event(key)
    assert event.timestamp > before and event.asset_materialization.partition == "2024-01-01"
    assert len([d for d in logs.decisions(world.settings, "readings") if d.kind == "released"]) == 1
    # Said once more, it is done already, and there is no news; said otherwise, there is nothing left to release.
    run_job(world.definitions, world.instance, "release_quarantine", config)
    assert world.instance.get_latest_materialization_event(key).timestamp == event.timestamp
    assert len([d for d in logs.decisions(world.settings, "readings") if d.kind == "released"]) == 1
    for other in ({**config, "override": ["*"]}, {**config, "by": "bob"}):
        with pytest.raises(RefusedError, match="has no quarantined rows"):
            run_job(world.definitions, world.instance, "release_quarantine", other)


@pytest.mark.exhaustive(seconds=20)
def test_a_seed_also_ends_a_cold_start_and_the_check_shows_its_comparison(world, tmp_path):
    path = str(tmp_path / "old")
    days = "timestampadd(DAY, cast(floor(id / 100) AS int), timestamp'2023-12-01') AS taken"
    world.spark.range(2500).selectExpr("concat('s', id % 9) AS sensor", "10 + randn(3) AS value", days).write.format(
        "delta"
    ).save(path)
    assert run_baseline_job(world, "seed_baseline", source=path, window_column="taken")["windows"] == 25
    observed = world.instance.fetch_observations(dg.AssetKey("baseline_readings"), limit=1).records[0].asset_observation
    assert observed.metadata["because"].value == "a new sensor"
    assert run_baseline_job(world, "seed_baseline", source=path, window_column="taken")["windows"] == 25
    with pytest.raises(RefusedError, match="seeded already"):
        run_baseline_job(world, "seed_baseline", source=path, window_column="taken", because="once more")
    assert [event.kind for event in baseline_events(world.settings, "readings")] == ["seed"]
    for day in ("2024-01-01", "2024-01-02"):
        run_job(world.definitions, world.instance, "release_quarantine", {**AUTHOR, "window": day})
    assert [verdict.startswith("published") for verdict in verdicts(world)] == [True, True]
    check = dg.AssetCheckKey(dg.AssetKey("silver_readings"), "drift")
    record = world.instance.event_log_storage.get_asset_check_execution_history(check, limit=1)[0]
    metadata = record.event.dagster_event.event_specific_data.metadata
    assert metadata["status"].value == "calibrated_warn_only"
    assert "more until a window can be quarantined for drift" in metadata["believe"].value
    assert "| value |" in metadata["features"].value
    assert "| site |" in metadata["features"].value
