"""Dagster's storage in PostgreSQL, on a real server: the same bars of checks, and one history for several DAGSTER_HOMEs.

Belongs here: what the storage stores and shows, from several hosts. Does not: the bars in SQLite (test_dagster_storage).
"""

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from threading import Barrier, Event

import dagster as dg
import pytest
import yaml
from dagster._core.storage.event_log.base import EventLogStorage
from dagster._core.test_utils import create_run_for_test
from dagster_postgres import PostgresEventLogStorage
from sqlalchemy.exc import OperationalError

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.orchestration import postgres_storage
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.assets.partitions import partitions_of
from lakehouse_assets.orchestration.postgres_storage import LakehousePostgresEventLogStorage, LakehousePostgresStorage
from lakehouse_assets_tests.e2e.servers import Database, postgres_server
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.orchestration.test_dagster_storage import DAYS, HOURS, materialization, result, shown, store
from lakehouse_assets_tests.support import PROJECT_ROOT, land, readings

STORAGE = {"module": LakehousePostgresStorage.__module__, "class": LakehousePostgresStorage.__name__}
SILVER = dg.AssetKey("silver_readings")
PACKAGE = PROJECT_ROOT / "lakehouse_assets"


def write_home(home: Path, storage: dict | None = None) -> Path:
    """A DAGSTER_HOME of its own whose history is in PostgreSQL: only the variables say where."""
    names = {"hostname": "HOST", "port": "PORT", "username": "USER", "password": "PASSWORD", "db_name": "DB"}
    database = {"postgres_db": {key: {"env": f"DAGSTER_PG_{name}"} for key, name in names.items()}}
    home.mkdir(exist_ok=True)
    pools = {"runs": {"max_concurrent_runs": 2}, "pools": {"granularity": "run", "default_limit": 1}}
    configuration = {"storage": storage or {"custom": {**STORAGE, "config": database}}, "concurrency": pools}
    (home / "dagster.yaml").write_text(yaml.safe_dump({**configuration, "telemetry": {"enabled": False}}))
    return home


def variables(server: Database) -> dict[str, str]:
    """The environment of each host."""
    values = {
        "HOST": "127.0.0.1",
        "PORT": str(server.port),
        "USER": server.user,
        "PASSWORD": server.password,
        "DB": server.name,
    }
    return {f"DAGSTER_PG_{name}": value for name, value in values.items()}


@pytest.fixture(scope="module")
def server():
    with postgres_server() as started, pytest.MonkeyPatch.context() as patch:
        for name, value in variables(started).items():
            patch.setenv(name, value)
        yield started


@pytest.fixture(scope="module")
def home(server, tmp_path_factory) -> Path:
    return write_home(tmp_path_factory.mktemp("host") / "one")


@pytest.fixture(scope="module")
def instance(home):
    with dg.DagsterInstance.from_config(str(home)) as opened:
        yield opened


@pytest.fixture
def silver(request):
    """An asset of the test's own."""
    return dg.AssetKey(request.node.name)


