"""The storage that computes the bars of checks in one pass: the same bars as Dagster's own, soon enough for a page.

Belongs here: states from rows that tests store directly. Does not: which rows runs store (test_window_checks).
"""

import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.events import DagsterEvent
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log.base import EventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.test_utils import create_run_for_test

from lakehouse_assets.orchestration.dagster_storage import LakehouseEventLogStorage, LakehouseStorage
from lakehouse_assets_tests.support import PROJECT_ROOT

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-03-01")
HOURS = dg.HourlyPartitionsDefinition("2013-01-01-00:00", end_date="2014-01-01-00:00")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    (home / "dagster.yaml").write_text(
        (PROJECT_ROOT / "dagster.yaml").read_text().replace("data/dagster", str(home / "dagster"))
    )
    return home


@pytest.fixture(scope="module")
def instance(home):
    with dg.DagsterInstance.from_config(str(home)) as opened:
        yield opened


@pytest.fixture
def silver(request):
    """An asset of the test's own."""
    return dg.AssetKey(request.node.name)


def materialization(asset: dg.AssetKey, partition: str | None) -> dict:
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION.value
    values = {"run_id": "r", "event": "{}", "dagster_event_type": kind, "timestamp": NOW, "step_key": "s"}
    return {**values, "asset_key": asset.to_string(), "partition": partition}


def result(
    asset: dg.AssetKey, check: str, partition: str | None, run: str, status: str, event: int | None, target: int | None
) -> dict:
    values = {"asset_key": asset.to_string(), "check_name": check, "partition": partition, "run_id": run}
    values |= {"evaluation_event": "{}", "evaluation_event_timestamp": NOW, "execution_status": status}
    return {**values, "evaluation_event_storage_id": event, "materialization_event_storage_id": target}


def store(instance: dg.DagsterInstance, events: list[dict], results: list[dict]) -> None:
    storage: Any = instance.event_log_storage
    with storage.index_transaction() as connection:
        for table, rows in ((SqlEventLogStorageTable, events), (AssetCheckExecutionsTable, results)):
            if rows:
                connection.execute(table.insert(), rows)


def shown(states: Mapping, key: dg.AssetCheckKey) -> dict:
    """What a page asks of a state: each status's windows of time, and the partitions that are running."""
    subsets = {status: each.subset_value for status, each in states[key].subsets.items() if not each.is_empty}
    running = {run: sorted(each.subset_value.get_partition_keys()) for run, each in states[key].in_progress_runs.items()}
    return {
        "windows": {status: list(subset.included_time_windows) for status, subset in subsets.items()},
        "counts": {status: len(subset) for status, subset in subsets.items()},
        "ranges": {status: subset.get_partition_key_ranges(DAYS) for status, subset in subsets.items()},
        "running": {run: keys for run, keys in running.items() if keys},
    }


@pytest.mark.parametrize("seed", range(4))
def test_the_bars_are_those_of_dagster(instance, silver, seed):
    draw, status = random.Random(seed), dg.DagsterRunStatus
    statuses = [status.STARTED, status.CANCELING, status.SUCCESS, status.FAILURE, status.CANCELED]
    runs = [create_run_for_test(instance, status=draw.choice(statuses)).run_id for _ in range(12)]
    days = [*DAYS.get_partition_keys()[: 20 if seed else 0], "2023-12-31", "2030-01-01", "no day"]
    materialized = [draw.choice(days) for _ in range(30)] + ([None] if seed == 3 else [])
    store(instance, [materialization(silver, day) for day in materialized], [])
    ids = dict(instance.event_log_storage.get_latest_storage_id_by_partition(silver, dg.DagsterEventType.ASSET_MATERIALIZATION))
    rows = {}
    for number in range(150):
        check, day, run = draw.choice("abc"), draw.choice([*days, None]), draw.choice(runs)
        # One row for each check, run and partition. Its target: the partition's last materialization, an older one or none.
        status = draw.choice(["PLANNED", "SUCCEEDED", "SUCCEEDED", "FAILED"])
        target = None if status == "PLANNED" else draw.choice([ids.get(day)] * 5 + [1, None])
        event = None if status == "PLANNED" and number % 9 == 0 else 1000 + number
        rows[check, day, run] = result(silver, check, day, run, status, event, target)
    store(instance, [], draw.sample(list(rows.values()), len(rows)))
    keys = [(dg.AssetCheckKey(silver, check), DAYS) for check in "abcd"]
    storage = instance.event_log_storage
    assert isinstance(storage, LakehouseEventLogStorage)
    # Dagster reads one row of each partition, so that its way, which adds row to row, is right from an empty state.
    expected, actual = EventLogStorage.get_asset_check_state(storage, keys), storage.get_asset_check_state(keys)
    for key, _ in keys:
        assert shown(actual, key) == shown(expected, key)
    assert (seed == 0) == all(not shown(actual, key)["windows"] for key, _ in keys)


