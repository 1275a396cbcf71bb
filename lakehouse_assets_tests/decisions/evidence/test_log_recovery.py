"""Decisions that commits bring back: which are marked as applied, and what no commit keeps."""

from dataclasses import replace

from lakehouse_assets.contracts.decision import Counts
from lakehouse_assets.decisions.evidence.comparison import find_executed, find_missing_numbers
from lakehouse_assets_tests.logbook import decided

PUBLISHED = decided(1)
QUARANTINED = decided(2, verdict="quarantined", counts=Counts(3, 0, 0, 3, 0))
WITHDRAWN = replace(decided(1, verdict="quarantined", counts=Counts(3, 0, 0, 3, 0)), number=3, kind="rejudged")
EMPTY = decided(4, verdict="published", counts=Counts())


def marked(missing, named=(), snapshot=False):
    executed = find_executed(
        missing, [PUBLISHED, QUARANTINED, WITHDRAWN, EMPTY], {d.decision_id for d in named}, snapshot=snapshot
    )
    return [decision.number for decision in executed]


def test_a_decision_is_marked_once_a_silver_commit_names_it():
    assert marked([PUBLISHED, QUARANTINED, WITHDRAWN, EMPTY]) == [2, 4]
    assert marked([PUBLISHED, QUARANTINED, WITHDRAWN, EMPTY], snapshot=True) == [2]
    assert marked([PUBLISHED, WITHDRAWN], [PUBLISHED, WITHDRAWN]) == [1, 3]
    assert marked([]) == []


def test_missing_decision_numbers_are_listed():
    assert find_missing_numbers([PUBLISHED, WITHDRAWN]) == [2]
    assert find_missing_numbers([PUBLISHED], last=3) == [2, 3]
    assert find_missing_numbers([]) == []
