"""Every operation killed right before and after each of its commits, and run again: the undisturbed end, and nothing twice.

`make chaos` kills at every file. Belongs here: operations on one lake. Does not: SIGKILL of a process (test_kill_operations).
"""

import pytest

from lakehouse_assets_tests.chaos.files import EveryFile, is_commit
from lakehouse_assets_tests.chaos.play import POINTS, PREPARED
from lakehouse_assets_tests.chaos.strike import prepare_lake
from lakehouse_assets_tests.support import copy_lake

SEED = 1
# What each writes at least: the logs before and after, the results, and what it is about.
COMMITS = {"run": 6, "release": 5, "discard": 4, "rejudge": 4, "maintain": 1, "rebuild": 1, "migrate": 3, "seed": 2, "pin": 1}
COMMITS |= {"unpin": 1, "reset": 1, "mend": 3, "restore_logs": 2}


@pytest.fixture(scope="module")
def before(spark, tmp_path_factory):
    """The lake before a run, the one before a release, and copies of it in which other operations have something to do."""
    home = tmp_path_factory.mktemp("before")
    lakes = {name: prepare_lake(spark, home / name, name, SEED) for name in ("run", "release")}
    for name, change in PREPARED.items():
        lakes[name] = copy_lake(lakes["release"], home / name)
        change(spark, lakes[name])
    return lakes


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.exhaustive(seconds=30 + 30 * COMMITS[name])) for name in POINTS]
)
def test_an_operation_killed_at_any_commit_counts_once(name, spark, before, tmp_path):
    every = EveryFile(spark, tmp_path, name, before.get(name, before["release"]))
    assert sum(map(is_commit, every.files)) >= COMMITS[name]
    assert [wrong for _, wrong in every.differences(commits=True) if wrong] == []
