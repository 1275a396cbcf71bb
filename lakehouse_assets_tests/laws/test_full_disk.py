"""A disk that is full from a step on, whichever it is: the error names it, and with room the act ends as ever.

Belongs here: a real full disk, which only root can make. Does not: two steps of it for everybody (test_refused_writes), which
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
from lakehouse_assets_tests.chaos.play import POINTS, act, run_of
from lakehouse_assets_tests.chaos.strike import Ground, copied

SIZE, PAGE = 24 << 20, 4096
START = "start"
# Ecdf after which nothing is written, or nothing that must be: an act may then end well.
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
ACTS = ("run", "release", "discard", "rejudge", "maintain", "rebuild", "migrate", "seed", "pin")


@contextmanager
def disk(place: Path) -> Iterator[Path]:
    """A small disk of its own at a folder."""
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", place], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("only root can mount a disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


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


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.exhaustive(seconds=20 * len(POINTS[name]))) for name in ACTS]
)
def test_a_disk_that_is_full_from_a_step_on(spark, tmp_path, name):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    ground = Ground(spark, tmp_path / "ground", name, 1)
    for point in (START, *(point for point in POINTS[name] if not point.endswith("+"))):
        with disk(tmp_path / point) as place:
            here = copied(ground.before, place / "home")
            filler = place / "filler"

            def step(reached: str, point: str = point, filler: Path = filler) -> None:
                if reached == point and not filler.exists():
                    fill(filler)

            step(START)
            try:
                act(run_of(spark, here, step), name)
            except DiskError as error:
                assert "No space left on device. Make room" in str(error)
            else:
                assert point in LAST or not filler.exists(), f"{name}: nothing failed on a disk that is full from {point} on"
            filler.unlink(missing_ok=True)
            ground.ends_as_ever(here, f"{name}: full from {point} on")
            shutil.rmtree(here.dagster_home)
