"""`lakehouse run`: what becomes of a range that fails, without any run.

Belongs here: which windows are run again, and in what ranges. Does not: runs on an instance (test_retries).
"""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.decisions.retry_policy import LIMIT_BEFORE_SUCCESS
from lakehouse_assets.errors import EnvironmentMissing, LakehouseError, SourceError
from lakehouse_assets.orchestration.healing.foreground import isolate_in_runs
from lakehouse_assets_tests.support import window

DAYS = [window(day) for day in range(1, 31)]


class World:
    """Windows of which some fail every run that has one of them; the others are done with the first run that succeeds."""

    def __init__(self, *bad: int, error: type[LakehouseError] = SourceError, alike: bool = False) -> None:
        self.bad, self.error, self.alike = {window(day) for day in bad}, error, alike
        self.runs: list[int] = []
        self.tries: set[str] = set()
        self.finished_windows: set[object] = set()

    def execute(self, some, tags):
        self.runs.append(len(some))
        self.tries.add(tags["lakehouse/one_try"])
        if failing := self.bad & set(some):
            return self.error("down" if self.alike else f"{sorted(w.key for w in failing)}")
        self.finished_windows |= set(some)
        return None

    def heal(self):
        errors = isolate_in_runs(DAYS, self.execute, lambda some: [w for w in some if w not in self.finished_windows])
        return [[w.start.day for w in some] for some, _ in errors]


@pytest.mark.parametrize("bad", [(), (1,), (17,), (3, 4, 29), tuple(range(1, 31, 4))])
def test_a_window_that_fails_delays_no_other(bad) -> None:
    world = World(*bad)
    assert world.heal() == [[day] for day in bad]
    assert world.finished_windows == {w for w in DAYS if w not in world.bad}
    assert len(world.tries) == 1


@pytest.mark.parametrize(
    "bad", [(5, 12, 20, 28), (1, 9, 17, 25), tuple(range(1, 31, 4)), tuple(range(1, 31, 2)), tuple(range(3, 30))]
)
def test_windows_with_equal_errors_delay_no_other(bad) -> None:
    """As masked errors do."""
    world = World(*bad, alike=True)
    assert sorted(world.heal()) == [[day] for day in bad]
    assert world.finished_windows == {w for w in DAYS if w not in world.bad}
    assert len(world.runs) <= 2 * len(DAYS)


def test_a_common_failure_is_not_retried_window_by_window() -> None:
    world = World(*range(1, 31), alike=True)
    assert world.heal() == [[*range(1, 31)]]
    assert world.runs == [30, 8, 8, 8, *[1] * 8]


def test_a_source_that_goes_down_meanwhile_ends_the_tries() -> None:
    hours = [window_at(datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=n), "hourly") for n in range(2000)]
    runs, finished_windows = [], set()

    def execute(some, tags):
        runs.append(len(some))
        if len(runs) > 3 or hours[7] in some:
            return SourceError("down")
        finished_windows.update(some)
        return None

    errors = isolate_in_runs(hours, execute, lambda some: [w for w in some if w not in finished_windows])
    assert {w for some, _ in errors for w in some} == set(hours) - finished_windows
    assert (len(finished_windows), runs[:4]) == (64, [2000, 64, 64, 64])
    assert len(runs) < 100


@given(st.sets(st.integers(1, 30)), st.booleans())
def test_every_window_is_in_or_named(bad, alike) -> None:
    world = World(*bad, alike=alike)
    failed = sorted(day for some in world.heal() for day in some)
    assert failed == sorted(w.start.day for w in set(DAYS) - world.finished_windows)
    assert len(bad) >= LIMIT_BEFORE_SUCCESS or failed == sorted(bad)
    assert len(world.runs) <= 3 * len(DAYS)


def test_without_java_nothing_is_run_again() -> None:
    world = World(5, error=EnvironmentMissing)
    assert world.heal() == [[*range(1, 31)]]
    assert world.runs == [30]
