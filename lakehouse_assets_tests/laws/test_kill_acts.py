"""SIGKILL within a release, a discard, a judgement on request and maintenance: done again, each gives the undisturbed end.

One point of each here, at which most is half done; all of them, more often and by more seeds, with `make chaos`.
"""

import os
import subprocess
import sys
import time

import pytest

from lakehouse_assets_tests.chaos.play import POINTS, PREPARED, act, end, run_of
from lakehouse_assets_tests.chaos.strike import Ground, begun, copied
from lakehouse_assets_tests.chaos.writers import race
from lakehouse_assets_tests.laws.child import jvm_for_children
from lakehouse_assets_tests.laws.test_kill import STEPS

# A short history: two steps of four windows each.
SEED = 5
WHERE = {
    "run": ["log_done"],
    "release": ["quarantine_done", "write_done"],
    "discard": ["mark_applied_done"],
    "rejudge": ["before_write"],
    "maintain": ["quarantine_compacted"],
}
# Of an operation with no step of its own: in this process they are killed at each commit (test_kill_files).
ALSO = {
    "rebuild": ["silver_rebuilt"], "migrate": ["silver_rebuilt"], "seed": ["seed_written"], "pin": ["pin_logged"],
    "unpin": ["unpin_logged"], "reset": ["reset_logged"], "mend": ["quarantine_mended"], "restore_logs": ["decisions_restored"],
}  # fmt: skip


@pytest.fixture(scope="module")
def jvm(tmp_path_factory):
    with jvm_for_children(tmp_path_factory.mktemp("children")) as found:
        yield found


@pytest.fixture(scope="module")
def before(spark, tmp_path_factory):
    """The lake before a run, and the one before any other act."""
    home = tmp_path_factory.mktemp("before")
    return {name: begun(spark, home / name, name, SEED) for name in ("run", "release")}


# Left to `make test-all`: a run has their steps too, and is killed at each (test_kill).
LEFT = {"run", "discard", "rejudge", "maintain", *ALSO}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.exhaustive(seconds=60)] if name in LEFT else []) for name in (*WHERE, *ALSO)],
)
def test_an_act_that_was_killed_is_done_again(name, spark, jvm, before, tmp_path):
    began = None if name in PREPARED else before["run" if name == "run" else "release"]
    ground = Ground(spark, tmp_path, name, SEED, began)
    for point in {**WHERE, **ALSO}[name]:
        assert ground.strike(point, 1, jvm) == 1, f"{name} never came to {point}"


def test_every_step_of_a_run_is_a_kill_point_of_chaos_and_each_is_struck_once_here():
    assert all(set(points) <= set(POINTS[name]) for name, points in {**WHERE, **ALSO}.items())
    assert {**WHERE, **ALSO}.keys() == POINTS.keys()
    assert len(STEPS) >= 15


@pytest.mark.parametrize("other", ["release", pytest.param("maintain", marks=pytest.mark.exhaustive(seconds=60))])
def test_a_run_in_one_process_and_an_act_in_another_come_one_after_the_other(other, spark, jvm, before, tmp_path):
    """The act waits in its middle while the run of the other process comes to the table."""
    clean = copied(before["run"], tmp_path / "clean")
    act(run_of(spark, clean), "run")
    act(run_of(spark, clean), other)
    expected = end(spark, clean, "run")  # asked for again after a run, it would be another act
    here = copied(before["run"], tmp_path / "here")
    command = [sys.executable, "-m", "lakehouse_assets_tests.chaos.child", str(here.dagster_home), "run", "never", "0"]
    child = subprocess.Popen(command, env=os.environ | jvm, stderr=subprocess.PIPE, text=True)
    middle = {"before_write", "silver_compacted"}
    act(run_of(spark, here, lambda reached: time.sleep(4 if reached in middle else 0)), other)
    _, told = child.communicate(timeout=500)
    assert child.returncode == 0, told[-2000:]
    found = end(spark, here, "run")
    for table in ("silver", "bronze", "held", "unapplied"):
        assert found[table] == expected[table], table


def test_two_processes_on_one_table_lose_nothing(tmp_path):
    assert race(tmp_path, 50) == (50, 50)