def python(home: Path, code: str) -> subprocess.Popen[str]:
    """A process of another host: with a DAGSTER_HOME and a folder of its own."""
    environment = {**os.environ, "DAGSTER_HOME": str(home), "PYTHONPATH": str(PROJECT_ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=home, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_the_bars_are_those_of_dagsters_own_storage(instance, silver, tmp_path):
    days, statuses = DAYS.get_partition_keys()[:12], ("SUCCEEDED", "FAILED", "PLANNED")
    runs = [create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED).run_id for _ in range(3)]
    store(instance, [materialization(silver, day) for day in days[:9]], [])
    ids = instance.event_log_storage.get_latest_storage_id_by_partition(silver, dg.DagsterEventType.ASSET_MATERIALIZATION)
    # Older rows first; some judged an older materialization, or none.
    rows = [
        result(silver, "a", day, runs[turn], statuses[(number + turn) % 3], 10 * turn + number, ids.get(day) if turn else None)
        for turn in range(3)
        for number, day in enumerate([*days, "2030-01-01"])
    ]
    store(instance, [], rows)
    key, storage = dg.AssetCheckKey(silver, "a"), instance.event_log_storage
    expected, actual = (
        get(storage, [(key, DAYS)]) for get in (EventLogStorage.get_asset_check_state, type(storage).get_asset_check_state)
    )
    assert shown(actual, key) == shown(expected, key)
    assert len(shown(actual, key)["counts"]) >= 3

    own = {"postgres": instance.get_ref().storage_data.config_dict}
    with dg.DagsterInstance.from_config(str(write_home(tmp_path / "own", own))) as other:
        assert type(other.event_log_storage) is PostgresEventLogStorage
        assert shown(other.event_log_storage.get_asset_check_state([(key, DAYS)]), key) == shown(expected, key)


def test_a_year_of_hours_is_shown_in_time(instance, silver):
    hours = HOURS.get_partition_keys()
    store(instance, [materialization(silver, hour) for hour in hours], [])
    ids = instance.event_log_storage.get_latest_storage_id_by_partition(silver, dg.DagsterEventType.ASSET_MATERIALIZATION)
    status = ["FAILED", *["SUCCEEDED"] * 6]
    store(instance, [], [result(silver, "a", hour, "r", status[n % 7], n + 1, ids[hour]) for n, hour in enumerate(hours)])
    started = time.process_time()
    state = instance.event_log_storage.get_asset_check_state([(dg.AssetCheckKey(silver, "a"), HOURS)])
    assert time.process_time() - started < 3
    assert sum(len(each.subset_value) for each in next(iter(state.values())).subsets.values()) == len(hours)


def test_an_instance_of_another_process_has_the_same_storage(instance, home):
    """A run's process gets the instance as a text, without the password."""
    text = dg.serialize_value(instance.get_ref())
    assert Database.password not in text
    with dg.DagsterInstance.from_ref(dg.deserialize_value(text)) as other:
        assert isinstance(other.event_log_storage, LakehousePostgresEventLogStorage)
        assert other.run_storage.get_runs() == instance.run_storage.get_runs()


def test_without_the_extra_the_error_names_it(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "dagster_postgres", None)
    monkeypatch.delitem(sys.modules, LakehousePostgresStorage.__module__)
    with pytest.raises(EnvironmentMissing, match="extra `postgres`"), dg.DagsterInstance.from_config(str(home)):
        pass


def test_only_the_storage_itself_imports_the_extra():
    files = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    named = [name for name, text in files.items() if re.search(r"import.*(dagster_postgres|postgres_storage)", text)]
    named += [name for name, text in files.items() if re.search(r"^ *from \S*(dagster_postgres|postgres_storage)", text, re.M)]
    assert set(named) == {"orchestration/postgres_storage.py"}


def test_a_run_on_one_host_is_shown_on_the_other(spark, instance, tmp_path):
    ends = {"cadence": "daily", "start": "2024-01-01", "end": "2024-01-03", "mode": "upsert"}
    checks = [{"check": "in_range", "column": "value", "min": -100, "max": 100, "on_fail": "quarantine_batch"}]
    world = World(spark, tmp_path, [LakehouseTable(readings(extraction=ends, checks=checks), tmp_path)])
    world.instance = instance
    land(world.settings, 1, ["a,1,10,2024-01-01T00:00:00Z"])
    land(world.settings, 2, ["a,2,555,2024-01-02T00:00:00Z"])
    world.run()
    with dg.DagsterInstance.from_config(str(write_home(tmp_path / "other"))) as other:
        key, partitions = dg.AssetCheckKey(SILVER, "in_range_value"), partitions_of(world.tables[0].spec.extraction)
        state = other.event_log_storage.get_asset_check_state([(key, partitions)])[key]
        bar = {p: status.value for status, each in state.subsets.items() for p in each.subset_value.get_partition_keys()}
        assert bar == {"2024-01-01": "SUCCEEDED", "2024-01-02": "FAILED"}
        runs = [run for run in other.get_runs() if SILVER in (run.asset_selection or ())]
        assert [run.status for run in runs] == [dg.DagsterRunStatus.SUCCESS]
        assert other.get_latest_data_version_record(dg.AssetKey("source_readings"), partition_key="2024-01-01") is not None
        # Nothing is left to do for it: what one host has ingested is not ingested again.
        before = len(other.get_runs())
        world.instance = other
        world.run()
        assert len(other.get_runs()) == before


def test_one_connection_stays_and_a_lost_one_is_opened_anew(server, instance, tmp_path):
    mine = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    with dg.DagsterInstance.from_config(str(write_home(tmp_path / "same"))) as other:
        for each in (instance, other):
            for _ in range(3):
                each.report_runless_asset_event(dg.AssetMaterialization("connected"))
        assert server.run(f"SELECT count(*) {mine}") == [(1,)]
    instance.report_runless_asset_event(dg.AssetMaterialization("connected"))
    assert server.run(f"SELECT count(*) {mine}") == [(1,)]
    server.run(f"SELECT pg_terminate_backend(pid) {mine}")
    instance.report_runless_asset_event(dg.AssetMaterialization("connected"))
    assert len(instance.fetch_materializations(dg.AssetKey("connected"), limit=100).records) == 8


def test_times_are_those_of_utc_on_a_server_of_another_zone(server, tmp_path, monkeypatch):
    """The database sets the time of a run's creation. Dagster reads it as UTC, and failed tries are counted by it."""
    server.run("CREATE DATABASE elsewhere")
    server.run("ALTER DATABASE elsewhere SET timezone = 'Asia/Tokyo'")
    monkeypatch.setenv("DAGSTER_PG_DB", "elsewhere")
    with dg.DagsterInstance.from_config(str(write_home(tmp_path / "zone"))) as instance:
        create_run_for_test(instance)
        instance.optimize_for_webserver(statement_timeout=1000, pool_recycle=60, max_overflow=1)
        create_run_for_test(instance)
        created = [record.create_timestamp.replace(tzinfo=UTC) for record in instance.get_run_records()]
    assert [abs(datetime.now(UTC) - at) < timedelta(minutes=5) for at in created] == [True, True]


def test_a_slot_is_claimed_once(instance):
    """By threads, each with a connection of its own. Dagster's storage lets several have the slot."""
    storage = instance.event_log_storage
    storage.set_concurrency_slots("table_claimed", 1)
    with ThreadPoolExecutor(8) as threads:
        for turn in range(20):
            ready = Barrier(8, timeout=60)

            def claim(number: int, turn: int = turn, ready: Barrier = ready) -> bool:
                ready.wait()
                return storage.claim_concurrency_slot("table_claimed", f"{turn}-{number}", "step").is_claimed

            runs = [f"{turn}-{number}" for number, is_claimed in enumerate(threads.map(claim, range(8))) if is_claimed]
            assert len(runs) == 1
            for number in range(8):
                storage.free_concurrency_slots_for_run(f"{turn}-{number}")


def test_a_host_that_stops_loses_the_lock_of_the_pools(instance, monkeypatch):
    monkeypatch.setattr(postgres_storage, "POOLS_LOCK_SECONDS", 1)
    storage, went_on = instance.event_log_storage, Event()

    def stop() -> None:
        with pytest.raises(OperationalError), storage._lock_pools():
            has_lock.set()
            assert went_on.wait(60)

    has_lock = Event()
    with ThreadPoolExecutor(1) as threads:
        stopped = threads.submit(stop)
        assert has_lock.wait(60)
        storage.set_concurrency_slots("table_stopped", 1)
        went_on.set()
        stopped.result(60)
    assert storage.get_concurrency_info("table_stopped").slot_count == 1


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_pool_follows_a_changed_default(home, tmp_path, limit):
    pool = f"table_default_{limit}"
    changed = yaml.safe_load((home / "dagster.yaml").read_text())
    changed["concurrency"]["pools"]["default_limit"] = limit
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(changed))
    for folder, expected in ((home, 1), (home, 1), (tmp_path, limit), (home, 1)):
        with dg.DagsterInstance.from_config(str(folder)) as opened:
            storage = opened.event_log_storage
            assert storage.initialize_concurrency_limit_to_default(pool)
            assert [each.limit for each in storage.get_pool_limits() if each.name == pool] == [expected]
            assert storage.get_concurrency_info(pool).slot_count == expected


