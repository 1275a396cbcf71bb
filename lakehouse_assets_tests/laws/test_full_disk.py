"""A disk that is full or read-only from a step on, whichever it is: the error names it, and later the operation ends as ever.

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
from lakehouse_assets_tests.chaos.play import POINTS, run_of, run_operation, seed_source
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
    "silver_mended",
    "migrated",
    "pin_logged",
    "unpin_logged",
    "reset_logged",
    "seed_logged",
    "extractions_restored",
    "positions_restored",
    "orphans_removed",
}


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
    # A mend then removes the rows that it staged, which makes room for the rest.
    may_succeed = LAST | {"quarantine_mended"}

    def __init__(self, home: Path) -> None:
        self.filler = home.parent / "filler"

    @property
    def begun(self) -> bool:
        return self.filler.exists()

    def begin(self) -> None:
        fill(self.filler)

    def end(self) -> None:
        self.filler.unlink(missing_ok=True)


class ReadOnly:
    """Every write is refused. The lake's locks are elsewhere: a disk on which a file is open for writing cannot become so."""

    message = "Read-only file system. Make it writable"
    may_succeed = LAST

    def __init__(self, home: Path) -> None:
        self.mount_point, self.begun = home.parent, False
        locks, outside = home / "lake" / "_locks", home.parent.with_name(f"{home.parent.name}-locks")
        outside.mkdir()
        locks.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(locks, ignore_errors=True)
        locks.symlink_to(outside)

    def begin(self) -> None:
        self._mount("ro")
        self.begun = True

    def end(self) -> None:
        self._mount("rw")

    def _mount(self, mode: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{mode}", self.mount_point], check=True)


def refuse_from(point: str, ground: Ground, folder: Path, fault: type[Full | ReadOnly]) -> None:
    """Run the operation on a disk that refuses writes from a step on, then again on one that does not."""
    here = copy_lake(ground.before, folder / "home")
    if ground.operation == "seed":
        seed_source(here)  # the table of somebody else is there before
    refusing, name = fault(here.dagster_home), ground.operation

    def step(reached: str) -> None:
        if reached == point and not refusing.begun:
            refusing.begin()

    step(START)
    try:
        run_operation(run_of(ground.spark, here, step), name)
    except DiskError as error:
        assert refusing.message in str(error)
    else:
        assert point in fault.may_succeed or not refusing.begun, (
            f"{name}: nothing failed on a disk that refuses from {point} on"
        )
    refusing.end()
    ground.assert_same_end(here, f"{name}: refused from {point} on")


CASES = [(fault, name) for fault in (Full, ReadOnly) for name in POINTS]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("fault", "name"),
    [
        pytest.param(fault, name, id=f"{name}-{fault.__name__}", marks=pytest.mark.exhaustive(seconds=25 * len(POINTS[name])))
        for fault, name in CASES
    ],
)
def test_a_disk_that_refuses_writes_from_a_step_on(spark, tmp_path, fault, name):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    ground = Ground(spark, tmp_path / "ground", name, 1)
    for point in (START, *(point for point in POINTS[name] if not point.endswith("+"))):
        with disk(tmp_path / point) as folder:
            refuse_from(point, ground, folder, fault)
            shutil.rmtree(folder / "home")
