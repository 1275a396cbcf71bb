"""A guard's clean table that somebody else changes between a killed run and its repetition.

Belongs here: faults of the clean table. Does not: kills alone (test_guard_publish), or faults of the guarded table
(test_guard_faults).
"""

import shutil

import pytest
from deltalake import DeltaTable

from lakehouse_assets.decisions import ledger
from lakehouse_assets.guards.run import judge_versions
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.guards.guarded_orders import ForeignOrders, guard_run, judge, orders_guard
from lakehouse_assets_tests.support import rows_of

# More than the newest commits that a write searches for its own.
COMMITS = 55


class Killed(BaseException):
    """The end of a run, which no handler of errors sees."""


def many_commits(clean):
    """Commits of somebody else that move no row."""
    for number in range(COMMITS):
        DeltaTable(str(clean)).alter.set_table_properties({"theirs": str(number)}, raise_if_not_exists=False)


def rewind(clean):
    """The table as it was at its first version, and then many commits."""
    DeltaTable(str(clean)).restore(0)
    many_commits(clean)


def vacuum(clean):
    """Many commits, and no file but those of the newest version."""
    many_commits(clean)
    DeltaTable(str(clean)).vacuum(0, dry_run=False, enforce_retention_duration=False)


@pytest.mark.exhaustive(seconds=60)
@pytest.mark.parametrize("has_key", [False, True], ids=["without_key", "by_key"])
@pytest.mark.parametrize("point", ["log_done", "write_done"])
@pytest.mark.parametrize("fault", [vacuum, rewind, shutil.rmtree], ids=["vacuumed", "rewound", "deleted"])
def test_a_clean_table_that_others_change_while_a_run_is_dead_has_each_accepted_row_once(
    fault, point, has_key, spark, settings, tmp_path
):
    table, clean = ForeignOrders(spark, tmp_path / "theirs"), tmp_path / "clean"
    guard = orders_guard(tmp_path / "theirs", key=["id"] if has_key else [], publish={"to": str(clean)})
    table.append((1, 1.0, "DE"))
    table.append((2, 2.0, "DE"))
    judge(spark, settings, guard)
    table.append((3, 3.0, "DE"))

    def die(step):
        if step == point:
            raise Killed

    with pytest.raises(Killed):
        judge_versions(guard_run(spark, settings, guard, die))
    fault(clean)
    judge(spark, settings, guard)
    assert judge(spark, settings, guard).new == [], "nothing is left to do"
    expected = sorted((row["id"], row["amount"]) for row in rows_of(str(table.path)))
    assert sorted((row["id"], row["amount"]) for row in rows_of(str(clean))) == expected
    assert ledger.unapplied_decisions(logs.decisions(settings, "orders")) == []


@pytest.mark.exhaustive(seconds=40)
def test_a_clean_table_that_others_restore_is_exchanged_by_the_next_run(spark, settings, tmp_path):
    table, clean = ForeignOrders(spark, tmp_path / "theirs"), tmp_path / "clean"
    guard = orders_guard(tmp_path / "theirs", key=[], publish={"to": str(clean)})
    table.append((1, 1.0, "DE"))
    table.append((2, 2.0, "DE"))
    judge(spark, settings, guard)
    DeltaTable(str(clean)).restore(0)
    (decision,) = judge(spark, settings, guard).new
    assert decision.verdict == "published"
    assert sorted(row["id"] for row in rows_of(str(clean))) == [1, 2]
    assert judge(spark, settings, guard).new == []