CLAIM = """
import dagster as dg, time
from contextlib import suppress
from sqlalchemy.exc import IntegrityError
with dg.DagsterInstance.get() as instance:
    storage = instance.event_log_storage
    with suppress(IntegrityError):  # Another host has just set them. No host of ours sets a pool's slots by itself.
        storage.set_concurrency_slots("table_readings", 1)
    for number in range(5):
        run = f"{NAME}"
        while not storage.claim_concurrency_slot("table_readings", run, "step").is_claimed:
            time.sleep(0.01)
        print(time.time(), end=" ")
        time.sleep(0.03)
        print(time.time())
        storage.free_concurrency_slot_for_step(run, "step")
"""


def test_hosts_that_start_at_once_take_turns_in_a_tables_pool(server, tmp_path, monkeypatch):
    """On an empty database. A slot of a pool is claimed there: at most one of three hosts has it at a time."""
    server.run("CREATE DATABASE empty")
    monkeypatch.setenv("DAGSTER_PG_DB", "empty")
    processes = [python(write_home(tmp_path / name), CLAIM.replace("{NAME}", name + "{number}")) for name in "abc"]
    answers = [process.communicate(timeout=200) for process in processes]
    turns = sorted(tuple(map(float, line.split())) for out, _ in answers for line in out.splitlines())
    assert len(turns) == 15, answers
    assert all(end <= start for (_, end), (start, _) in pairwise(turns))
