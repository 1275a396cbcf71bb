"""A write that is refused in the middle of a run: no room is left, or another program's commit came first. The run
fails and says so, and done again it ends as if nothing had been.

Belongs here: refusals of the system, of Python's writes and of Java's, and of Delta. Does not: processes that are killed
(test_kill), runs of our own on one table, which its lock keeps apart.
"""

import json
import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakehouse_assets.errors import DiskError
from lakehouse_assets_tests.chaos.play import run_of, run_operation
from lakehouse_assets_tests.chaos.strike import Ground
from lakehouse_assets_tests.support import copy_lake

# A short history: two steps of four windows each.
SEED = 5
# From this step on nothing can be written: first Python's record of bronze, then silver.
POINTS = ("bronze_committed", "before_write")
TRIES = 10


@pytest.fixture(scope="module")
def ground(spark, tmp_path_factory):
    return Ground(spark, tmp_path_factory.mktemp("refused") / "ground", "run", SEED)


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


@pytest.mark.exhaustive(seconds=70)
def test_without_room_a_run_fails_and_with_room_it_assert_same_end(ground, spark, tmp_path):
    disk = Disk(spark)
    for point in POINTS:
        here = copy_lake(ground.before, tmp_path / point)
        with full_from(disk, point) as (step, reached), pytest.raises(Exception) as caught:
            run_operation(run_of(spark, here, step), "run")
        assert reached[-1] == point, f"{point}: it went on to {reached[-1]}"
        assert isinstance(caught.value, DiskError), caught.value
        assert "File too large" in str(caught.value)
        assert str(here.root) in str(caught.value)
        ground.assert_same_end(here, f"no room from {point} on")


class Stranger:
    """Another program. It sets a property of silver once it sees that a data file was written which is in no commit yet: what a
    MERGE that has begun cannot be reconciled with.
    """

    def __init__(self, silver: Path) -> None:
        self.silver, self.files_before, self.wrote = silver, set(silver.glob("*.parquet")), False
        commits = sorted((silver / "_delta_log").glob("*.json"))
        self.next = silver / "_delta_log" / f"{int(commits[-1].stem) + 1:020}.json"
        self.meta = [
            line for commit in commits for line in map(json.loads, commit.read_text().splitlines()) if "metaData" in line
        ][-1]
        self.thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        until = time.monotonic() + 240
        while not set(self.silver.glob("*.parquet")) - self.files_before:
            if self.next.exists() or time.monotonic() > until:
                return
        self.meta["metaData"]["configuration"]["noted"] = "by a stranger"
        draft = self.next.with_suffix(".draft")
        draft.write_text(json.dumps({"commitInfo": {"timestamp": 0, "operation": "SET"}}) + "\n" + json.dumps(self.meta) + "\n")
        try:
            self.next.hardlink_to(draft)  # whole or not at all, and never in the place of another
        except FileExistsError:
            return
        finally:
            draft.unlink()
        self.wrote = True


@pytest.mark.exhaustive(seconds=50)
def test_a_commit_of_another_program_in_the_middle_of_ours(ground, spark, tmp_path):
    for attempt in range(TRIES):
        here = copy_lake(ground.before, tmp_path / f"try{attempt}")
        silver = Path(here.path("silver", "readings"))
        strangers: list[Stranger] = []

        def step(name: str, silver: Path = silver, strangers: list[Stranger] = strangers) -> None:
            if name == "before_write":
                strangers.append(Stranger(silver))
                strangers[0].thread.start()

        try:
            run_operation(run_of(spark, here, step), "run")
            refused = None
        except Exception as error:
            refused = error
        assert strangers, refused
        strangers[0].thread.join()
        if strangers[0].wrote and refused:
            assert "MetadataChanged" in str(refused) or "DELTA_METADATA_CHANGED" in str(refused)
            ground.assert_same_end(here, "a stranger's commit in the middle")
            return
        assert refused is None, "without a stranger there is no conflict"
    pytest.fail(f"in {TRIES} tries the stranger never came in between")
