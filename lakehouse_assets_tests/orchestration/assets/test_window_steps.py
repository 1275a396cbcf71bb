"""Bronze, silver and its baseline as one step, for executors that start a process for each step.

Belongs here: what is selected, materialized and reported. Does not: the tables (pipeline), or processes (e2e/test_own_project).
"""

import dagster as dg
import pytest

from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.assets.window_checks import silver_check_specs
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import land, readings

DAY = "2024-01-01"
LAYERS = ("bronze", "silver", "baseline")


@pytest.fixture
def world(spark, tmp_path):
    ends = {"cadence": "daily", "start": "2024-01-01", "end": "2024-01-03", "mode": "upsert"}
    return World(spark, tmp_path, [LakehouseTable(readings(extraction=ends), tmp_path)], single_step=True)


def run(world: World, *layers: str, raises: bool = True) -> dg.ExecuteInProcessResult:
    """One run of these layers for one window."""
    selection = dg.AssetSelection.assets(*(f"{layer}_readings" for layer in layers))
    job = dg.define_asset_job("selected", selection)
    definitions = dg.Definitions.merge(world.definitions, dg.Definitions(jobs=[job]))
    return definitions.resolve_job_def("selected").execute_in_process(
        instance=world.instance, partition_key=DAY, raise_on_error=raises
    )


def materialized(world: World) -> set[str]:
    """The layers whose window Dagster has."""
    keys = {layer: dg.AssetKey(f"{layer}_readings") for layer in LAYERS}
    return {layer for layer, key in keys.items() if DAY in world.instance.get_materialized_partitions(key)}


def verdicts(world: World) -> list[str]:
    return [decision.verdict for _, decision in sorted(world.current_decisions("readings").items())]


def steps(result: dg.ExecuteInProcessResult) -> set[str]:
    """Without those of the checks that start no JVM."""
    return {event.step_key for event in result.all_events if event.is_step_start and "silver_readings_" not in event.step_key}


def test_a_run_is_one_step(world):
    land(world.settings, 1, ["a,1,10,2024-01-01T00:00:00Z", "a,2,-5000,2024-01-01T00:00:00Z"])
    result = run(world, *LAYERS)
    assert steps(result) == {"table_readings"}
    assert materialized(world) == set(LAYERS)
    assert verdicts(world) == ["published_with_warnings"]
    declared = {check.name for check in silver_check_specs(world.tables[0].spec)}
    assert len(declared) > 1
    keys = [dg.AssetCheckKey(dg.AssetKey("silver_readings"), name) for name in declared]
    records = world.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    assert {key for key, record in records.items() if record.evaluation} == set(keys)
    assert run(world, "bronze").get_asset_check_evaluations() == []


@pytest.mark.exhaustive(seconds=12)
def test_silver_alone_writes_its_baseline_with_it(world):
    land(world.settings, 1, ["a,1,10,2024-01-01T00:00:00Z"])
    run(world, "bronze")
    assert materialized(world) == {"bronze"}
    run(world, "silver")
    assert materialized(world) == set(LAYERS)


def test_bronze_stays_where_silver_fails(world, monkeypatch):
    land(world.settings, 1, ["a,1,10,2024-01-01T00:00:00Z"])
    with monkeypatch.context() as patch:
        patch.setattr("lakehouse_assets.orchestration.assets.window_steps.publish", lambda *_: 1 / 0)
        assert not run(world, *LAYERS, raises=False).success
    assert materialized(world) == {"bronze"}
    assert run(world, *LAYERS).success
    assert materialized(world) == set(LAYERS)


@pytest.mark.exhaustive(seconds=12)
def test_missing_windows_are_healed(world):
    land(world.settings, 1, ["a,1,10,2024-01-01T00:00:00Z"])
    land(world.settings, 2, ["a,1,11,2024-01-02T00:00:00Z"])
    world.run()
    assert verdicts(world) == ["published", "published"]
    assert materialized(world) == set(LAYERS)
