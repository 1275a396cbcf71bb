"""Maintenance of gold and of logs: which rows leave gold's quarantine, and that small files of logs are merged at any cadence.

Belongs here: gold tables, and the logs of tables. Does not: bronze, silver and their quarantine (test_maintain).
"""

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from lakehouse_assets.contracts.decision import Counts, Decision
from lakehouse_assets.operations import maintain as maintenance
from lakehouse_assets.operations.maintain import closed_gold, maintain, maintain_gold
from lakehouse_assets.storage import delta, log_compaction, logs
from lakehouse_assets.storage.log_rows import DECISIONS
from lakehouse_assets_tests.logbook import DECIDED, decided, write
from lakehouse_assets_tests.support import readings, rows_of, runner

SPEC = readings(maintenance={"quarantine_days": 30})
LATER = DECIDED + timedelta(days=40)
QUARANTINED = {"verdict": "quarantined"}


def gold_log(*decisions, table="gold_days"):
    """Applied decisions, numbered from 1."""
    return [replace(decided(n, table, **changes), applied_at=DECIDED) for n, changes in enumerate(decisions, 1)]


@pytest.mark.parametrize(
    ("decisions", "closed"),
    [
        ([{}], []),
        ([QUARANTINED], []),
        ([{}, {}, {}], [1, 2]),
        ([QUARANTINED, {}], [1]),
        ([QUARANTINED, QUARANTINED], [1]),
        ([{}, QUARANTINED], []),
        ([{}, {"recomputed": ()}], []),
        ([QUARANTINED, {"recomputed": ("a",)}], [1]),
        ([{"recomputed": ("a",)}, {"recomputed": ("b",)}], []),
        ([{"recomputed": ("a",)}, {"recomputed": ("b",)}, {"recomputed": ("a", "b")}], [1, 2]),
        ([{}, {"recomputed": ("a",)}], []),
        ([{"recomputed": ("a",)}, {}], [1]),
        ([{"recomputed": ("a", None)}, {"recomputed": (None,)}, {"recomputed": ("a",)}], [1]),
        ([{"recomputed": ("a",)}, {"recomputed": ("a",), **QUARANTINED}], []),
        ([{"counts": Counts(3, 3)}, {}, {}], [2]),
        ([{}, {"decided_at": LATER - timedelta(days=29)}], []),
    ],
)
def test_rows_of_gold_leave_the_quarantine_once_they_were_derived_anew(decisions, closed):
    log = gold_log(*decisions)
    numbers = {d.decision_id: d.number for d in log}
    assert [numbers[name] for name in closed_gold(log, SPEC, LATER)] == closed
    assert closed_gold(log, readings(), LATER) == []


def test_a_decision_that_was_not_applied_closes_nothing():
    first, second = gold_log({}, {})
    assert closed_gold([first, replace(second, applied_at=None)], SPEC, LATER) == []


@pytest.mark.parametrize("changes", [{}, QUARANTINED, {"recomputed": ("a",)}])
def test_rows_of_a_decision_that_was_given_up_leave_the_quarantine(changes):
    """Its run was killed after it wrote them, and its rules or inputs were gone."""
    first, second = gold_log(changes, {})
    first = replace(first, applied_at=None)
    assert closed_gold([first, second], SPEC, LATER) == [first.decision_id]


def closed_one_by_one(log):
    """The same by its definition: each decision against all later ones."""
    closed = []
    for index, decision in enumerate(log):
        later = [d for d in log[index + 1 :] if d.applied_at and d.recomputed != ()]
        accepted = [d for d in later if d.accepted]
        parts = {part for d in accepted for part in d.recomputed or ()}
        is_whole = any(d.recomputed is None for d in accepted)
        has_later_parts = decision.recomputed is not None and set(decision.recomputed) <= parts
        if is_whole or has_later_parts or (later and not decision.accepted):
            closed.append(decision.decision_id)
    return closed


def test_long_logs_of_gold_are_read_once(monkeypatch):
    random, log = Random(24), []
    for number in range(1, 401):
        parts = tuple(sorted(random.sample("abcdefgh", random.randint(0, 3))))
        changes = QUARANTINED if random.random() < 0.3 else {}
        counts = Counts(3, 2, 0, 1, 0) if parts else Counts()
        recomputed = None if number in (20, 200) else parts
        decision = decided(number, "gold_days", recomputed=recomputed, counts=counts, **changes)
        log.append(replace(decision, applied_at=DECIDED if random.random() < 0.9 else None))
    expected = [d.decision_id for d in log if d.counts.rows_quarantined and d.decision_id in set(closed_one_by_one(log))]
    reads, accepted = [], Decision.accepted.fget
    monkeypatch.setattr(Decision, "accepted", property(lambda self: reads.append(self.number) or accepted(self)))
    assert closed_gold(log, SPEC, LATER) == expected
    assert 300 < len(expected) < len(log)
    assert len(reads) <= 3 * len(log)


def files_of_decisions(settings, table: str) -> int:
    return delta.row_counts(DECISIONS.path(settings)).column("partition.table").to_pylist().count(table)


def test_the_logs_of_a_daily_table_are_compacted(settings, monkeypatch):
    # The table has a log alone.
    monkeypatch.setattr(maintenance, "completed_before", lambda _: nullcontext())
    monkeypatch.setattr(log_compaction, "FEW_FILES", 1)
    for number in (1, 2, 3):
        write(settings, [decided(number)])
    assert files_of_decisions(settings, "readings") > 1
    assert maintain(runner(None, settings, SPEC)) == []
    assert files_of_decisions(settings, "readings") == 1
    assert len(logs.decisions(settings, "readings")) == 3


def test_gold_is_maintained_with_its_quarantine_and_logs(spark, settings, monkeypatch):
    monkeypatch.setattr(log_compaction, "FEW_FILES", 1)
    log = gold_log({}, QUARANTINED, {})
    for decision in log:
        write(settings, [replace(decision, applied_at=None)])
    ids = [decision.decision_id for decision in log]
    rows = spark.createDataFrame([(name,) for name in ids], "decision_id string")
    for path in (settings.path("gold", "days"), settings.path("quarantine", "gold_days")):
        rows.repartition(3).write.format("delta").save(path)
    run = replace(runner(spark, settings, SPEC), clock=lambda: LATER)
    maintained = {each.layer: each for each in maintain_gold(run, ["days", "absent"])}
    assert {layer: each.rows_removed for layer, each in maintained.items()} == {"gold_days": 0, "quarantine_gold_days": 2}
    assert [row["decision_id"] for row in rows_of(settings.path("quarantine", "gold_days"))] == ids[-1:]
    assert len(rows_of(settings.path("gold", "days"))) == 3
    deletions = []
    monkeypatch.setattr(maintenance.DeltaTable, "delete", lambda *_: deletions.append(1))
    maintain_gold(run, ["days"])
    assert deletions == [], "the rows of closed decisions are gone"
    assert files_of_decisions(settings, "gold_days") == 1
