"""Ctrl-C on `lakehouse stream`: the first finishes the window that is under way, the second ends the process at once.

Belongs here: signals to the command and its Java, on a folder of files. Does not: SIGTERM, SIGKILL (test_stream_service).
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


class Shop:
    """A project whose one table is a stream of a folder, with a file whose window takes minutes."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([LAKEHOUSE, "new", "shop"], cwd=folder, check=True, capture_output=True)
        self.project, self.log = folder / "shop", folder / "stream.log"
        self.environment = {**os.environ, "LAKEHOUSE_PROJECT": str(self.project), "DAGSTER_HOME": str(self.project)}
        self.settings = Settings.from_environment(self.environment)
        write_table(self.project, slow=SLOW)
        landed = Path(self.settings.landing) / "readings" / "a.csv"
        landed.parent.mkdir(parents=True)
        landed.write_text("id,number\n" + "".join(f"{n},1\n" for n in range(ROWS)))

    def start(self) -> subprocess.Popen:
        with self.log.open("a") as output:
            command = [LAKEHOUSE, "stream"]
            return subprocess.Popen(command, env=self.environment, cwd=self.project, stdout=output, stderr=output)

    def wait_until(self, is_so: Callable[[], object], seconds: float = 150) -> None:
        wait_until(is_so, self.log, seconds)

    def wait_for_window(self) -> None:
        """Until a window is under way that takes minutes: its rows are cast."""
        self.wait_until(lambda: delta.exists(self.settings.path("bronze", "readings")))
        time.sleep(3)

    def wait_for_silver(self) -> None:
        self.wait_until(lambda: delta.exists(self.settings.path("silver", "readings")) and silver(self.settings))


@pytest.fixture
def shop(tmp_path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.exhaustive(seconds=60)
def test_a_second_ctrl_c_ends_at_once_and_the_next_start_finishes_the_window(shop):
    process = shop.start()
    try:
        shop.wait_for_window()
        java = children(process.pid)
        assert java or not sys.platform.startswith("linux")
        process.send_signal(signal.SIGINT)
        shop.wait_until(lambda: "the window under way is finished first" in shop.log.read_text(), 10)
        time.sleep(3)
        assert process.poll() is None, shop.log.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130, shop.log.read_text()
        shop.wait_until(lambda: not any(pid.exists() for pid in java), 10)
    finally:
        process.kill()
    [recorded] = read_positions(shop.settings, "readings")

    write_table(shop.project)
    process = shop.start()
    try:
        shop.wait_for_silver()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, shop.log.read_text()
    finally:
        process.kill()
    assert silver(shop.settings) == ROWS
    assert [*read_positions(shop.settings, "readings")] == [recorded]


@pytest.mark.exhaustive(seconds=60)
def test_a_java_that_dies_in_a_window_is_replaced_and_the_same_process_finishes_the_window(shop):
    """As by the machine's memory manager, which kills the largest process."""
    process = shop.start()
    try:
        shop.wait_for_window()
        java = children(process.pid)
        if not java:
            pytest.skip("the children of a process are not known here")
        write_table(shop.project)
        for each in java:
            os.kill(int(each.name), signal.SIGKILL)
        shop.wait_for_silver()
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, shop.log.read_text()
    finally:
        process.kill()
    assert "Java has ended: the service starts again" in shop.log.read_text()
    assert silver(shop.settings) == ROWS
    assert len(read_positions(shop.settings, "readings")) == 1


def silver(settings: Settings) -> int:
    return len({row["id"] for row in rows_of(settings.path("silver", "readings"), ["id"])})
