"""Several processes of different hosts append to one log: stopped past their lease, killed, or all at once.

Belongs here: logs under leases on a local disk, without a JVM. Does not: runs of a table with Spark.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

MODULE = "lakehouse_assets_tests.storage.lease_writer"


def _start(lake: Path, host: str, table: str, first: int, count: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "LAKEHOUSE_ROOT": str(lake), "LAKEHOUSE_LOCK": "lease", "LAKEHOUSE_LEASE_SECONDS": "2"}
    command = [sys.executable, "-m", MODULE, host, table, str(first), str(count)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _rows(lake: Path) -> Counter[tuple[str, int]]:
    rows = DeltaTable(str(lake / "ops/positions")).to_pyarrow_table().to_pylist()
    return Counter((row["table"], row["number"]) for row in rows)


@pytest.mark.exhaustive(seconds=10)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_process_that_slept_past_its_lease_appends_nothing_more(tmp_path: Path, seed: int) -> None:
    former = _start(tmp_path, "host-a", "customers", 0, 100_000)
    assert former.stdout is not None
    printed = [former.stdout.readline()]
    time.sleep(random.Random(seed).uniform(0, 0.3))
    os.kill(former.pid, signal.SIGSTOP)
    try:
        following = _start(tmp_path, "host-b", "customers", 1_000_000, 3)
        output, errors = following.communicate(timeout=60)
        assert following.returncode == 0, errors
        before = _rows(tmp_path)
    finally:
        os.kill(former.pid, signal.SIGCONT)
    rest, message = former.communicate(timeout=60)
    assert former.returncode == 6, message
    assert "another process has taken over this table's lease" in message
    assert _rows(tmp_path) == before, "the former holder's commit came in after the takeover"
    acknowledged = [int(each) for each in [*printed, *rest.split(), *output.split()]]
    assert set(before.values()) == {1}
    assert {("customers", number) for number in acknowledged} <= before.keys()


def test_the_fence_alone_refuses_a_holder_that_does_not_see_the_takeover(tmp_path: Path) -> None:
    former = _start(tmp_path, "host-a-unreachable", "customers", 0, 100_000)
    assert former.stdout is not None
    former.stdout.readline()
    try:
        following = _start(tmp_path, "host-b", "customers", 0, 0)
        _, errors = following.communicate(timeout=30)
        assert following.returncode == 0, errors
        before = _rows(tmp_path)
        _, message = former.communicate(timeout=5)
    finally:
        former.kill()
    assert former.returncode == 6, message
    assert _rows(tmp_path) == before


def test_a_killed_writer_loses_no_row_that_it_acknowledged(tmp_path: Path) -> None:
    former = _start(tmp_path, "host-a", "customers", 0, 100_000)
    assert former.stdout is not None
    printed = [former.stdout.readline()]
    former.kill()
    printed += former.communicate(timeout=60)[0].split()
    following = _start(tmp_path, "host-b", "customers", 1_000_000, 3)
    assert following.communicate(timeout=60)[0].split() == ["1000000", "1000001", "1000002"]
    rows = _rows(tmp_path)
    assert set(rows.values()) == {1}
    assert {("customers", int(number)) for number in printed} <= rows.keys()


@pytest.mark.exhaustive(seconds=10)
def test_four_writers_append_to_one_log_each_row_once(tmp_path: Path) -> None:
    writers = [_start(tmp_path, f"host-{each}", f"table_{each}", 0, 25) for each in range(4)]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    assert _rows(tmp_path) == Counter({(f"table_{each}", number): 1 for each in range(4) for number in range(25)})
