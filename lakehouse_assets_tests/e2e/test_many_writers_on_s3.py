"""Rows of four processes in one log on S3, all there, once: ten thousand in a thousand commits on moto, and as many commits as
`--commits` says on a fake.

Belongs here: the logs' own commits, in great number. Does not: a store that fails (test_failing_store), or a disk
(storage/test_several_writers).
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse_assets.object_store import ObjectStore
from lakehouse_assets_tests.e2e.gcs_fake import fake_in_its_own_process
from lakehouse_assets_tests.e2e.store_proxy import store_behind_proxy, variables_of

WRITERS, ROWS = 4, 2500
MODULE = "lakehouse_assets_tests.storage.lease_writer"
LAKE = "s3a://lake/lake"


def append_rows(variables: Mapping[str, str], rows: int, rows_per_commit: int) -> None:
    """Let four processes append so many rows each at once. Raises AssertionError unless each acknowledges all of them."""
    environment = {**os.environ, **variables, "LAKEHOUSE_ROOT": LAKE}
    writers = []
    for each in range(WRITERS):
        numbers = ["0", str(rows), str(rows_per_commit)]
        command = [sys.executable, "-m", MODULE, f"host-{each}", f"table_{each}", *numbers]
        writers.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [writer.communicate(timeout=6000)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * WRITERS
    assert [output.split() for output in outputs] == [[str(number) for number in range(rows)]] * WRITERS


def assert_each_row_once(count: int, commits: int) -> None:
    """Raise AssertionError unless the log has each row once, and a version for each append."""
    log = DeltaTable(f"{LAKE}/ops/positions", storage_options=ObjectStore.from_environment().options(LAKE))
    rows = log.to_pyarrow_table().to_pylist()
    expected = Counter((f"table_{each}", number) for each in range(WRITERS) for number in range(count))
    assert Counter((row["table"], row["number"]) for row in rows) == expected
    assert log.version() == commits, "each append is a version of its own"


@pytest.mark.exhaustive(seconds=420)
@pytest.mark.timeout(3600)
def test_ten_thousand_rows_of_four_processes_are_there_once(tmp_path: Path) -> None:
    with store_behind_proxy(tmp_path) as proxy:
        append_rows(proxy.variables, ROWS, 10)
        commits = WRITERS * ROWS // 10
        assert_each_row_once(ROWS, commits)
        attempts = [r for r in proxy.requests if r.method == "PUT" and "_delta_log/0" in r.path and r.path.endswith(".json")]
        assert len(attempts) > 1.2 * commits, "the writers do not meet"
        print(f"{WRITERS * ROWS} rows in {commits} commits, {len(attempts)} conditional requests, {len(proxy.requests)} in all")


@pytest.mark.exhaustive(seconds=300)
@pytest.mark.timeout(7200)
def test_many_commits_of_four_processes_are_there_once(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    """On a fake of the tests: moto looks at all objects for each listing."""
    begun, rows = time.monotonic(), int(pytestconfig.getoption("--commits")) // WRITERS
    with fake_in_its_own_process() as (address, child):
        for name, value in variables_of(address).items():
            monkeypatch.setenv(name, value)
        append_rows({}, rows, 1)
        seconds = time.monotonic() - begun
        assert_each_row_once(rows, WRITERS * rows)
        assert child.stdin and child.stdout
        child.stdin.close()
        refused = int(child.stdout.read().split()[0])
        assert refused > 0.1 * WRITERS * rows, "the writers do not meet"
        print(f"{WRITERS * rows} commits in {seconds:.0f} s, {refused} refused and tried again")
