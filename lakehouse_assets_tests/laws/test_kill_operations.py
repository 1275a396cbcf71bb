"""SIGKILL within a release, a discard, a judgement on request and maintenance: done again, each gives the undisturbed end.

Some points of each here, at which most is half done; all of them, more often and by more seeds, with `make chaos`.
"""

import os
import subprocess
import sys
import time
from functools import cache

import pytest

from lakehouse_assets_tests.chaos.play import POINTS, PREPARED, end, run_of, run_operation
from lakehouse_assets_tests.chaos.strike import Ground, prepare_lake
from lakehouse_assets_tests.chaos.writers import race
from lakehouse_assets_tests.laws.child import jvm_for_children
from lakehouse_assets_tests.laws.test_kill import STEPS
from lakehouse_assets_tests.support import copy_lake

# A short history: two steps of four windows each.
SEED = 5
POINTS_STRUCK = {
    "run": ["log_done"],
    "release": ["quarantine_done", "write_done"],
    "discard": ["mark_applied_done"],
    "rejudge": ["before_write"],
    "maintain": ["quarantine_compacted"],
}
# Of an operation with no step of its own: in this process they are killed at each commit (test_kill_files).
ALSO = {
    "rebuild": ["silver_rebuilt"], "migrate": ["silver_rebuilt"], "seed": ["seed_written"], "pin": ["pin_logged"],
    "unpin": ["unpin_logged"], "reset": ["reset_logged"], "mend": ["bronze_mended", "quarantine_mended", "silver_rebuilt"],
    "restore_logs": ["lost_files_forgotten", "decisions_restored", "extractions_restored"],
}  # fmt: skip


@pytest.fixture(scope="module")
def jvm(tmp_path_factory):
    with jvm_for_children(tmp_path_factory.mktemp("children")) as variables:
        yield variables


@pytest.fixture(scope="module")
def before(spark, tmp_path_factory):
    """A function that returns the lake before a run, or the one before any other operation. Each is made once."""
    home = tmp_path_factory.mktemp("before")
    return cache(lambda name: prepare_lake(spark, home / name, name, SEED))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.exhaustive(seconds=40 + 20 * len(points)))
        for name, points in {**POINTS_STRUCK, **ALSO}.items()
    ],
)
def test_a_killed_operation_completes_when_repeated(name, spark, jvm, before, tmp_path):
    began = None if name in PREPARED else before("run" if name == "run" else "release")
    ground = Ground(spark, tmp_path, name, SEED, began)
    for point in {**POINTS_STRUCK, **ALSO}[name]:
        assert ground.strike(point, 1, jvm) == 1, f"{name} never came to {point}"


def test_every_step_of_a_run_is_a_kill_point_of_chaos_and_each_is_struck_once_here():
    assert all(set(points) <= set(POINTS[name]) for name, points in {**POINTS_STRUCK, **ALSO}.items())
    assert {**POINTS_STRUCK, **ALSO}.keys() == POINTS.keys()
    assert len(STEPS) >= 15


@pytest.mark.exhaustive(seconds=80)
@pytest.mark.parametrize("other", ["release", "maintain"])
def test_a_run_and_an_operation_of_two_processes_take_turns(other, spark, jvm, before, tmp_path):
    """The operation waits in its middle until the other process's run reaches the table."""
    clean = copy_lake(before("run"), tmp_path / "clean")
    run_operation(run_of(spark, clean), "run")
    run_operation(run_of(spark, clean), other)
    expected = end(spark, clean, "run")  # requested again after a run, it would be another operation
    here = copy_lake(before("run"), tmp_path / "here")
    command = [sys.executable, "-m", "lakehouse_assets_tests.chaos.child", str(here.dagster_home), "run", "never", "0"]
    child = subprocess.Popen(command, env=os.environ | jvm, stderr=subprocess.PIPE, text=True)
    middle = {"before_write", "silver_compacted"}
    run_operation(run_of(spark, here, lambda reached: time.sleep(4 if reached in middle else 0)), other)
    _, errors = child.communicate(timeout=500)
    assert child.returncode == 0, errors[-2000:]
    actual = end(spark, here, "run")
    for table in ("silver", "bronze", "held", "unapplied"):
        assert actual[table] == expected[table], table


def test_two_processes_on_one_table_lose_nothing(tmp_path):
    assert race(tmp_path, 50) == (50, 50)
