"""Two processes that append to one local table, each so often: nothing that was acknowledged may be lost.

Belongs here: the processes and the count. Does not: how often. ``python -m … FOLDER NAME TIMES`` is one process.
"""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from deltalake import DeltaTable

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs


def settings_of(folder: Path) -> Settings:
    """A lake under a folder."""
    return Settings(root=str(folder / "lake"), landing=str(folder), dagster_home=folder)


def write(settings: Settings, name: str, times: int) -> None:
    """Append one record each time, and say so once it is there."""
    at = datetime(2024, 1, 1, tzinfo=UTC)
    for number in range(times):
        logs.record_extractions(settings, [ExtractionRecord("t", at, number + 1, name, 1, (), 1, name, at)])
        print(number, flush=True)


def race(folder: Path, times: int) -> tuple[int, int]:
    """Two processes, ``times`` appends in all. Returns how many were acknowledged, and how many are there."""
    command = [sys.executable, "-m", "lakehouse_assets_tests.chaos.writers", str(folder)]
    both = [
        subprocess.Popen([*command, name, str(times // 2)], stdout=subprocess.PIPE, text=True) for name in ("left", "right")
    ]
    acknowledged_appends = sum(len(process.communicate(timeout=3600)[0].splitlines()) for process in both)
    assert [process.returncode for process in both] == [0, 0]
    table = DeltaTable(settings_of(folder).path("ops", "extractions"))
    rows = table.to_pyarrow_table(columns=["fingerprint", "extraction_seq"]).to_pylist()
    assert table.version() + 1 == acknowledged_appends, "each append is a version of its own"
    return acknowledged_appends, len({(row["fingerprint"], row["extraction_seq"]) for row in rows})


if __name__ == "__main__":
    write(settings_of(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3]))
