"""Ten thousand rows by four processes to one log on an S3 server, ten rows a commit: all there, once.

Belongs here: the logs' own commits, in great number. Does not: a store that fails (test_failing_store), or a disk
(storage/test_several_writers).
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse_assets.object_store import ObjectStore
from lakehouse_assets_tests.e2e.store_proxy import store_behind_proxy

WRITERS, ROWS, ROWS_PER_COMMIT = 4, 2500, 10
MODULE = "lakehouse_assets_tests.storage.lease_writer"


@pytest.mark.exhaustive(seconds=420)
@pytest.mark.timeout(3600)
def test_ten_thousand_rows_of_four_processes_are_there_once(tmp_path: Path) -> None:
    with store_behind_proxy(tmp_path) as proxy:
        environment = {**os.environ, **proxy.variables, "LAKEHOUSE_ROOT": "s3a://lake/lake"}
        writers = []
        for each in range(WRITERS):
            numbers = ["0", str(ROWS), str(ROWS_PER_COMMIT)]
            command = [sys.executable, "-m", MODULE, f"host-{each}", f"table_{each}", *numbers]
            writers.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        outputs = [writer.communicate(timeout=3000)[0] for writer in writers]
        assert [writer.returncode for writer in writers] == [0] * WRITERS
        assert [output.split() for output in outputs] == [[str(number) for number in range(ROWS)]] * WRITERS
        log = DeltaTable("s3a://lake/lake/ops/positions", storage_options=ObjectStore.from_environment().options("s3a://lake"))
        rows = log.to_pyarrow_table().to_pylist()
        expected = Counter((f"table_{each}", number) for each in range(WRITERS) for number in range(ROWS))
        assert Counter((row["table"], row["number"]) for row in rows) == expected
        commits = WRITERS * ROWS // ROWS_PER_COMMIT
        assert log.version() == commits, "each append is a version of its own"
        attempts = [r for r in proxy.requests if r.method == "PUT" and "_delta_log/0" in r.path and r.path.endswith(".json")]
        assert len(attempts) > 1.2 * commits, "the writers do not meet"
        print(f"{len(rows)} rows in {commits} commits, {len(attempts)} conditional requests, {len(proxy.requests)} in all")
