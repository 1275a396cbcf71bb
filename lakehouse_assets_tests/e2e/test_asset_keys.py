"""A lake whose asset keys have a prefix: runs, checks, healing and gold by `lakehouse run`.

Belongs here: that every part uses the same keys. Does not: the keys themselves (orchestration/test_user_project).
"""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.healing.window_state import read_statuses
from lakehouse_assets.orchestration.jobs.operation_job import run_job
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import land, readings

PREFIX = ("sales", "eu")
GOLD = {"name": "means", "sql": "means.sql", "key": ["sensor"]}


def test_everything_reports_to_the_prefixed_assets(spark, tmp_path: Path):
    (tmp_path / "means.sql").write_text("select sensor, avg(value) as mean from silver_readings group by sensor")
    spec = readings(gold=[GOLD]).with_asset_prefix(PREFIX)
    world = World(spark, tmp_path, [LakehouseTable(spec, tmp_path)])
    land(world.settings, 1, ["a,1,5.0,2024-01-01T01:00:00Z", "b,1,500.0,2024-01-01T01:00:00Z"])
    report = world.run()
    assert (report.ranges, report.gold) == ([("readings", "2024-01-01", "2024-01-01", 1)], ["gold_means"])
    run_job(world.definitions, world.instance, "pin_baseline", {"table": "readings", "by": "me", "because": "a test"})
    run_job(world.definitions, world.instance, "audit_silver", {"tables": ["readings"]})
    asset_keys = {key.to_user_string() for key in world.instance.all_asset_keys()}
    assert asset_keys == {f"sales/eu/{name}_readings" for name in ("source", "bronze", "silver", "baseline")} | {
        "sales/eu/gold_means"
    }
    silver = dg.AssetKey([*PREFIX, "silver_readings"])
    assert world.instance.get_materialized_partitions(silver) == {"2024-01-01"}
    results = world.instance.event_log_storage.get_asset_check_summary_records
    assert results([dg.AssetCheckKey(silver, "in_range_value"), dg.AssetCheckKey(silver, "audit")])
    statuses = read_statuses(world.instance, world.settings, spec, datetime.now(UTC))
    assert not [status for status in statuses if status.is_pending]
    again = world.run()
    assert (again.ranges, again.gold) == ([], [])
