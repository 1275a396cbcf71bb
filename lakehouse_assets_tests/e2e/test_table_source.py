"""A table that Spark reads, to silver: late and changed rows heal, and a table of the present only is read as snapshots.

Belongs here: whole runs, and a poll by a Spark of its own. Does not: reading and messages (sources/test_table).
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lakehouse_assets.contracts.spark_table import SparkTableSource
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import SourceError
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.sources.table_poll import start_poll
from lakehouse_assets.sources.table_scan import TableScan
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import PROJECT_ROOT, rows_of, window


def spec(mode: str = "upsert", **source) -> TableSpec:
    return TableSpec.model_validate(
        {
            "name": "orders",
            "source": {"kind": "table", **source},
            "extraction": {"cadence": "daily", "start": "2024-01-01", "end": "2024-01-05", "mode": mode},
            "key": ["id"],
            "last_modified": "at",
            "columns": {"id": "bigint", "at": "timestamp", "state": "string"},
            "checks": [{"check": "in_set", "column": "state", "values": ["new", "paid"]}],
        }
    )


def rows(*values: tuple[int, str, str]) -> str:
    return ", ".join(f"({n}, timestamp'{at}', '{state}')" for n, at, state in values)


def silver(world: World) -> dict[int, tuple[str, int]]:
    silver_rows = rows_of(world.settings.path("silver", "orders"), ["id", "state", "p_extracted_at"])
    assert len(silver_rows) == len({row["id"] for row in silver_rows})
    return {row["id"]: (row["state"], row["p_extracted_at"].day) for row in silver_rows}


@pytest.fixture
def shop(spark):
    spark.sql("CREATE SCHEMA shop_22")
    spark.sql("CREATE TABLE shop_22.orders (id bigint, at timestamp, state string) USING delta")
    yield "shop_22.orders"
    spark.sql("DROP SCHEMA shop_22 CASCADE")


@pytest.mark.exhaustive(seconds=150)
def test_rows_are_read_by_their_time_and_changes_heal(spark, shop, tmp_path):
    late = [(4, "2024-01-01 23:00", "new"), (5, "2024-01-02 01:00", "new")]
    first = [(1, "2024-01-01 05:00", "new"), (2, "2024-01-03 00:00", "new"), (3, "2024-01-03 00:00", "?")]
    spark.sql(f"INSERT INTO {shop} VALUES {rows(*first)}")
    table = spec(table=shop, modified="at", poll_minutes=0)
    world = World(spark, tmp_path, [LakehouseTable(table, tmp_path)])
    assert world.run().reported == 2, "nothing was modified on the 2nd"
    assert silver(world) == {1: ("new", 1), 2: ("new", 3)}
    spark.sql(f"INSERT INTO {shop} VALUES {rows(*late)}")
    spark.sql(f"UPDATE {shop} SET state = 'paid', at = timestamp'2024-01-04 12:00' WHERE id = 3")
    assert world.run().reported == 4
    assert silver(world) == {1: ("new", 1), 2: ("new", 3), 3: ("paid", 4), 4: ("new", 1), 5: ("new", 2)}
    assert world.run().ranges == []
    extractions = {(r.p_extracted_at.day, r.extraction_seq): r.rows for r in logs.extractions(world.settings, "orders")}
    assert extractions == {(1, 1): 1, (1, 2): 2, (2, 1): 1, (3, 1): 2, (3, 2): 1, (4, 1): 1}


@pytest.mark.exhaustive(seconds=90)
def test_snapshots_of_a_table_without_history(spark, shop, tmp_path):
    spark.sql(f"INSERT INTO {shop} VALUES {rows(*((n, '2024-01-01', 'new') for n in range(1, 6)))}")
    table = spec("snapshot", table=shop, history="none")
    world = World(spark, tmp_path, [LakehouseTable(table, tmp_path)])
    assert world.run().reported == 1, "three older windows were missed"
    assert silver(world) == dict.fromkeys(range(1, 6), ("new", 4))
    assert world.run().ranges == []
    longer = TableSpec.model_validate(
        table.model_dump(exclude_unset=True, by_alias=True)
        | {"extraction": {"cadence": "daily", "start": "2024-01-01", "end": "2024-01-06", "mode": "snapshot"}}
    )
    spark.sql(f"DELETE FROM {shop} WHERE id = 2")
    spark.sql(f"UPDATE {shop} SET state = 'paid' WHERE id = 3")
    world = World(spark, tmp_path, [LakehouseTable(longer, tmp_path)])
    assert world.run().reported == 1
    assert {n: state for n, (state, _) in silver(world).items()} == {1: "new", 3: "paid", 4: "new", 5: "new"}
    assert world.run().ranges == []


@pytest.mark.exhaustive(seconds=90)
def test_a_poll_by_a_spark_of_its_own_answers_as_this_one_does(spark, settings):
    folder = Path(settings.landing) / "theirs"
    spark.sql("SELECT id AS n, timestamp'2024-01-01 05:00:00' + make_interval(0,0,0,0,id) AS at FROM range(40)").write.orc(
        str(folder)
    )
    source = SparkTableSource.model_validate({"kind": "table", "format": "orc", "path": str(folder), "modified": "at"})
    windows = [window(1), window(2), window(3)]
    ours = TableScan(spark, source, str(folder), {}, False).numbers(windows)
    theirs = start_poll(source, str(folder), {}, settings, windows, False, None).wait()
    assert theirs == ours and sorted(theirs) == ["2024-01-01", "2024-01-02"]
    with pytest.raises(SourceError, match=r"source\.modified: there is no column 'none'; it has n, at"):
        wrong = source.model_copy(update={"modified": "none"})
        start_poll(wrong, str(folder), {}, settings, windows, False, None).wait()
    with pytest.raises(SourceError, match=r"Spark took longer than 0.2 s to start and to answer the poll"):
        start_poll(source, str(folder), {}, settings, windows, False, 0.2).wait()
    late = start_poll(source, str(folder), {}, settings, windows, False, 0.2)
    time.sleep(0.3)
    assert late.is_over(), "it is ended by whoever asks for it"
    with pytest.raises(SourceError, match=r"Spark took longer than 0.2 s"):
        late.numbers()


PROGRAM = """
import json, os, signal, sys, time
from datetime import UTC, datetime
from pyspark import SparkContext
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.pipeline.table_source import source_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import table
from lakehouse_assets.sources.base import AnswerPending
killed_at, settings, spec = sys.argv[1], Settings(**json.loads(sys.argv[2])), TableSpec.model_validate_json(sys.stdin.read())
windows = spec.extraction.windows(datetime(2024, 2, 1, tzinfo=UTC))

