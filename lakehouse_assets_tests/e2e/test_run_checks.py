"""The job `run_checks` on an instance: checks asked on demand, shown on the asset, and no run asked for because of it.

Belongs here: the job in Dagster. Does not: what a dry run reports (operations/test_dry_run).
"""

import dagster as dg
import pytest

from lakehouse_assets.errors import RefusedError
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.jobs.operation_job import run_job
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import land, readings

FAR = {"check": "in_range", "column": "value", "max": 50, "name": "far", "severity": "warning"}
SPEC = readings(
    extraction={"cadence": "daily", "start": "2024-01-01", "end": "2024-01-03", "mode": "upsert"},
    gold=[
        {
            "name": "means",
            "sql": "means.sql",
            "key": ["sensor"],
            "checks": [{"check": "in_range", "column": "m", "max": 50, "severity": "warning"}],
        }
    ],
    checks=[FAR, {"check": "unique", "columns": ["value"], "name": "differ", "severity": "warning"}],
)


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    home = tmp_path_factory.mktemp("asked")
    (home / "means.sql").write_text("select sensor, avg(value) as m from silver_readings group by sensor")
    new_world = World(spark, home, [LakehouseTable(SPEC, home)])
    land(new_world.settings, 1, ["a,1,10,2024-01-01T00:00:00Z", "b,1,90,2024-01-01T00:00:00Z"])
    land(new_world.settings, 2, ["a,2,20,2024-01-02T00:00:00Z", "b,2,20,2024-01-02T00:00:00Z"])
    new_world.run()
    return new_world


def start_checks(world, **config):
    return run_job(world.definitions, world.instance, "run_checks", {"table": "readings", **config})


def shown_metadata(world, asset="silver_readings"):
    (event,) = world.instance.fetch_observations(dg.AssetKey(asset), limit=1).records
    return {name: value.value for name, value in event.asset_observation.metadata.items()}


def test_a_check_run_changes_nothing(world):
    cursor = world.tick().cursor
    before = logs.decisions(world.settings, "readings", evidence=True)
    result = start_checks(world)
    assert result == {"passed": 2, "failed": 2, "error": 0, "skipped": 0}
    outcomes = shown_metadata(world)
    assert (outcomes["looked_at"], outcomes["windows"], outcomes["failed"]) == ("silver", 2, 2)
    assert "far | 2024\\-01\\-01 | failed | 1 | nothing" in outcomes["not_passed"]
    assert "differ | 2024\\-01\\-02" in outcomes["not_passed"]
    assert "90.0" in outcomes["sample_far"].replace("\\", "")
    assert world.tick(cursor).total_requested == 0
    assert logs.decisions(world.settings, "readings", evidence=True) == before

    narrow = start_checks(world, checks=["far"], first="2024-01-02", last="2024-01-02", on="bronze")
    assert narrow == {"passed": 1, "failed": 0, "error": 0, "skipped": 0}
    assert shown_metadata(world)["not_passed"] == "every check passed"


def test_a_check_run_judges_published_gold(world):
    before = logs.decisions(world.settings, "gold_means", evidence=True)
    result = start_checks(world, table="gold_means")
    assert result == {"passed": 0, "failed": 1, "error": 0, "skipped": 0}
    outcomes = shown_metadata(world, "gold_means")
    assert outcomes["looked_at"] == "gold"
    assert "| whole table | failed | 1 | nothing |" in outcomes["not_passed"]
    assert logs.decisions(world.settings, "gold_means", evidence=True) == before


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"table": "nope"}, "there is no table 'nope'; there are readings"),
        ({"checks": ["nope"]}, "readings has no check nope; there are far, differ"),
        ({"table": "gold_nope"}, "there is no gold table 'gold_nope'; there are gold_means"),
        ({"table": "gold_means", "checks": ["nope"]}, "gold_means has no check nope; there are in_range_m"),
        ({"table": "gold_means", "first": "2024-01-01"}, "gold has no windows"),
        ({"first": "yesterday"}, "keys look like 2024-01-01"),
    ],
)
def test_unknown_names_are_refused(world, config, message):
    with pytest.raises(RefusedError, match=message.replace("'", ".")):
        start_checks(world, **config)
