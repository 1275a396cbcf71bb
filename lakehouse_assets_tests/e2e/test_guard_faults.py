"""A guard when something goes wrong: files and versions that are gone, another table at the path, a run killed at each step.

Belongs here: faults. Does not: the table's ordinary life (test_guard).
"""

import os
import shutil
import subprocess
import sys

import pytest
from deltalake import DeltaTable

from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decide import JudgementRequest
from lakehouse_assets.errors import SourceError
from lakehouse_assets.guards.run import STEPS
from lakehouse_assets.guards.settlement import settle_version
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.guards.foreign_table import ForeignOrders, guard_run, judge, orders_guard
from lakehouse_assets_tests.laws.child import at, jvm_for_children
from lakehouse_assets_tests.support import rows_of

FIRST = [(number, float(number), "DE") for number in range(1, 11)]
POINTS = ["observed_done", "rules_measured", *(f"{step.__name__}_done" for step in STEPS)]


@pytest.mark.exhaustive(seconds=60)
def test_versions_that_are_gone_and_a_table_that_is_another_one_are_reported(spark, settings, tmp_path):
    table, guard = ForeignOrders(spark, tmp_path / "theirs"), orders_guard(tmp_path / "theirs")
    log = table.path / "_delta_log"

    def judge_now():
        return [(d.bronze_version, d.verdict, d.counts.rows_in) for d in judge(spark, settings, guard).new]

    table.append(*FIRST)
    assert judge_now() == [(0, "published", 10)]
    before = set(table.path.glob("*.parquet"))
    table.append((11, 11.0, "DE"))
    (added,) = set(table.path.glob("*.parquet")) - before
    table.run("OPTIMIZE {T}")
    table.append((12, 12.0, "DE"))
    added.unlink()
    assert judge_now() == [(3, "published_with_warnings", 12)]
    for number in (13, 14, 15):
        table.append((number, 1.0, "DE"))
    DeltaTable(str(table.path)).create_checkpoint()
    for version in range(6):
        (log / f"{version:020d}.json").unlink()
    assert judge_now() == [(6, "published_with_warnings", 15)]
    decided = logs.decisions(settings, "orders", checks=True)
    texts = {d.bronze_version: next(c["message"] for c in d.checks if c["check"] == "table_history") for d in decided}
    assert "files of version 1 were deleted before it was judged" in texts[3]
    assert "the log of versions 4 to 5 was cleaned up before it was judged" in texts[6]
    shutil.rmtree(table.path)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    with pytest.raises(SourceError, match="there is no Delta table"):
        judge_now()
    table.append(*FIRST)
    assert judge_now() == [(0, "quarantined", 10)]
    request = JudgementRequest(kind="released", waived=("table_history",), by="me", because="made anew", operation="one")
    run = guard_run(spark, settings, guard)
    released = [settle_version(run, 0, request) for _ in range(2)]
    assert released[0].verdict == "published_with_warnings"
    assert released[0].number == released[1].number
    table.append((11, 11.0, "DE"))
    assert judge_now() == [(1, "published", 1)]


@pytest.fixture(scope="module")
def jvm(tmp_path_factory):
    """The variables of the JVM on which one child after the other is killed."""
    with jvm_for_children(tmp_path_factory.mktemp("children")) as variables:
        yield variables


@pytest.mark.exhaustive(seconds=40)
@pytest.mark.parametrize("step", POINTS)
def test_a_run_that_is_killed_is_completed_once(step, spark, jvm, tmp_path):
    table = ForeignOrders(spark, tmp_path / "theirs")
    table.append(*FIRST)
    table.append((11, -1.0, "DE"))
    command = [sys.executable, "-m", "lakehouse_assets_tests.guards.child", str(tmp_path), step]
    child = subprocess.run(command, env=os.environ | jvm, capture_output=True, text=True, timeout=500, check=False)
    assert child.returncode == -9, child.stderr[-2000:]
    settings, guard = at(tmp_path), orders_guard(tmp_path / "theirs")
    judge(spark, settings, guard)
    assert judge(spark, settings, guard).new == []
    log = logs.decisions(settings, "orders")
    assert [(d.bronze_version, d.number, d.verdict) for d in log] == [(0, 1, "published"), (1, 2, "quarantined")]
    assert ledger.unapplied_decisions(log) == []
    results = rows_of(settings.path("ops", "check_results"), ["number", "check"])
    assert len(results) == len({tuple(row.values()) for row in results}) == 2 * 5
    assert not (tmp_path / "lake" / "staging" / "orders").exists()