def kill_at(step):
    if killed_at == step:
        os.kill(os.getpid(), signal.SIGKILL)

longest, keys = 0.0, None
while keys is None:
    began = time.monotonic()
    try:
        keys = [window.key for window in source_of(spec, settings, 30).fingerprints(windows)]
    except AnswerPending:
        kill_at("asked")
    longest = max(longest, time.monotonic() - began)
    time.sleep(0.2)
    if keys is None and all(question.is_over() for question in table.QUEUE._running.values()):
        kill_at("answered")
kill_at("fetched")
again = [window.key for window in source_of(spec, settings, 30).fingerprints(windows)] == keys
print(json.dumps([keys, again, SparkContext._active_spark_context is None and SparkContext._gateway is None, longest]))
"""


def processes_that_answer(folder: Path) -> list[int]:
    """Processes of `table_poll` that were asked by a program in this folder."""
    ids = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes()
            if b"lakehouse_assets.sources.table_poll" in command and (process / "cwd").resolve() == folder.resolve():
                ids.append(int(process.name))
    return ids


@pytest.mark.exhaustive(seconds=240)
def test_a_process_that_polls_never_waits_keeps_no_java_and_may_be_killed_at_each_step(settings, spark, tmp_path):
    folder = Path(settings.landing) / "theirs"
    spark.sql("SELECT 1 AS n, timestamp'2024-01-01 05:00:00' AS at").write.orc(str(folder))
    own = json.dumps({"root": settings.root, "landing": settings.landing, "dagster_home": str(settings.dagster_home)})
    contract = spec(format="orc", path="theirs", modified="at").model_dump_json(by_alias=True)
    environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    for step in ("asked", "answered", "fetched", ""):
        process = subprocess.run(
            [sys.executable, "-c", PROGRAM, step, own], input=contract, capture_output=True, text=True, check=False,
            cwd=tmp_path, env=environment,
        )  # fmt: skip
        assert process.returncode == (-signal.SIGKILL if step else 0), process.stderr[-2000:]
    keys, again, no_java, longest = json.loads(process.stdout.splitlines()[-1])
    assert (keys, again, no_java) == (["2024-01-01"], True, True)
    assert longest < 10, "a tick has 60 s"
    deadline = time.monotonic() + 120
    while (left := processes_that_answer(tmp_path)) and time.monotonic() < deadline:
        time.sleep(1)
    assert not left, "a process that nobody waits for ends by itself"
