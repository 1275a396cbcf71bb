"""Silver's checks by window in Dagster: the bar of each check is what the log says, whatever changed it.

Belongs here: what Dagster has stored after runs and operations. Does not: how a result reads (assets/test_checks).
"""

import asyncio

import dagster as dg
import pytest
from dagster._core.loader import LoadingContextForTest

from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.assets.partitions import partitions_of
from lakehouse_assets.orchestration.assets.quarantine_check import CHECK as QUARANTINED
from lakehouse_assets.orchestration.jobs.operation_job import run_job
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import land, readings

SILVER = dg.AssetKey("silver_readings")
OF_THE_TABLE = [QUARANTINED, "evidence_complete", "no_window_left_failed", "schema_matches_contract"]
GOOD, BAD = "2024-01-01", "2024-01-02"
CHECKS = [
    {"check": "in_range", "column": "value", "min": -100, "max": 100, "on_fail": "quarantine_batch"},
    {"check": "row_count", "min": 1, "depends_on": ["in_range_value"], "name": "after"},
]


@pytest.fixture
def world(spark, tmp_path):
    ends = {"cadence": "daily", "start": GOOD, "end": "2024-01-03", "mode": "upsert"}
    return World(spark, tmp_path, [LakehouseTable(readings(extraction=ends, checks=CHECKS), tmp_path)])


def bar(world: World, check: str) -> dict[str, str]:
    """What the tab Checks → Partitions shows: the status of each partition that has one."""
    key, partitions = dg.AssetCheckKey(SILVER, check), partitions_of(world.tables[0].spec.extraction)
    state = world.instance.event_log_storage.get_asset_check_state([(key, partitions)])[key]
    return {part: status.value for status, subset in state.subsets.items() for part in subset.subset_value.get_partition_keys()}


def newest(world: World, check: str) -> dg.AssetCheckEvaluation:
    """A check's badge, and with it its text: the newest result."""
    key = dg.AssetCheckKey(SILVER, check)
    return world.instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key].evaluation


def not_evaluated(world: World) -> list[str]:
    """The checks without windows that the UI shows as "Not Evaluated": of an earlier materialization, or of none."""
    keys = {name: dg.AssetCheckKey(SILVER, name) for name in OF_THE_TABLE}
    records = world.instance.event_log_storage.get_latest_asset_check_execution_by_key(list(keys.values()))
    context = LoadingContextForTest(world.instance)
    return [
        name
        for name, key in keys.items()
        if key not in records or not asyncio.run(records[key].targets_latest_materialization(context))
    ]


def test_runs_and_operations_report_their_windows(world):
    land(world.settings, 1, ["a,1,10,2024-01-01T00:00:00Z"])
    land(world.settings, 2, ["a,2,555,2024-01-02T00:00:00Z"])
    world.run()
    assert bar(world, "in_range_value") == {GOOD: "SUCCEEDED", BAD: "FAILED"}
    assert bar(world, "readable_row") == {GOOD: "SUCCEEDED", BAD: "SUCCEEDED"}
    # A check that did not look at the window is not green.
    assert bar(world, "after") == {GOOD: "SUCCEEDED", BAD: "SKIPPED"}
    shown = newest(world, "in_range_value")
    assert shown.partition == BAD
    assert "555" in shown.metadata["sample"].value
    assert f"--window {BAD} --override in_range_value" in shown.metadata["what_to_do"].value
    assert shown.metadata["verdict"].value == "quarantined"
    assert BAD in str(newest(world, QUARANTINED).description)
    materialized = world.instance.get_latest_materialization_event
    assert "after" in materialized(SILVER).asset_materialization.metadata["not_checked"].value

    again = {"table": "readings", "first": BAD, "last": BAD, "by": "x", "because": "y"}
    assert not_evaluated(world) == []
    run_job(world.definitions, world.instance, "rejudge_windows", again)
    assert not_evaluated(world) == []
    assert newest(world, "in_range_value").metadata["verdict"].value == "quarantined"
    assert "after" in materialized(SILVER).asset_materialization.metadata["not_checked"].value
    request = {"table": "readings", "window": BAD, "by": "x", "because": "y"}
    run_job(world.definitions, world.instance, "release_quarantine", {**request, "override": ["in_range_value"]})
    assert not_evaluated(world) == []
    assert bar(world, "after") == {GOOD: "SUCCEEDED", BAD: "SUCCEEDED"}
    assert newest(world, "in_range_value").metadata["verdict"].value == "published_with_warnings"
    assert newest(world, QUARANTINED).passed

    # A second extraction.
    land(world.settings, 2, ["a,2,20,2024-01-02T00:00:00Z"])
    world.run()
    assert bar(world, "in_range_value") == {GOOD: "SUCCEEDED", BAD: "SUCCEEDED"}
    run_job(world.definitions, world.instance, "rejudge_windows", {**again, "first": GOOD})
    assert bar(world, "in_range_value") == {GOOD: "SUCCEEDED", BAD: "SUCCEEDED"}


def test_a_lost_history_is_reported_again(world, tmp_path_factory):
    land(world.settings, 1, ["a,1,10,2024-01-01T00:00:00Z"])
    land(world.settings, 2, ["a,2,555,2024-01-02T00:00:00Z"])
    world.run()
    before = {check: bar(world, check) for check in ("in_range_value", "after", "readable_row")}
    world.instance = dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("empty")))
    assert bar(world, "in_range_value") == {}
    for _ in range(2):
        assert run_job(world.definitions, world.instance, "report_checks", {"table": "readings"}) == {"windows": 2}
        assert {check: bar(world, check) for check in before} == before
        assert not newest(world, QUARANTINED).passed
