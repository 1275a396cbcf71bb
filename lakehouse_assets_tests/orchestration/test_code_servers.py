"""The launcher of code servers: a real one on loopback is asked after a run. No Spark.

Belongs here: what the launcher reports of a run. Does not: whole runs by it (e2e/test_two_homes), or workers (workers).
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._core.test_utils import create_run_for_test

from lakehouse_assets.orchestration.code_servers import CodeServerLauncher
from lakehouse_assets_tests.e2e.hosts import wait_until
from lakehouse_assets_tests.e2e.servers import free_port, process

DEFINITIONS = "import dagster as dg\n\n\n@dg.job\ndef nothing(): ...\n"


@contextmanager
def code_server(folder: Path, port: int) -> Iterator[None]:
    """A code server with one job."""
    (folder / "jobs.py").write_text(DEFINITIONS)
    program = str(Path(sys.executable).with_name("dagster"))
    command = [program, "api", "grpc", "--host", "127.0.0.1", "--port", str(port), "--python-file", str(folder / "jobs.py")]
    check = [program, "api", "grpc-health-check", "--port", str(port)]
    with process(command, folder / "log", {"DAGSTER_HOME": str(folder)}) as child:
        answers = lambda: subprocess.run(check, capture_output=True, check=False).returncode == 0  # noqa: E731
        wait_until(lambda: child.poll() is not None or answers(), 60, (folder / "log").read_text)
        assert child.poll() is None, (folder / "log").read_text()
        yield


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    launcher = {"module": CodeServerLauncher.__module__, "class": CodeServerLauncher.__name__}
    with dg.instance_for_test(temp_dir=str(tmp_path), overrides={"run_launcher": launcher}) as opened:
        assert isinstance(opened.run_launcher, CodeServerLauncher)
        assert opened.run_launcher.supports_check_run_worker_health
        yield opened


def health(instance: dg.DagsterInstance, **server: object) -> str:
    """The health of a run that this server started."""
    tags = {GRPC_INFO_TAG: json.dumps(server)} if server else {}
    run = create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED, tags=tags)
    return instance.run_launcher.check_run_worker_health(run).status.value


def test_a_run_has_failed_if_its_code_server_answers_without_it(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    port = free_port()
    with code_server(tmp_path, port):
        assert health(instance, host="127.0.0.1", port=port) == "FAILED"
    # One that does not answer may be slow. What it started may go on.
    assert health(instance, host="127.0.0.1", port=port) == "RUNNING"


def test_a_run_that_no_code_server_on_a_port_started_counts_as_running(instance: dg.DagsterInstance) -> None:
    assert health(instance) == "RUNNING"
    assert health(instance, host="localhost", socket=f"/tmp/{os.getpid()}-missing") == "RUNNING"
