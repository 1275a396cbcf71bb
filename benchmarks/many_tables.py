"""Many small tables, hour after hour, on warm workers: processor seconds of a window, and the memory of everything.

    python -m benchmarks.many_tables [TABLES] [HOURS] [ROWS]

Each hour one file a table lands, and `lakehouse run` takes them all. A line of JSON for each hour: the seconds of the
command, the processor seconds of a window (of the command, the workers and their JVMs together), and the most memory that
all of them held. It compares nothing.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

LAKEHOUSE = str(Path(sys.executable).with_name("lakehouse"))
START = datetime(2024, 1, 1, tzinfo=UTC)
TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class ProcessWatch:
    """Looks twice a second at each process with this environment variable. ``megabytes``: the peak of their resident sizes."""

    def __init__(self, variable: str) -> None:
        self.megabytes = 0
        self._variable = variable.encode()
        self._seconds: dict[tuple[str, str], float] = {}
        self._stop = threading.Event()

    @property
    def seconds(self) -> float:
        """Processor seconds of all of them, ended ones too, up to the last look at each."""
        return sum(dict(self._seconds).values())

    @contextmanager
    def watching(self) -> Iterator["ProcessWatch"]:
        """Look while the block lasts."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            resident = 0
            for folder in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):  # it has just ended, or is another user's
                    if self._variable in (folder / "environ").read_bytes().split(b"\0"):
                        resident += self._look(folder)
            self.megabytes = max(self.megabytes, resident >> 20)

    def _look(self, folder: Path) -> int:
        """Note the process's time; return its bytes."""
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        user, system, start = int(fields[11]), int(fields[12]), fields[19]
        self._seconds[folder.name, start] = (user + system) / TICKS
        return int((folder / "statm").read_text().split()[1]) * PAGE


def table(number: int) -> dict[str, Any]:
    """Return the document of a table: six columns, six checks, one drift feature."""
    name = f"readings_{number:02}"
    return {
        "name": name,
        "source": {
            "kind": "files", "path": name + "/{window:%Y-%m-%dT%H}.csv", "format": "csv", "settled": "rename",
        },
        "extraction": {"cadence": "hourly", "start": f"{START:%Y-%m-%d}", "mode": "upsert"},
        "key": ["id"],
        "last_modified": "at",
        "columns": {"id": "bigint", "at": "timestamp", "site": "string", **dict.fromkeys("abc", "double")},
        "checks": [
            {"check": "not_empty"},
            {"check": "not_null", "column": "site"},
            {"check": "in_set", "column": "site", "values": ["north", "south"]},
            *({"check": "in_range", "column": column, "min": -100, "max": 100} for column in "abc"),
        ],
        "drift": {"features": ["a"]},
    }  # fmt: skip


def land(landing: Path, number: int, hour: int, rows: int) -> None:
    """Write a table's file of an hour beside its place, and rename it; a tenth of its keys the hour before had."""
    rng, start = np.random.default_rng([number, hour]), START + timedelta(hours=hour)
    folder, first = landing / f"readings_{number:02}", hour * rows * 9 // 10
    lines = ["id,at,site,a,b,c"]
    for i, values in enumerate(np.round(rng.normal(20, 3, (rows, 3)), 3)):
        at = start + timedelta(seconds=3600 * i / rows)
        lines.append(f"{first + i},{at:%Y-%m-%dT%H:%M:%SZ},{('north', 'south')[i % 2]}," + ",".join(map(str, values)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".new").write_text("\n".join(lines) + "\n")
    (folder / ".new").rename(folder / f"{start:%Y-%m-%dT%H}.csv")


def main(tables: int, hours: int, rows: int) -> None:
    """Make the project, start a worker and play the hours."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "shop")
        _command(Path(folder), dict(os.environ), "new", "shop")
        for number in range(tables):
            document = {"type": "lakehouse_assets.LakehouseTable", "attributes": table(number)}
            path = home / "src/shop/defs" / f"readings_{number:02}" / "defs.yaml"
            path.parent.mkdir()
            path.write_text(yaml.safe_dump(document, sort_keys=False))
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("LAKEHOUSE_", "DAGSTER_"))}
        environment = inherited | {"LAKEHOUSE_PROJECT": str(home), "DAGSTER_HOME": str(home)}
        settings = Settings.from_environment(environment)
        with ProcessWatch(f"DAGSTER_HOME={home}").watching() as watch:
            _command(home, environment, "worker", "start")
            try:
                for hour in range(hours):
                    _play(watch, settings, home, environment, (tables, hour, rows))
            finally:
                _command(home, environment, "worker", "stop", "--now")


def _play(
    watch: ProcessWatch, settings: Settings, home: Path, environment: dict[str, str], sizes: tuple[int, int, int]
) -> None:
    tables, hour, rows = sizes
    for number in range(tables):
        land(Path(settings.landing), number, hour, rows)
    began, before = time.monotonic(), watch.seconds
    watch.megabytes = 0
    _command(home, environment, "run")
    seconds = time.monotonic() - began
    time.sleep(1)  # a last look at the worker
    accepted = sum(
        decision.accepted for number in range(tables) for decision in logs.decisions(settings, f"readings_{number:02}")
    )
    if accepted != tables * (hour + 1):
        raise AssertionError(f"hour {hour}: {accepted} windows accepted, {tables * (hour + 1)} expected")
    line = {
        "hour": hour,
        "seconds": round(seconds, 1),
        "processor_seconds_of_a_window": round((watch.seconds - before) / tables, 2),
        "megabytes": watch.megabytes,
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _command(folder: Path, environment: dict[str, str], *arguments: str) -> None:
    ended = subprocess.run([LAKEHOUSE, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise AssertionError(f"{arguments} ended with {ended.returncode}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")


if __name__ == "__main__":
    chosen = [int(text) for text in sys.argv[1:]]
    main(*[*chosen, *(40, 24, 200)[len(chosen) :]])
