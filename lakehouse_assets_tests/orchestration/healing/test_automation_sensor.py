"""The sensor `heal_and_follow`, and gold that was overlooked: no gap in halves, no change forgotten. No JVM.

Belongs here: how conditions are evaluated. Does not: what they are (test_conditions), or the daemon itself (e2e/test_daemon).
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from dagster._core.definitions.sensor_definition import SensorType
from deltalake import write_deltalake

from lakehouse_assets.contracts.gold_rules import ruleset_hash
from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.assets.described_table import golds_of
from lakehouse_assets.orchestration.healing import automation as sensors
from lakehouse_assets.orchestration.healing.retries import plan_retries
from lakehouse_assets.orchestration.jobs.maintenance import delete_old_evaluations
from lakehouse_assets.orchestration.spark import SPARK
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.orchestration.healing.test_conditions import OWN, READINGS, SENSORS, Broken
from lakehouse_assets_tests.support import PROJECT_ROOT

MONTHS = ("2024-01-01", "2024-02-01", "2024-03-01")


def test_conditions_take_turns_with_the_watcher(settings, monkeypatch):
    """Evaluated beside it, they would see half of what it reports. What that leads to: e2e/test_daemon."""
    tables = [LakehouseTable(spec, Path("nowhere")) for spec in (READINGS, SENSORS)]
    definitions = build_definitions(settings, tables)
    assert definitions.resolve_sensor_def("heal_and_follow").sensor_type is SensorType.AUTOMATION
    assert yaml.safe_load((PROJECT_ROOT / "dagster.yaml").read_text())["sensors"] == {"use_threads": False}
    # As many as Dagster counts; it refuses more.
    graph = definitions.resolve_asset_graph()
    conditioned = [key for key in graph.get_all_asset_keys() | graph.asset_check_keys if graph.get(key).automation_condition]
    monkeypatch.setattr(sensors, "MAX_CONDITIONS", len(conditioned))
    assert build_definitions(settings, tables).resolve_sensor_def("heal_and_follow").sensor_type is SensorType.AUTOMATION
    monkeypatch.setattr(sensors, "MAX_CONDITIONS", len(conditioned) - 1)
    assert build_definitions(settings, tables).resolve_sensor_def("heal_and_follow").sensor_type is SensorType.AUTO_MATERIALIZE


def test_it_is_evaluated_as_a_sensor(settings):
    """A whole tick: what was missing is asked for as one range, and not again."""
    definitions = build_definitions(settings, [LakehouseTable(SENSORS, Path("nowhere"))], {SPARK: Broken()})
    sensor = definitions.resolve_sensor_def("heal_and_follow")
    with dg.DagsterInstance.ephemeral() as instance:
        for month in MONTHS:
            instance.report_runless_asset_event(dg.AssetMaterialization("source_sensors", partition=month))
        repository = definitions.get_repository_def()
        context = dg.build_sensor_context(instance, repository_def=repository)
        first = sensor.evaluate_tick(context)
        assert len(first.run_requests) == 1
        assert requested_windows(first.run_requests) == {name: set(MONTHS) for name in OWN}
        again = sensor.evaluate_tick(dg.build_sensor_context(instance, cursor=first.cursor, repository_def=repository))
        assert not again.run_requests


def requested_windows(requests) -> dict[str, set[str]]:
    """What these requests ask for, by asset."""
    requested: dict[str, set[str]] = {}
    for request in requests:
        first = request.tags.get("dagster/asset_partition_range_start", request.partition_key)
        last = request.tags.get("dagster/asset_partition_range_end", first)
        keys = {month for month in MONTHS if first <= month <= last}
        assert ("dagster/partition" in request.tags) is (request.partition_key is not None)
        for key in request.asset_selection:
            requested.setdefault(key.to_user_string(), set()).update(keys)
    return requested


class Daemon:
    """The sensor on an instance. ``cursor``: what Dagster has kept of it."""

    def __init__(self, settings, instance) -> None:
        self.instance, self.cursor = instance, None
        definitions = build_definitions(settings, [LakehouseTable(SENSORS, Path("nowhere"))], {SPARK: Broken()})
        self.repository = definitions.get_repository_def()

    def tick(self, *, keeps: bool = True) -> dict[str, set[str]]:
        """What is asked for, by asset. Unless ``keeps``, the tick was not carried out."""
        context = dg.build_sensor_context(self.instance, cursor=self.cursor, repository_def=self.repository)
        result = self.repository.get_sensor_def("heal_and_follow").evaluate_tick(context)
        self.cursor = result.cursor if keeps else self.cursor
        return requested_windows(result.run_requests or ())

    def report(self, *names: str, months=MONTHS) -> None:
        for name in names:
            for month in months:
                self.instance.report_runless_asset_event(dg.AssetMaterialization(name, partition=month))


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as new_instance:
        yield new_instance


def test_a_change_is_not_forgotten_with_the_cursor(settings, instance):
    """Dagster keeps none of a tick whose runs it has asked for in a second go."""
    daemon = Daemon(settings, instance)
    daemon.report("source_sensors", *sorted(OWN))
    assert daemon.tick() == {}
    daemon.report("source_sensors", months=MONTHS[:1])
    assert daemon.tick() == {name: {MONTHS[0]} for name in OWN}
    daemon.cursor = None
    daemon.report(*sorted(OWN), months=MONTHS[:1])
    daemon.report("source_sensors", months=MONTHS[1:2])
    assert daemon.tick() == {name: {MONTHS[1]} for name in OWN}
    assert daemon.tick() == {}


def test_a_first_tick_that_was_not_carried_out_is_evaluated_again(settings, instance):
    daemon = Daemon(settings, instance)
    daemon.report("source_sensors")
    everything = {name: set(MONTHS) for name in OWN}
    assert daemon.tick(keeps=False) == everything
    assert daemon.tick() == everything
    assert daemon.tick() == {}


def test_each_lake_has_a_cursor_of_its_own(settings, instance):
    daemon, other = Daemon(settings, instance), Daemon(settings.model_copy(update={"root": "/elsewhere"}), instance)
    daemon.report("source_sensors")
    assert len(daemon.tick()) == 3
    daemon.tick()
    assert len(other.tick()) == 3, "what the one has asked for is not what the other has"


def test_condition_evaluations_are_stored_for_a_week(tmp_path, monkeypatch):
    with dg.DagsterInstance.local_temp(str(tmp_path)) as real:
        purged = []
        monkeypatch.setattr(real.schedule_storage, "purge_asset_evaluations", purged.append)
        now = datetime(2024, 6, 30, tzinfo=UTC)
        delete_old_evaluations(real, now)
        assert purged == [(now - timedelta(days=7)).timestamp()]
    with dg.DagsterInstance.ephemeral() as without:
        delete_old_evaluations(without, now)


def test_stale_gold_is_requested(settings, instance, tmp_path):
    """An input changed while gold was derived: its condition takes the end of that run for an answer to it."""
    (tmp_path / "joined.sql").write_text("select sensor, count(*) as n from silver_readings group by sensor")
    gold = {"name": "joined", "sql": "joined.sql", "key": ["sensor"]}
    spec = READINGS.model_validate({**READINGS.model_dump(by_alias=True), "checks": [], "gold": [gold]})
    table = LakehouseTable(spec, tmp_path)
    query = golds_of([table])["joined"]
    golds, hour = [(spec.gold[0], query)], datetime(2024, 6, 1, tzinfo=UTC)

    def look(later: int, cursor: str | None = None):
        plan = plan_retries(instance, settings, [spec], cursor, hour + timedelta(hours=later), golds)
        return [(request.asset_selection, request.run_key) for request in plan.requests], plan.cursor

    assert look(0)[0] == [], "nothing is published that it could be made of"
    silver, rows = settings.path("silver", "readings"), pa.table({"sensor": ["a"]})
    write_deltalake(silver, rows)
    inputs = {"silver_readings": 0}
    decision = logbook.decided(1, "gold_joined", ruleset_hash=ruleset_hash(*golds[0]), inputs=inputs)
    logbook.write(settings, [decision])
    for _ in range(decision.number + 2):  # up to the version of the mark
        write_deltalake(settings.path("gold", "joined"), rows, mode="append")
    instance.report_runless_asset_event(dg.AssetMaterialization("gold_joined"))
    none, cursor = look(1)
    assert none == []
    write_deltalake(silver, rows, mode="append")
    assert look(1, cursor)[0] == [], "once an hour"
    first, cursor = look(2, cursor)
    assert [selection for selection, _ in first] == [[dg.AssetKey("gold_joined")]]
    assert look(3, cursor)[0] == first, "the same key: Dagster runs it once"
    job = build_definitions(settings, [table]).resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(
        job,
        asset_selection=frozenset(map(dg.AssetKey, ("silver_readings", "baseline_readings"))),
        status=dg.DagsterRunStatus.STARTED,
    )
    assert look(4)[0] == [], "its input is on its way"
    instance.report_run_failed(run)
    assert look(5)[0] == first
    write_deltalake(settings.path("gold", "joined"), rows, mode="append")
    logbook.write(
        settings, [logbook.decided(2, "gold_joined", ruleset_hash=decision.ruleset_hash, inputs={"silver_readings": 1})]
    )
    assert look(6)[0] == []
