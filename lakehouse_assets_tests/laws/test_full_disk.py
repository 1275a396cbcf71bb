"""No room left in the middle of a run: it fails and says so, and once there is room it ends as if there had always been.

Belongs here: writes that are refused by the system, of Python and of Java. Does not: processes that are killed (test_kill).
"""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakehouse_assets_tests.chaos.play import act, run_of
from lakehouse_assets_tests.chaos.strike import Ground, copied

SEED = 1
# From this step on nothing can be written: first Python's record of bronze, then silver.
POINTS = ("bronze_committed", "before_silver")


class Disk:
    """What the system lets this process and Spark's write. A limit of no bytes a file is met as a full disk is: by an error of
    the write.
    """

    def __init__(self, spark) -> None:
        self.processes = [os.getpid(), spark.sparkContext._gateway.proc.pid]
        self.limits = [resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in self.processes]

    def fill(self) -> None:
        for pid, (_, most) in zip(self.processes, self.limits, strict=True):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))

    def free(self) -> None:
        for pid, limits in zip(self.processes, self.limits, strict=True):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


@contextmanager
def full_from(disk: Disk, point: str) -> Iterator[tuple]:
    """A step function that fills the disk at a point, and the points that it came to."""
    reached: list[str] = []

    def step(name: str) -> None:
        reached.append(name)
        if name == point:
            disk.fill()

    try:
        yield step, reached
    finally:
        disk.free()


def test_without_room_a_run_fails_and_with_room_it_ends_as_ever(spark, tmp_path):
    ground, disk = Ground(spark, tmp_path / "ground", "run", SEED), Disk(spark)
    for point in POINTS:
        here = copied(ground.before, tmp_path / point)
        with full_from(disk, point) as (step, reached), pytest.raises(Exception) as caught:
            act(run_of(spark, here, step), "run")
        assert reached[-1] == point, f"{point}: it went on to {reached[-1]}"
        assert str(caught.value)
        ground.ends_as_ever(here, f"no room from {point} on")
