"""Tables beside each other: other cadences, starts and ends, one that fails, and how much runs at once.

Belongs here: that no table waits for another that is in trouble. Does not: tables that look into each other (test_flights).
"""

import shutil
from pathlib import Path

import dagster as dg
import pytest

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import PROJECT_ROOT, readings, rows_of

HEADER = "sensor,hour,value,updated\n"
CALENDARS = {
    "by_hour": ("hourly", "2024-01-01T22:00:00", "2024-01-02T02:00:00", "%Y-%m-%dT%H"),
    "by_day": ("daily", "2024-01-01", None, "%Y-%m-%d"),
    "by_week": ("weekly", "2023-12-27", "2024-01-17", "%Y-%m-%d"),
    "by_month": ("monthly", "2023-11-01", "2024-03-01", "%Y-%m"),
}
LANDED = {
    "by_hour": ["2024-01-01T21", "2024-01-01T22", "2024-01-02T01", "2024-01-02T02"],
    "by_day": ["2023-12-31", "2024-01-01", "2024-01-02"],
    "by_week": ["2023-12-27", "2024-01-01", "2024-01-10", "2024-01-17"],
    "by_month": ["2023-10", "2023-12", "2024-02", "2024-03"],
}
# Those that the table's calendar knows: a file of no window of it is nobody's.
INGESTED_PARTITIONS = {
    "by_hour": ["2024-01-01-22:00", "2024-01-02-01:00"],
    "by_day": ["2024-01-01", "2024-01-02"],
    "by_week": ["2023-12-27", "2024-01-10"],
    "by_month": ["2023-12-01", "2024-02-01"],
}


def table(name: str) -> LakehouseTable:
    cadence, start, end, form = CALENDARS[name]
    source = {"kind": "files", "path": f"{name}/{{window:{form}}}.csv", "format": "csv"}
    return LakehouseTable(
        readings(name=name, source=source, extraction={"cadence": cadence, "start": start, "end": end}), Path("nowhere")
    )


@pytest.mark.exhaustive(seconds=45)
def test_a_failing_table_delays_no_other_and_heals_alone(spark, tmp_path):
    world = World(spark, tmp_path, [table(name) for name in CALENDARS])
    for name, files in LANDED.items():
        folder = Path(world.settings.landing, name)
        folder.mkdir()
        for index, file in enumerate(files):
            (folder / f"{file}.csv").write_text(f"{HEADER}s{index},1,1,2024-01-01T00:00:00Z\n")
    blocked = Path(world.settings.path("silver", "by_day"))
    blocked.parent.mkdir(parents=True)
    blocked.write_text("in the way")

    with pytest.raises(EnvironmentMissing, match="by_day: its tables cannot be read") as failed:
        world.run()
    assert str(failed.value).startswith("by_day 2024-01-01 to 2024-01-02: ")
    assert "by_week" not in str(failed.value)
    for name in ("by_hour", "by_week", "by_month"):
        keys = world.instance.get_materialized_partitions(dg.AssetKey(f"silver_{name}"))
        assert sorted(keys) == INGESTED_PARTITIONS[name]
        assert len(rows_of(world.settings.path("silver", name))) == len(INGESTED_PARTITIONS[name])

    blocked.unlink()
    report = world.run()
    # What has failed together is tried in smaller parts.
    assert report.ranges == [("by_day", day, day, 1) for day in ("2024-01-01", "2024-01-02")]
    assert sorted(world.instance.get_materialized_partitions(dg.AssetKey("silver_by_day"))) == INGESTED_PARTITIONS["by_day"]
    assert world.run().ranges == []


def test_two_runs_execute_at_once_and_one_per_table(tmp_path):
    """Two runs, so two JVMs; and of one table's pool a single run."""
    shutil.copy(PROJECT_ROOT / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        limits = instance.get_concurrency_config()
    assert limits.run_queue_config is not None
    assert limits.run_queue_config.max_concurrent_runs == 2
    assert limits.pool_config.default_pool_limit == 1
    assert limits.pool_config.pool_granularity.value == "run"
