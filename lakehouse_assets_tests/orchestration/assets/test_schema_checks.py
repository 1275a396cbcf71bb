"""Schemas in Dagster: what `reject` fails and what it leaves alone, the diff, `schema_matches_contract`, a migration as a job.

Belongs here: the instance's view of a schema. Does not: the gate's own judgement (pipeline/test_schema).
"""

import dagster as dg
import pytest

from lakehouse_assets.errors import RunFailedError
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.jobs.operation_job import run_job
from lakehouse_assets.queries.schema_status import read_schema_status
from lakehouse_assets.storage import delta
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import land, readings

ENDS = {"cadence": "daily", "start": "2024-01-01", "end": "2024-01-04", "mode": "upsert"}
HEADER = "sensor,hour,value,updated"


def spec(**more):
    gold = [{"name": "all", "sql": "all.sql", "key": ["sensor", "hour"]}]
    return readings(**{"extraction": ENDS, "gold": gold, "checks": [{"check": "not_null", "column": "value"}], **more})


def world_of(spark, home, spec) -> World:
    (home / "all.sql").write_text("select sensor, hour, value as amount from silver_readings")
    return World(spark, home, [LakehouseTable(spec, home)])


def check(world, asset: str, name: str = "schema_matches_contract"):
    key = dg.AssetCheckKey(dg.AssetKey(asset), name)
    record = world.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    return record.event.dagster_event.event_specific_data


def materialized(world, asset: str) -> set[str]:
    return set(world.instance.get_materialized_partitions(dg.AssetKey(asset)))


@pytest.mark.exhaustive(seconds=30)
def test_a_rejected_column_fails_its_window_alone_and_names_its_readers(spark, tmp_path):
    world = world_of(spark, tmp_path, spec(schema={"new_columns": "reject", "missing_columns": "reject"}))
    land(world.settings, 1, ["a,1,10,2024-01-01T00:00:00Z"])
    land(world.settings, 2, ["a,2,2024-01-02T00:00:00Z"], header="sensor,hour,updated")
    land(world.settings, 3, ["a,3,30,2024-01-03T00:00:00Z,x"], header=f"{HEADER},note")
    with pytest.raises(RunFailedError) as caught:
        world.run()
    text = str(caught.value)
    assert all(f"schema rejected in 2024-01-0{day};" in text for day in (2, 3))
    assert "value: promised double, arrived -" in text
    assert "note: promised -, arrived untyped" in text
    assert materialized(world, "silver_readings") == {"2024-01-01"}
    assert materialized(world, "bronze_readings") == {"2024-01-01", "2024-01-02", "2024-01-03"}
    key = dg.AssetCheckKey(dg.AssetKey("silver_readings"), "source_columns")
    history = world.instance.event_log_storage.get_asset_check_execution_history(key, limit=10)
    results = {record.partition: record.evaluation for record in history}
    assert {day: result.passed for day, result in results.items()} == {
        "2024-01-01": True,
        "2024-01-02": False,
        "2024-01-03": False,
    }
    differences = [
        {record.data["column"]: record.data for record in results[f"2024-01-0{day}"].metadata["diff"].records} for day in (2, 3)
    ]
    assert differences[0]["value"]["read by"] == "check not_null_value, gold_all.amount"
    assert differences[1]["note"]["outcome"] == "rejected"
    # The contract takes them now: each is released, and nothing was lost.
    loose = World(spark, tmp_path, [LakehouseTable(spec(schema={"new_columns": "evolve"}), tmp_path)])
    for day in ("2024-01-02", "2024-01-03"):
        config = {"table": "readings", "window": day, "by": "me", "because": "it is so now"}
        run_job(loose.definitions, loose.instance, "release_quarantine", config)
    assert materialized(loose, "silver_readings") == {"2024-01-01", "2024-01-02", "2024-01-03"}
    loose.run()
    assert ("note", "string") in delta.schema_types(loose.settings.path("silver", "readings"))


@pytest.mark.exhaustive(seconds=20)
def test_the_check_and_the_history_of_a_schema_and_a_migration(spark, tmp_path):
    world = world_of(spark, tmp_path, spec(schema={"new_columns": "evolve"}))
    land(world.settings, 1, ["a,1,10,2024-01-01T00:00:00Z"])
    world.run()
    land(world.settings, 2, ["a,2,20,2024-01-02T00:00:00Z,x"], header=f"{HEADER},note")
    world.run()
    evaluation = check(world, "silver_readings")
    assert evaluation.passed
    versions = [record.data for record in evaluation.metadata["schema_versions"].records]
    assert [v["changes"] for v in versions if v["changes"].startswith("+")] == ["+ note string"]
    assert check(world, "gold_all").passed
    # Another contract: the plan, then one commit, and the check says both.
    columns = {"sensor": "string", "hour": "bigint", "amount": {"type": "double", "from": "value"}, "updated": "timestamp"}
    (tmp_path / "all.sql").write_text("select sensor, hour, amount from silver_readings")
    other = spec(schema={"new_columns": "evolve"}, columns=columns, checks=[])
    later = World(spark, tmp_path, [LakehouseTable(other, tmp_path)])
    path = later.settings.path("silver", "readings")
    assert not read_schema_status(later.settings, other).matches
    before = delta.version(path)
    config = {"table": "readings", "renames": {"value": "amount"}}
    job = run_job(later.definitions, later.instance, "migrate_schema", config)
    # One commit for schema and rows; one before it and one after it say by which contract they were made.
    assert job == {"steps": 2, "version": before + 3}
    assert "amount" not in dict(delta.schema_types(path, before + 1))
    assert dict(delta.schema_types(path, before + 2))["amount"] == "double"
    assert check(later, "silver_readings").passed
    event = later.instance.get_latest_materialization_event(dg.AssetKey("silver_readings"))
    assert event.asset_materialization.metadata["version"].value == before + 3
    assert read_schema_status(later.settings, other).matches
    again = run_job(later.definitions, later.instance, "migrate_schema", config | {"renames": {}})
    assert again == {"steps": 0, "version": before + 3}
