"""Two hosts share one history in PostgreSQL and one lake under leases: the processes of `deploy/`, on loopback, with runs.

Belongs here: that runs take turns across hosts, that a command of another host ingests nothing twice, and that the run of a
code server that died is done again. Does not: images and containers, which are not run here, or one process (storage).
"""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest
import yaml

from lakehouse_assets.decisions import ledger
from lakehouse_assets.orchestration.healing.ranges import range_tags
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.e2e.hosts import Host, kill, wait_until
from lakehouse_assets_tests.e2e.servers import postgres_server
from lakehouse_assets_tests.orchestration.test_postgres_storage import variables
from lakehouse_assets_tests.orchestration.workers.project import FINISHED, TABLE
from lakehouse_assets_tests.support import FOR_THREE_ROWS, SHORT_LIVED, land, readings, rows_of, window

LAYERS = ("bronze", "silver", "baseline")
TABLES = ("readings", "others")
EXTRACTION = {**TABLE["extraction"], "end": "2024-01-10"}
LOST = "the code server that started it was restarted"


def write_project(folder: Path) -> None:
    """A project with two tables of the same files."""
    for name in TABLES:
        (folder / "tables" / name).mkdir(parents=True)
        document = {"type": "lakehouse_assets.LakehouseTable", "attributes": {"name": name, **TABLE, "extraction": EXTRACTION}}
        (folder / "tables" / name / "defs.yaml").write_text(yaml.safe_dump(document))
    keys = {"tables": "tables", "executor": "in_process", "spark_conf": "spark.conf", "spark_master": "local[2]"}
    (folder / "pyproject.toml").write_text("[tool.lakehouse]\n" + "".join(f'{k} = "{v}"\n' for k, v in keys.items()))
    (folder / "spark.conf").write_text(f"spark.sql.shuffle.partitions 2\n{FOR_THREE_ROWS}{SHORT_LIVED}")


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Host, Host]]:
    """Two hosts whose processes share a database, a lake and a landing folder."""
    write_project(tmp_path / "project")
    for name in [name for name in os.environ if name.startswith(("LAKEHOUSE_", "DAGSTER_"))]:
        monkeypatch.delenv(name)
    with postgres_server() as server:
        shared = {
            **variables(server),
            "LAKEHOUSE_PROJECT": str(tmp_path / "project"),
            "LAKEHOUSE_ROOT": str(tmp_path / "lake"),
            "LAKEHOUSE_LANDING": str(tmp_path / "landing"),
            "LAKEHOUSE_LOCK": "lease",
            "LAKEHOUSE_LEASE_SECONDS": "5",
            "LAKEHOUSE_PAGES_REFRESH": "off",
        }
        for name, value in shared.items():
            monkeypatch.setenv(name, value)
        yield Host(tmp_path / "a", "host-a", shared), Host(tmp_path / "b", "host-b", shared)


def decided(settings: Settings, table: str) -> list[tuple[int, int]]:
    """Day and extraction of each current decision that was applied."""
    current = ledger.current_decisions(logs.decisions(settings, table)).values()
    return sorted((each.p_extracted_at.day, each.extraction_seq) for each in current if each.applied_at and each.p_extracted_at)


def silver_values(settings: Settings, table: str) -> list[tuple[str, float]]:
    return [(row["sensor"], row["value"]) for row in rows_of(settings.path("silver", table), ["sensor", "value"])]


def leaseholders(settings: Settings, table: str) -> set[str]:
    """The hosts that held the table's lease lately."""
    texts = [path.read_text() for path in Path(settings.path("_leases", table)).glob("*.json")]
    return set(re.findall(r'"host": "(host-\w)', "".join(texts)))


def log_ends(*hosts: Host) -> str:
    return "\n".join(f"{log}\n{log.read_text()[-2000:]}" for host in hosts for log in host.folder.glob("*.log"))


def started(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    return list(instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])))


def starting(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Those whose process is not there yet. Run monitoring gives them three minutes, whatever becomes of their server."""
    before = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING]
    return list(instance.get_runs(dg.RunsFilter(statuses=before)))


@pytest.mark.exhaustive(seconds=400)
@pytest.mark.timeout(1800)
def test_two_homes_share_a_history_and_a_lake(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    settings = Settings.from_environment()
    for day in (1, 2):
        land(settings, day, [f"s{day},1,{day},2024-01-0{day}T01:00:00Z"])
    with ExitStack() as stack:
        code = stack.enter_context(first.start("code"))
        stack.enter_context(first.start("daemon"))
        stack.enter_context(second.start("code"))
        stack.enter_context(second.start("webserver"))
        instance = stack.enter_context(dg.DagsterInstance.from_config(str(second.home)))

        def idle() -> bool:
            return all(run.status in FINISHED for run in instance.get_runs())

        def is_ingested(*days: tuple[int, int]) -> bool:
            return all(decided(settings, table) == list(days) for table in TABLES) and idle()

        # The sensors of the one daemon request both tables, and its code server runs them.
        wait_until(lambda: is_ingested((1, 1), (2, 1)), 400, lambda: log_ends(*hosts))
        assert {run.status for run in instance.get_runs()} == {dg.DagsterRunStatus.SUCCESS}

        # Runs that the second host requests wait in the queue of the first, one at a time for a table.
        requested = [
            second.request(
                [f"{layer}_{table}" for layer in ("bronze", "silver", "baseline")], range_tags(readings(), [window(1)])
            )
            for _ in range(2)
            for table in TABLES
        ]
        # A command of the second host ingests beside them.
        land(settings, 3, ["s3,1,3,2024-01-03T01:00:00Z"])
        command = second.execute(["lakehouse", "run", "--table", "readings"])
        assert command.returncode == 0, command.stderr
        assert leaseholders(settings, "readings") == {"host-a", "host-b"}
        wait_until(lambda: is_ingested((1, 1), (2, 1), (3, 1)), 400, lambda: log_ends(*hosts))
        records = [record for run_id in requested if (record := instance.get_run_record_by_id(run_id))]
        assert {record.dagster_run.status for record in records} == {dg.DagsterRunStatus.SUCCESS}
        for number in range(len(TABLES)):
            turns = sorted((record.start_time or 0, record.end_time or 0) for record in records[number :: len(TABLES)])
            assert all(0 < end <= start for (_, end), (start, _) in pairwise(turns)), turns

        # The code server dies with a run, and another one answers on its port.
        land(settings, 4, ["s4,1,4,2024-01-04T01:00:00Z"])
        wait_until(lambda: bool(started(instance)) and not starting(instance), 120, lambda: log_ends(*hosts))
        kill(code)
        lost = started(instance)
        assert lost
        stack.enter_context(first.start("code"))
        wait_until(lambda: is_ingested((1, 1), (2, 1), (3, 1), (4, 1)), 400, lambda: log_ends(*hosts))
        for run in lost:
            assert [each.status for each in instance.get_runs(dg.RunsFilter([run.run_id]))] == [dg.DagsterRunStatus.FAILURE]
            assert LOST in str([entry.message for entry in instance.all_logs(run.run_id)])
            again = instance.get_runs(dg.RunsFilter(tags={"dagster/parent_run_id": run.run_id}))
            assert [each.status for each in again] == [dg.DagsterRunStatus.SUCCESS]
    for table in TABLES:
        assert silver_values(settings, table) == [(f"s{day}", float(day)) for day in (1, 2, 3, 4)]
