"""Ctrl-C on `lakehouse stream`: the first finishes the window that is under way, the second ends the process at once.

Belongs here: signals to the command, on a folder of files. Does not: SIGTERM, SIGKILL and brokers (test_stream_service).
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from lakehouse_assets.cli.stream import FINISHING
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.source_positions import read_positions
from lakehouse_assets_tests.support import rows_of

LAKEHOUSE = str(Path(sys.executable).parent / "lakehouse")
# Of so many rows, a minute at least.
SLOW, ROWS = "aggregate(sequence(1, 10000), value, (a, x) -> (a + x) % 7)", 200_000


def write_table(project: Path, **columns: str) -> None:
    """``columns``: beside `id`, each with its expression over the column `number` of the files."""
    attributes = {
        "name": "readings",
        "description": "Readings in a folder.",
        "source": {"kind": "files", "path": "readings/*.csv", "format": "csv"},
        "extraction": {"cadence": "hourly", "start": "2024-05-01", "mode": "append", "stream": {}},
        "columns": {"id": "bigint"} | {n: {"type": "int", "from": "number", "expr": e} for n, e in columns.items()},
    }
    folder = project / "src" / "shop" / "defs" / "readings"
    folder.mkdir(exist_ok=True)
    (folder / "defs.yaml").write_text(yaml.safe_dump({"type": "lakehouse_assets.LakehouseTable", "attributes": attributes}))


def wait_until(is_so: Callable[[], object], log: Path, seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline and "error:" not in log.read_text(), log.read_text()
        time.sleep(0.2)


def children(pid: int) -> list[Path]:
    """The folders in /proc of a process's children."""
    folders = Path("/proc").glob("[0-9]*")
    return [folder for folder in folders if (folder / "stat").read_text().rpartition(")")[2].split()[1] == str(pid)]


WAITING = """
import threading
from lakehouse_assets.cli.stream import _ending_by_signal

stopping = threading.Event()
with _ending_by_signal(stopping):
    print("serving", flush=True)
    stopping.wait()
    print("finishing", flush=True)
    threading.Event().wait()
"""


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_only_a_second_signal_that_is_ctrl_c_ends_at_once(first):
    """Without Spark."""
    process = subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout and process.stdout.readline() == "serving\n"
        process.send_signal(first)
        assert process.stdout.readline() == "finishing\n"
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode == 130
    assert errors == FINISHING.decode()


@pytest.mark.exhaustive(seconds=60)
def test_a_second_ctrl_c_ends_at_once_and_the_next_start_finishes_the_window(tmp_path):
    subprocess.run([LAKEHOUSE, "new", "shop"], cwd=tmp_path, check=True, capture_output=True)
    project, log = tmp_path / "shop", tmp_path / "stream.log"
    environment = {**os.environ, "LAKEHOUSE_PROJECT": str(project), "DAGSTER_HOME": str(project)}
    settings = Settings.from_environment(environment)
    write_table(project, slow=SLOW)
    landed = Path(settings.landing) / "readings" / "a.csv"
    landed.parent.mkdir(parents=True)
    landed.write_text("id,number\n" + "".join(f"{n},1\n" for n in range(ROWS)))

    def start() -> subprocess.Popen:
        with log.open("a") as output:
            return subprocess.Popen([LAKEHOUSE, "stream"], env=environment, cwd=project, stdout=output, stderr=output)

    process = start()
    try:
        wait_until(lambda: delta.exists(settings.path("bronze", "readings")), log)
        time.sleep(3)  # its rows are cast now, which takes minutes
        java = children(process.pid)
        assert java or not sys.platform.startswith("linux")
        process.send_signal(signal.SIGINT)
        wait_until(lambda: "the window under way is finished first" in log.read_text(), log, 10)
        time.sleep(3)
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130, log.read_text()
        wait_until(lambda: not any(pid.exists() for pid in java), log, 10)
    finally:
        process.kill()
    [recorded] = read_positions(settings, "readings")

    write_table(project)
    process = start()
    try:
        wait_until(lambda: delta.exists(settings.path("silver", "readings")) and silver(settings), log)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
    assert silver(settings) == ROWS
    assert [*read_positions(settings, "readings")] == [recorded]


def silver(settings: Settings) -> int:
    return len({row["id"] for row in rows_of(settings.path("silver", "readings"), ["id"])})
