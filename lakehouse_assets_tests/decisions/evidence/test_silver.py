"""Silver and the log's counts: what other programs commit, what a mark knows, and a lost log of an idle table."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lakehouse_assets.contracts.decision import Counts, Decision, ExtractionRecord
from lakehouse_assets.decisions.evidence.comparison import compare_evidence
from lakehouse_assets.decisions.evidence.findings import Change, Inventory, LoggedEvidence, TableState

AT = datetime(2024, 6, 1, tzinfo=UTC)
DAY = datetime(2024, 1, 1, tzinfo=UTC)
EXTRACTION = ExtractionRecord("t", DAY, 1, "print", 3, (), 0, "run", AT)
DECISION = Decision(
    "t", DAY, 1, 1, "judged", "published", Counts(3, 3, 0, 0, 0), (), "hash", "{}", 0, None, "run", AT,
    applied_at=AT, silver_version=1,
)  # fmt: skip
RECORD = LoggedEvidence(extractions=(EXTRACTION,), decisions=(DECISION,), silver=(1, 3))


def inventory(version: int, rows: int, *changes: Change) -> Inventory:
    states = {"bronze": TableState(0, 3), "silver": TableState(version, rows), "quarantine": TableState()}
    states |= {"ops/decisions": TableState(0, 1), "ops/extractions": TableState(0, 1)}
    return Inventory(tables=states, bronze={(DAY, 1): 3}, changes=changes)  # type: ignore[arg-type]


def kinds(record: LoggedEvidence, measured: Inventory) -> list[tuple[str, str]]:
    return [(finding.place, finding.kind) for finding in compare_evidence("t", record, measured)]


UPDATE = Change(2, "UPDATE", False, None)
REBUILD = Change(3, "WRITE", True, 3, whole=True)


@pytest.mark.parametrize(("changes", "rows", "expected"), [
    ([UPDATE], 3, [("silver", "foreign")]),
    ([Change(2, "RESTORE", False, None)], 3, [("silver", "foreign")]),
    ([Change(2, "WRITE", False, 0, whole=True)], 3, [("silver", "foreign")]),
    ([UPDATE], 2, [("silver", "fewer")]),
    ([Change(2, "OPTIMIZE", False, 0), Change(3, "SET TBLPROPERTIES", False, 0)], 3, []),
    ([UPDATE, REBUILD], 3, []),
    ([UPDATE, REBUILD, replace(UPDATE, version=4)], 3, [("silver", "foreign")]),
    ([Change(9, "no longer in the log", True, None), UPDATE], 7, [("silver", "foreign")]),
    ([Change(9, "no longer in the log", True, None), REBUILD], 2, [("silver", "fewer")]),
])  # fmt: skip
def test_commits_of_silver_since_the_mark(changes, rows, expected):
    assert kinds(RECORD, inventory(changes[-1].version, rows, *changes)) == expected


def test_before_the_first_mark_silver_has_the_rows_of_its_own_commits():
    unmarked = replace(RECORD, decisions=(replace(DECISION, applied_at=None, silver_version=None),), silver=None)
    own = [Change(0, "WRITE", False, 0), Change(1, "MERGE", True, 3)]
    assert kinds(unmarked, inventory(1, 3, *own)) == []
    assert kinds(unmarked, inventory(2, 1, *own, Change(2, "DELETE", False, None))) == [("silver", "fewer")]


def test_a_decision_on_other_rows_than_its_extraction_has_on_record():
    counts = Counts(4, 3, 1, 0, 0)
    decided = replace(RECORD, decisions=(replace(DECISION, counts=counts),))
    (finding,) = compare_evidence("t", decided, inventory(1, 3))
    assert (finding.place, finding.kind, finding.window) == ("ops/extractions", "fewer", DAY)
    assert finding.message == "3 rows of the extraction are on record, and its decision counted 4"
    assert "one backup" in finding.mend


def test_silver_without_any_decision_is_a_lost_log_even_if_no_commit_names_one():
    lost = replace(RECORD, decisions=(), silver=None)
    (finding,) = compare_evidence("t", lost, inventory(30, 3))
    assert (finding.place, finding.kind) == ("ops/decisions", "lost")
    assert "silver/t is there, and no decision on it" in finding.message and "--accept-loss" in finding.mend
    assert kinds(replace(lost, given_up={"unnamed"}), inventory(30, 3)) == []


@pytest.mark.parametrize("profile", [1, 2])
def test_doubled_profiles(profile):
    joining = replace(RECORD, teaching=(DECISION.decision_id,), seeds={"seed-1": 2})
    measured = replace(inventory(1, 3), profiles={DECISION.decision_id: 1, "seed-1": 2})
    assert kinds(joining, measured) == []
    name = [DECISION.decision_id, "seed-1"][profile - 1]
    assert kinds(joining, replace(measured, doubled={name})) == [("baseline", "doubled")]
