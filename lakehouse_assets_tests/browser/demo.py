"""A small demo and a `dagster dev` over it: a lake of its own, a child in a process group of its own, and its end.

The demo itself runs in the tests' process, whose Spark is there already.

Belongs here: what has to be there before a browser opens. Does not: anything about pages (`ui`).
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.orchestration.workers.pool import WorkerPool
from lakehouse_assets_tests.e2e.servers import free_port
from lakehouse_assets_tests.support import FOR_THREE_ROWS, PROJECT_ROOT, SHORT_LIVED

sys.path.insert(0, str(PROJECT_ROOT / "scripts"))
from land_example import EXAMPLES, land

# The example's year up to the end of its fault. The windows since FIRST are enough for drift to quarantine what it finds.
FIRST, LAST = "2013-05-25", "2013-09-12"
ONE_BAD_ROW = "2013-02-12"
FAULTY = ["2013-09-09", "2013-09-10", "2013-09-11", "2013-09-12"]


def land_weather(landing: Path, first: str = FIRST) -> int:
    """Land the weather's files from ``first`` to LAST, the late days too, and the day with one bad row. Returns how many."""
    target = landing / "weather"
    target.mkdir(parents=True)
    files = [file for part in ("on_time", "late") for file in (EXAMPLES / "weather" / part).glob("*.csv")]
    return sum(land(file, target / file.name) for file in files if first <= file.stem <= LAST or file.stem == ONE_BAD_ROW)


def environment(home: Path) -> dict[str, str]:
    """The variables of a lake below ``home``, with its own Dagster storage."""
    ours = (PROJECT_ROOT / "dagster.yaml").read_text()
    assert "data/dagster" in ours
    (home / "dagster.yaml").write_text(ours.replace("data/dagster", str(home / "dagster")))
    (home / "spark.conf").write_text(SHORT_LIVED + FOR_THREE_ROWS)
    return {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "LAKEHOUSE_SPARK_CONF": str(home / "spark.conf"),
        "LAKEHOUSE_ROOT": str(home / "lake"),
        "LAKEHOUSE_LANDING": str(home / "landing"),
        "LAKEHOUSE_SPARK_MASTER": "local[2]",
    }


def run_once(variables: dict[str, str]) -> None:
    """`lakehouse run`, on the tests' Spark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(PROJECT_ROOT)
        for name, value in variables.items():
            patch.setenv(name, value)
        result = CliRunner().invoke(cli.app, ["run", "--table", "weather"])
    assert result.exit_code == 0, result.output


def members(group: int) -> list[str]:
    """The living processes of a group; one that has ended and waits to be collected is not."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [row[-1] for row in rows if row[0] == str(group) and not row[1].startswith("Z")]


def wait(true, seconds: float) -> bool:
    """Ask until it is true; whether it became so."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.25)
    return True


def answers(url: str) -> bool:
    """Whether Dagster's web server is there."""
    try:
        with urllib.request.urlopen(f"{url}/server_info", timeout=5) as response:
            return "dagster_version" in json.load(response)
    except OSError:
        return False


@contextmanager
def dagster_dev(variables: dict[str, str], log: Path) -> Iterator[str]:
    """`make dev` on a free port: its address. At the end it is asked to stop, and none of its processes may be left: its
    workers end after their runs.
    """
    workers = WorkerPool(Path(variables["DAGSTER_HOME"]) / "dagster" / "workers", 0)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, str(PROJECT_ROOT / "scripts" / "dev.py"), "--port", str(port)]
    with log.open("w") as output:
        child = subprocess.Popen(
            command, env=variables, cwd=PROJECT_ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        assert wait(lambda: answers(url) or child.poll() is not None, 300), f"no answer from {url}: {log.read_text()}"
        assert child.poll() is None, log.read_text()
        yield url
        child.terminate()
        assert wait(lambda: child.poll() is not None and not members(child.pid), 180), members(child.pid)
        assert wait(lambda: not any(worker.is_alive() for worker in workers.workers()), 180), "a worker stays"
    finally:
        for worker in workers.workers():
            worker.kill()
        if members(child.pid):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(timeout=30)
