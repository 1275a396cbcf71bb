"""Who gets a run, and when a worker is replaced or ends."""

import pytest

from lakehouse_assets.orchestration.workers.choice import Choice, WorkerState, choose_worker, reason_to_end
from lakehouse_assets.orchestration.workers.folder import WorkerLimits

BUSY, LEAVING = WorkerState("busy", True, None), WorkerState("leaving", True, 1.0, leaving=True)
OLD, NEW, OTHER = WorkerState("old", True, 1.0), WorkerState("new", True, 2.0), WorkerState("other", False, 3.0)


@pytest.mark.parametrize(
    ("workers", "slots", "expected"),
    [
        ([], 2, Choice()),
        # The one that was used last: the others become idle for long, and end.
        ([OLD, NEW], 2, Choice(give="new")),
        ([OTHER, OLD, BUSY], 3, Choice(give="old")),
        # A second one on demand.
        ([BUSY], 2, Choice()),
        # One of another environment keeps its slot while there is a free one, and ends for the run otherwise.
        ([OTHER], 2, Choice()),
        ([OTHER, BUSY], 2, Choice(stop="other")),
        ([OTHER], 1, Choice(stop="other")),
        # A run never waits for another.
        ([BUSY, BUSY], 2, Choice(lasting=False)),
        # One that ends gets nothing, and takes no slot.
        ([LEAVING], 1, Choice()),
        ([LEAVING, BUSY], 1, Choice(lasting=False)),
    ],
)
def test_who_gets_the_next_run(workers, slots, expected):
    assert choose_worker(workers, slots) == expected
    assert choose_worker(workers[::-1], slots) == expected


LIMITS = WorkerLimits(max_runs=3, max_seconds=100, idle_seconds=10, cancel_seconds=1)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"runs": 0, "age": 0, "idle": 0}, None),
        ({"runs": 2, "age": 99, "idle": 9}, None),
        ({"runs": 3, "age": 0, "idle": 0}, "runs"),
        ({"runs": 0, "age": 100, "idle": 0}, "age"),
        ({"runs": 0, "age": 50, "idle": 10}, "idle"),
        ({"runs": 1, "age": 5, "idle": 0, "failed": True}, "failed"),
        ({"runs": 1, "age": 5, "idle": 0, "lasting": False}, "one run"),
        ({"runs": 0, "age": 5, "idle": 0, "lasting": False}, None),
        ({"runs": 0, "age": 0, "idle": 0, "stopped": True}, "asked"),
        ({"runs": 1, "age": 5, "idle": 0, "abandoned": True}, "abandoned"),
    ],
)
def test_why_a_worker_without_a_run_ends(facts, expected):
    assert reason_to_end(LIMITS, **facts) == expected
