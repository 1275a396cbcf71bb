"""A person's requests on the baseline of a guard: pin, unpin and reset, and what later versions are compared with.

Belongs here: the requests on a guard. Does not: the same on a table (operations/test_baseline), or statistics.
"""

import pytest

from lakehouse_assets.errors import RefusedError
from lakehouse_assets.guards.run import locked
from lakehouse_assets.operations import baseline_request
from lakehouse_assets.operations.baseline import read_baseline_version
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.guards.guarded_orders import ForeignOrders, guard_run, judge, orders_guard

REQUEST = {"by": "ann", "because": "the shop moved"}


def windows_known(settings):
    """How many earlier versions each decision was compared with."""
    return [d.drift and d.drift["windows_known"] for d in logs.decisions(settings, "orders", evidence=True)]


@pytest.mark.exhaustive(seconds=60)
def test_a_guard_s_baseline_is_pinned_and_reset_once(spark, settings, tmp_path):
    table = ForeignOrders(spark, tmp_path / "theirs")
    guard = orders_guard(tmp_path / "theirs", drift={"features": ["amount"]})
    table.append((1, 10.0, "DE"))
    with pytest.raises(RefusedError, match="nothing to pin"):
        baseline_request.pin(guard_run(spark, settings, guard), locked, **REQUEST)
    judge(spark, settings, guard)
    table.append((2, 20.0, "DE"))
    judge(spark, settings, guard)
    run = guard_run(spark, settings, guard)
    events = [baseline_request.pin(run, locked, **REQUEST) for _ in range(2)]
    assert events[0] == events[1]
    assert events[0].extra["windows"] == 2
    assert read_baseline_version(settings, guard, None).state.baseline.pinned
    # The reset comes after a decision on a whole table, and holds for the next appended version.
    table.run("UPDATE {T} SET amount = 21 WHERE id = 2")
    judge(spark, settings, guard)
    assert baseline_request.forget(guard_run(spark, settings, guard), locked, **REQUEST).kind == "reset"
    table.append((3, 30.0, "DE"))
    judge(spark, settings, guard)
    assert windows_known(settings) == [0, 1, 0, 0]
    current = read_baseline_version(settings, guard, None)
    assert ([event.kind for event in current.events], len(current.entries)) == (["pin", "reset"], 1)
    baseline_request.unpin(guard_run(spark, settings, guard), locked, **REQUEST)
    assert not read_baseline_version(settings, guard, None).state.baseline.pinned