def test_other_partitions_are_left_to_dagster(instance, silver):
    store(instance, [], [result(silver, "a", part, "r", "SUCCEEDED", 1, None) for part in ("x", None)])
    key = dg.AssetCheckKey(silver, "a")
    weekdays = dg.TimeWindowPartitionsDefinition(
        start="2024-01-01", fmt="%Y-%m-%d", cron_schedule="0 0 * * *", exclusions=["0 0 * * 0"], end="2024-03-01"
    )
    for partitions in (dg.StaticPartitionsDefinition(["x", "y"]), None, weekdays):
        storage = instance.event_log_storage
        assert storage.get_asset_check_state([(key, partitions)]) == EventLogStorage.get_asset_check_state(
            storage, [(key, partitions)]
        )


def test_plans_of_a_run_that_was_deleted_are_skipped(instance, silver):
    """The sweep deletes old runs that materialized nothing."""
    run = create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED).run_id
    store(instance, [], [result(silver, "a", "2024-01-01", run, "PLANNED", 1, None)])
    key = (dg.AssetCheckKey(silver, "a"), DAYS)

    def statuses() -> set[str]:
        return {status.value for status in shown(instance.event_log_storage.get_asset_check_state([key]), key[0])["counts"]}

    assert statuses() == {"IN_PROGRESS"}
    instance.delete_run(run)
    assert statuses() == {"SKIPPED"}


@pytest.mark.parametrize("keys", [None, DAYS.get_partition_keys()])
def test_planned_partitions_are_stored_as_dagster_stores_them(instance, silver, keys):
    subset = None if keys is None else DAYS.subset_with_partition_keys(keys).to_serializable_subset()
    planned = AssetCheckEvaluationPlanned(asset_key=silver, check_name="a", partitions_subset=subset)
    kind, storage = dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value, instance.event_log_storage
    event = DagsterEvent(kind, "job", step_key="s", event_specific_data=planned, message="planned")

    def rows(store, run: str) -> list[dict]:
        store(EventLogEntry(None, 10, "", run, NOW.timestamp(), step_key="s", job_name="job", dagster_event=event), 7)
        query = AssetCheckExecutionsTable.select().where(AssetCheckExecutionsTable.c.run_id == run)
        with storage.index_connection() as connection:
            stored = [dict(row) for row in connection.execute(query).mappings()]
        for row in stored:
            row["evaluation_event"] = row["evaluation_event"].replace(run, "run")
        return [
            {name: value for name, value in row.items() if name not in ("id", "run_id", "create_timestamp")} for row in stored
        ]

    run = str(uuid4())
    expected = rows(partial(SqlEventLogStorage._store_asset_check_evaluation_planned, storage), run)
    assert rows(storage._store_asset_check_evaluation_planned, str(uuid4())) == expected
    assert len(expected) == (1 if keys is None else len(keys))


def test_a_year_of_hours_is_shown_in_time(instance, silver):
    """Dagster's own way takes 12 s if all windows are green, and 49 s if one in seven is red."""
    hours = HOURS.get_partition_keys()
    store(instance, [materialization(silver, hour) for hour in hours], [])
    ids = instance.event_log_storage.get_latest_storage_id_by_partition(silver, dg.DagsterEventType.ASSET_MATERIALIZATION)
    results = [
        result(silver, "a", hour, f"{index // 300}", "FAILED" if index % 7 == 0 else "SUCCEEDED", 10_000 + index, ids[hour])
        for index, hour in enumerate(hours)
    ]
    store(instance, [], results)
    started = time.process_time()
    state = instance.event_log_storage.get_asset_check_state([(dg.AssetCheckKey(silver, "a"), HOURS)])
    [subsets] = [state[key].subsets for key in state]
    ranges = [range_ for each in subsets.values() for range_ in each.subset_value.get_partition_key_ranges(HOURS)]
    assert time.process_time() - started < 3
    assert sum(len(each.subset_value) for each in subsets.values()) == len(hours) == 8760
    assert len(ranges) == 2 * 1252


def test_dagsters_own_storage_and_ours_read_the_same_files(home, instance, silver, tmp_path):
    ours = yaml.safe_load((home / "dagster.yaml").read_text())["storage"]["custom"]
    assert ours["class"] == LakehouseStorage.__name__
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump({"storage": {"sqlite": ours["config"]}}))
    key = (dg.AssetCheckKey(silver, "a"), DAYS)
    with dg.DagsterInstance.from_config(str(tmp_path)) as own:
        assert not isinstance(own.event_log_storage, LakehouseEventLogStorage)
        store(own, [materialization(silver, "2024-01-01")], [result(silver, "a", "2024-01-01", "r", "FAILED", 2, None)])
        store(instance, [], [result(silver, "a", "2024-01-02", "r", "SUCCEEDED", 3, None)])
        states = [each.event_log_storage.get_asset_check_state([key]) for each in (own, instance)]
    assert shown(states[0], key[0]) == shown(states[1], key[0])
    assert sum(shown(states[0], key[0])["counts"].values()) == 1
