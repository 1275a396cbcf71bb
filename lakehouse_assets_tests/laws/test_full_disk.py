"""A disk that is full from a step on, whichever it is: the error names it, and later the operation ends as ever.

Belongs here: a real disk, which only root can make. Does not: two steps of it for everybody (test_refused_writes), which
errors are a disk's (storage/test_disk_errors).
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakehouse_assets.errors import DiskError
from lakehouse_assets_tests.chaos.play import NOT_PLAYED, POINTS, run_of, run_operation
from lakehouse_assets_tests.chaos.strike import Ground
from lakehouse_assets_tests.support import copy_lake

SIZE, PAGE = 24 << 20, 4096
START = "start"
# Steps after which nothing is written, or nothing that must be: the operation may still succeed.
LAST = {
    "results_done",
    "mark_applied_done",
    "silver_vacuumed",
    "quarantine_vacuumed",
    "silver_rebuilt",
    "migrated",
    "pin_logged",
    "seed_logged",
}
OPERATIONS = ("run", "release", "discard", "rejudge", "maintain", "rebuild", "migrate", "seed", "pin")


@contextmanager
def disk(folder: Path) -> Iterator[Path]:
    """A small disk of its own at a folder."""
    folder.mkdir()
    process = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], capture_output=True, check=False)
    if process.returncode:
        pytest.skip("only root can mount a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(filler: Path) -> None:
    """Leave no page of the disk."""
    with filler.open("wb", buffering=0) as file:
        size = 1 << 20
        while size >= PAGE:
            try:
                if file.write(b"x" * size) == size:
                    continue
            except OSError:
                pass
            size //= 2


class Full:
    """No page is left."""

    message = "No space left on device. Make room"

    def __init__(self, home: Path) -> None:
        self.filler = home.parent / "filler"

    @property
    def begun(self) -> bool:
        return self.filler.exists()

    def begin(self) -> None:
        fill(self.filler)

    def end(self) -> None:
        self.filler.unlink(missing_ok=True)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.exhaustive(seconds=20 * len(POINTS[name])))
        for name in OPERATIONS
        if name not in NOT_PLAYED
    ],
)
def test_a_disk_that_refuses_writes_from_a_step_on(spark, tmp_path, name):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    ground = Ground(spark, tmp_path / "ground", name, 1)
    for point in (START, *(point for point in POINTS[name] if not point.endswith("+"))):
        with disk(tmp_path / point) as folder:
            here = copy_lake(ground.before, folder / "home")
            refusing = Full(here.dagster_home)

            def step(reached: str, point: str = point, refusing: Full = refusing) -> None:
                if reached == point and not refusing.begun:
                    refusing.begin()

            step(START)
            try:
                run_operation(run_of(spark, here, step), name)
            except DiskError as error:
                assert refusing.message in str(error)
            else:
                assert point in LAST or not refusing.begun, f"{name}: nothing failed on a disk that refuses from {point} on"
            refusing.end()
            ground.assert_same_end(here, f"{name}: refused from {point} on")
            shutil.rmtree(here.dagster_home)
