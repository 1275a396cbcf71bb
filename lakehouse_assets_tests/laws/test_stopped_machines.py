"""A machine falls asleep at a step of an operation, past its lease; another takes over and completes; then the first wakes up.

Belongs here: whole operations with Spark by two processes of two hosts on one disk, at each step. Does not: one late commit
(storage/leases/test_fencing), or logs alone (storage/test_several_writers).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lakehouse_assets.pipeline import gate
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.chaos.machine import Machine, leased_settings, machines
from lakehouse_assets_tests.chaos.play import POINTS, check_oracle, points_of, tables
from lakehouse_assets_tests.support import copy_lake

pytestmark = pytest.mark.timeout(600)
# The history that is played: `chaos.play` draws it.
SEED = 1
# A run that had nothing left to write, or that acquires the lease anew for the rest, ends well.
ENDS = ("well", "LeaseLostError")
OPERATIONS = ("release", "discard", "rejudge", "maintain", "rebuild")
# The oracle knows no waived check, and no stricter one.
BEYOND_ORACLE = ("release", "rejudge")
# A run has the steps that complete an earlier one, too. A + is a moment in which a fast operation may have ended.
POINTS_OF_OTHERS = [
    (operation, point)
    for operation in OPERATIONS
    for point in POINTS[operation]
    if not point.endswith("+") and point not in points_of(gate.COMPLETING)
]
Ground = tuple[Settings, dict[str, Any]]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Machine]]:
    with machines(tmp_path_factory.mktemp("machines"), "host-a", "host-b") as running:
        yield running


@pytest.fixture(scope="module")
def began(hosts: list[Machine], tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The lake before the run, made once and copied for each step."""
    lake = leased_settings(tmp_path_factory.mktemp("began") / "began")
    hosts[1].run("begin run", lake, seed=SEED)
    return lake


@pytest.fixture(scope="module")
def clean(hosts: list[Machine], began: Settings, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The tables of a run that nobody disturbed. It also warms the first machine up."""
    lake = copy_lake(began, tmp_path_factory.mktemp("clean") / "clean")
    hosts[0].run("run", lake)
    check_oracle(lake, SEED)
    return tables(lake)


@pytest.fixture(scope="module")
def ground_of(hosts: list[Machine], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ground]:
    """Return the lake before an operation, and the tables after it and a run, undisturbed. Each is made once."""

    @cache
    def prepare(operation: str) -> Ground:
        home = tmp_path_factory.mktemp(operation)
        before = leased_settings(home / "before")
        hosts[1].run(f"begin {operation}", before, seed=SEED)
        lake = copy_lake(before, home / "clean")
        hosts[0].run(operation, lake)
        hosts[0].run("run", lake)
        if operation not in BEYOND_ORACLE:
            check_oracle(lake, SEED)
        return before, tables(lake)

    return prepare


def assert_same(lake: Settings, clean: dict[str, Any], when: str) -> None:
    """Raise AssertionError with the first table that differs from the undisturbed run's."""
    actual = tables(lake)
    for name, expected in clean.items():
        assert actual[name] == expected, f"{when}: {name} differs"


@contextmanager
def asleep(machine: Machine, operation: str, point: str, lake: Settings) -> Iterator[None]:
    """Within the block, this machine sleeps at a step of an operation. Then it wakes up, and ends in one of ``ENDS``."""
    machine.send(operation, lake, stop_at=point, seed=SEED)
    message = machine.receive()
    assert message == {"stopped": point}, message
    try:
        yield
    finally:
        machine.resume()
    message = machine.receive()
    assert message["ended"] in ENDS, message
    assert message.get("code", 6) == 6


@pytest.mark.exhaustive(seconds=35)
@pytest.mark.parametrize("point", POINTS["run"])
def test_a_machine_that_wakes_up_changes_nothing(
    point: str, hosts: list[Machine], began: Settings, clean: dict[str, Any], tmp_path: Path
) -> None:
    former, following = hosts
    lake = copy_lake(began, tmp_path / "lake")
    with asleep(former, "run", point, lake):
        following.run("run", lake)
        assert_same(lake, clean, "after the takeover")
    assert_same(lake, clean, "after the former holder woke up")
    following.run("run", lake)
    former.run("run", lake)
    assert_same(lake, clean, "after two more runs")
    check_oracle(lake, SEED)


@pytest.mark.exhaustive(seconds=35)
@pytest.mark.parametrize(("operation", "point"), POINTS_OF_OTHERS)
def test_a_machine_that_wakes_up_in_another_operation_changes_nothing(
    operation: str, point: str, hosts: list[Machine], ground_of: Callable[[str], Ground], tmp_path: Path
) -> None:
    former, following = hosts
    before, clean = ground_of(operation)
    lake = copy_lake(before, tmp_path / "lake")
    with asleep(former, operation, point, lake):
        following.run(operation, lake)
        following.run("run", lake)
        assert_same(lake, clean, "after the takeover")
    assert_same(lake, clean, "after the former holder woke up")
    former.run("run", lake)
    assert_same(lake, clean, "after one more run")
    if operation not in BEYOND_ORACLE:
        check_oracle(lake, SEED)


@pytest.mark.exhaustive(seconds=60)
@pytest.mark.parametrize("point", ["bronze_committed", "log_done", "before_write+"])
def test_another_machine_completes_what_a_killed_one_left(
    point: str, hosts: list[Machine], began: Settings, clean: dict[str, Any], tmp_path: Path
) -> None:
    lake = copy_lake(began, tmp_path / "lake")
    with machines(tmp_path / "machines", "host-c") as [killed]:
        killed.send("run", lake, stop_at=point, seed=SEED)
        assert killed.receive() == {"stopped": point}
    hosts[1].run("run", lake)
    assert_same(lake, clean, f"killed at {point}")
    check_oracle(lake, SEED)
