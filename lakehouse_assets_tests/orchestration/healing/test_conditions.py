"""When Dagster asks for a window of a table whose checks look into another one. Evaluated, not run: no JVM.

Belongs here: the wiring of conditions between tables. Does not: one table's healing (e2e), or what a run does.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.healing.foreground import order_by_reference
from lakehouse_assets.orchestration.spark import SPARK
from lakehouse_assets_tests.e2e.world import keys
from lakehouse_assets_tests.support import readings

SENSORS = readings(
    name="sensors",
    source={"kind": "files", "path": "sensors/{window:%Y-%m}.csv", "format": "csv"},
    extraction={"cadence": "monthly", "start": "2024-01-01", "end": "2024-04-01", "mode": "snapshot"},
    key=["id"],
    last_modified=None,
    columns={"id": "string"},
    checks=[],
)
READINGS = readings(
    extraction={"cadence": "daily", "start": "2024-01-01", "end": "2024-03-01", "mode": "upsert"},
    checks=[{"check": "foreign_key", "columns": ["sensor"], "table": "sensors", "to": ["id"]}],
)
OWN = {"bronze_sensors", "silver_sensors", "baseline_sensors"}


class Broken(dg.ConfigurableResource):
    """A Spark that cannot start."""

    @property
    def spark_session(self):
        raise RuntimeError("no JVM here")


class Clockwork:
    """Definitions on an instance, ticked by hand; what a run would have done is reported by name."""

    def __init__(self, settings, specs=(READINGS, SENSORS), folder: Path = Path("nowhere")) -> None:
        tables = [LakehouseTable(spec, folder) for spec in specs]
        self.definitions = build_definitions(settings, tables, {SPARK: Broken()})
        self.instance = dg.DagsterInstance.ephemeral()
        self.cursor = None

    def tick(self, later: timedelta = timedelta()) -> dict[str, set[str]]:
        now = datetime.now(UTC) + later
        result = dg.evaluate_automation_conditions(self.definitions, self.instance, cursor=self.cursor, evaluation_time=now)
        self.cursor = result.cursor
        return keys(result)

    def report(self, names: set[str] | list[str], partition: str) -> None:
        for name in names:
            self.instance.report_runless_asset_event(dg.AssetMaterialization(name, partition=partition))


def of(names, partition: str) -> dict[str, set[str]]:
    return {name: {partition} for name in names}


@pytest.fixture
def clockwork(settings):
    return Clockwork(settings)


def test_a_table_waits_for_its_reference_tables(clockwork):
    clockwork.report(["source_sensors"], "2024-01-01")
    clockwork.report(["source_readings"], "2024-02-07")
    assert clockwork.tick() == {**of(OWN, "2024-01-01"), "bronze_readings": {"2024-02-07"}}
    clockwork.report(["bronze_readings"], "2024-02-07")
    clockwork.report(["bronze_sensors"], "2024-01-01")
    assert clockwork.tick() == {}, "bronze_sensors is there, its silver not yet: it still goes first"
    clockwork.report(["silver_sensors", "baseline_sensors"], "2024-01-01")
    assert clockwork.tick() == of(["silver_readings", "baseline_readings"], "2024-02-07")


def test_it_does_not_wait_for_windows_that_never_arrive_and_is_not_judged_again_for_new_ones(clockwork):
    clockwork.report(["source_sensors", *OWN], "2024-01-01")
    clockwork.tick()
    clockwork.report(["source_readings"], "2024-02-07")
    requested = clockwork.tick()
    assert requested == of(["bronze_readings", "silver_readings", "baseline_readings"], "2024-02-07")
    clockwork.report(list(requested), "2024-02-07")
    assert clockwork.tick() == {}
    clockwork.report(["source_sensors"], "2024-02-01")
    assert clockwork.tick() == of(OWN, "2024-02-01")
    clockwork.report(OWN, "2024-02-01")
    assert clockwork.tick() == {}, "sensors changed; readings that were judged stay judged"


def test_a_failing_table_delays_no_other(clockwork):
    clockwork.report(["source_sensors"], "2024-01-01")
    clockwork.report(["source_readings"], "2024-02-07")
    clockwork.tick()
    clockwork.report(["bronze_readings"], "2024-02-07")
    assert clockwork.tick() == {}, "sensors goes first"
    job = clockwork.definitions.resolve_implicit_global_asset_job_def()
    execution = job.execute_in_process(
        instance=clockwork.instance,
        asset_selection=[dg.AssetKey("bronze_sensors")],
        partition_key="2024-01-01",
        raise_on_error=False,
    )
    assert not execution.success
    assert clockwork.tick() == of(["silver_readings", "baseline_readings"], "2024-02-07")


def test_gold_waits_until_each_of_its_inputs_has_something(settings, tmp_path):
    (tmp_path / "joined.sql").write_text(
        "select r.sensor, count(*) as n from silver_readings r join silver_sensors s on s.id = r.sensor group by r.sensor"
    )
    gold = {"name": "joined", "sql": "joined.sql", "key": ["sensor"]}
    spec = READINGS.model_validate({**READINGS.model_dump(by_alias=True), "gold": [gold]})
    clockwork = Clockwork(settings, (spec, SENSORS), tmp_path)
    clockwork.report(["source_sensors", *OWN], "2024-01-01")
    assert clockwork.tick() == {}, "silver_readings has no window yet"
    assert clockwork.tick() == {}
    clockwork.report(["source_readings", "bronze_readings", "silver_readings", "baseline_readings"], "2024-02-07")
    assert clockwork.tick() == {"gold_joined": {""}}
    clockwork.instance.report_runless_asset_event(dg.AssetMaterialization("gold_joined"))
    assert clockwork.tick() == {}
    clockwork.report(OWN, "2024-01-01")
    assert clockwork.tick() == {"gold_joined": {""}}


def test_a_changed_window_whose_run_failed_is_left_to_the_sensor_until_it_changes_again(clockwork):
    """It is not missing, so that it is the failed run alone that tells. When it is tried again: test_retries."""
    clockwork.report(["source_sensors", *OWN], "2024-01-01")
    clockwork.tick()
    clockwork.report(["source_sensors"], "2024-01-01")
    assert clockwork.tick() == of(OWN, "2024-01-01")
    job = clockwork.definitions.resolve_implicit_global_asset_job_def()
    execution = job.execute_in_process(
        instance=clockwork.instance,
        asset_selection=[dg.AssetKey(name) for name in OWN],
        partition_key="2024-01-01",
        raise_on_error=False,
    )
    assert not execution.success
    assert clockwork.tick(timedelta(minutes=1)) == {}
    assert clockwork.tick(timedelta(hours=7)) == {}
    clockwork.report(["source_sensors"], "2024-01-01")
    assert clockwork.tick(timedelta(hours=7, minutes=1)) == of(OWN, "2024-01-01")
    assert clockwork.tick(timedelta(hours=14)) == {}


def test_the_order_of_a_command(settings):
    tables = [LakehouseTable(spec, Path("nowhere")) for spec in (READINGS, SENSORS)]
    assert [table.spec.name for table in order_by_reference(tables)] == ["sensors", "readings"]
    assert [table.spec.name for table in order_by_reference(tables[:1])] == ["readings"]


def test_runs_at_once_never_write_one_table(clockwork):
    """One pool per table, of one run at a time, whatever asset of it is written."""
    graph = clockwork.definitions.resolve_asset_graph()
    pools = {key.to_user_string(): graph.get(key).pools for key in graph.executable_asset_keys}
    assert pools["bronze_readings"] == pools["silver_readings"] == pools["baseline_readings"] == {"table_readings"}
    assert pools["silver_sensors"] == {"table_sensors"}
