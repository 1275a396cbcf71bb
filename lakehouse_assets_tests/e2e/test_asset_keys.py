"""A lake whose asset keys have a prefix: runs, checks, healing and gold by `lakehouse run`.

Belongs here: that every part uses the same keys. Does not: the keys themselves (orchestration/test_user_project).
"""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse_assets.errors import RunFailedError
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.healing.window_state import read_statuses
from lakehouse_assets.orchestration.jobs.operation_job import run_job
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import land, readings, rows_of

PREFIX = ("sales", "eu")
GOLD = {"name": "means", "sql": "means.sql", "key": ["sensor"]}


SITES = {"path": "theirs/places", "asset": "theirs/places", "columns": {"sensor": "string", "place": "string"}}
GOLD_BY_SITE = {"name": "placed", "sql": "placed.sql", "key": ["sensor"], "reads": {"places": SITES}}


@pytest.mark.exhaustive(seconds=15)
def test_gold_reads_a_table_of_another_asset_and_follows_it(spark, tmp_path: Path):
    (tmp_path / "placed.sql").write_text(
        "select p.place, r.sensor, max(r.value) as value from silver_readings r join places p on p.sensor = r.sensor"
        " group by p.place, r.sensor"
    )
    world = World(spark, tmp_path, [LakehouseTable(readings(gold=[GOLD_BY_SITE]), tmp_path)])
    graph = world.definitions.resolve_asset_graph()
    assert dg.AssetKey(["theirs", "places"]) in graph.get(dg.AssetKey("gold_placed")).parent_keys
    land(world.settings, 1, ["a,1,5.0,2024-01-01T01:00:00Z", "b,1,6.0,2024-01-01T01:00:00Z"])
    assert world.run().gold == [], "it waits for its input"
    path = world.settings.path("theirs", "places")
    write_deltalake(path, pa.table({"sensor": ["a"], "city": ["Rome"]}))
    with pytest.raises(RunFailedError, match=r"gold_placed reads place of places, which .* does not have"):
        world.run()
    site_rows = {"sensor": ["a"], "place": ["Rome"], "more": [1]}
    write_deltalake(path, pa.table(site_rows), mode="overwrite", schema_mode="overwrite")
    assert world.run().gold == ["gold_placed"]
    assert rows_of(world.settings.path("gold", "placed"), ["sensor", "place"]) == [{"sensor": "a", "place": "Rome"}]
    assert world.run().gold == []
    write_deltalake(path, pa.table({"sensor": ["b"], "place": ["Oslo"], "more": [2]}), mode="append")
    assert world.run().gold == ["gold_placed"]
    assert len(rows_of(world.settings.path("gold", "placed"))) == 2
    decisions = logs.decisions(world.settings, "gold_placed")
    assert [decision.inputs["places"] for decision in decisions] == [1, 2]
    # Its owner makes another table at the same path, of as many versions.
    shutil.rmtree(path)
    for city in ("Bonn", "Riga", "Lima"):
        write_deltalake(path, pa.table({"sensor": ["a"], "place": [city], "more": [1]}), mode="overwrite")
    assert world.run().gold == ["gold_placed"]
    assert rows_of(world.settings.path("gold", "placed"), ["place"]) == [{"place": "Lima"}]
    assert world.run().gold == []


@pytest.mark.exhaustive(seconds=20)
def test_everything_reports_to_the_prefixed_assets(spark, tmp_path: Path):
    (tmp_path / "means.sql").write_text("select sensor, avg(value) as mean from silver_readings group by sensor")
    spec = readings(gold=[GOLD]).with_asset_prefix(PREFIX)
    world = World(spark, tmp_path, [LakehouseTable(spec, tmp_path)])
    land(world.settings, 1, ["a,1,5.0,2024-01-01T01:00:00Z", "b,1,500.0,2024-01-01T01:00:00Z"])
    report = world.run()
    assert (report.ranges, report.gold) == ([("readings", "2024-01-01", "2024-01-01", 1)], ["gold_means"])
    request = {"table": "readings", "first": "2024-01-01", "by": "me", "because": "a test"}
    run_job(world.definitions, world.instance, "rejudge_windows", request)
    run_job(world.definitions, world.instance, "audit_silver", {"tables": ["readings"]})
    asset_keys = {key.to_user_string() for key in world.instance.all_asset_keys()}
    assert asset_keys == {f"sales/eu/{name}_readings" for name in ("source", "bronze", "silver", "baseline")} | {
        "sales/eu/gold_means"
    }
    silver = dg.AssetKey([*PREFIX, "silver_readings"])
    assert world.instance.get_materialized_partitions(silver) == {"2024-01-01"}
    checks = [dg.AssetCheckKey(silver, "in_range_value"), dg.AssetCheckKey(silver, "audit")]
    assert set(world.instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)) == set(checks)
    statuses = read_statuses(world.instance, world.settings, spec, datetime.now(UTC))
    assert not [status for status in statuses if status.is_pending]
    assert world.run().ranges == []
