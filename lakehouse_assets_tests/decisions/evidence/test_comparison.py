"""What is on record against what is found: each damage by its finding, and what a crash leaves, by none."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakehouse_assets.contracts.decision import Counts, Decision, ExtractionRecord
from lakehouse_assets.decisions.evidence.comparison import compare_evidence
from lakehouse_assets.decisions.evidence.findings import Change, Inventory, LoggedEvidence, TableState, format_findings

AT = datetime(2024, 6, 1, tzinfo=UTC)
DAY = {day: datetime(2024, 1, day, tzinfo=UTC) for day in range(1, 7)}


def extraction(day, rows, seq=1, version=3):
    return ExtractionRecord("t", DAY[day], seq, f"{day}-{seq}", rows, (), version, "run", AT)


def decision(day, number, counts, verdict="published", seq=1, **more):
    fields = {"kind": "judged", "reasons": (), "ruleset_hash": "h", "ruleset": "{}", "bronze_version": 3, "baseline_version": 0}
    fields |= {"run_id": "run", "decided_at": AT, "applied_at": AT, "silver_version": 4} | more
    return Decision("t", DAY[day], seq, number, verdict=verdict, counts=Counts(*counts), **fields)


GOOD = decision(1, 1, (3, 2, 0, 1, 0), teaches=True)
QUARANTINED = decision(2, 2, (4, 0, 0, 4, 0), "quarantined")
FIRST = decision(3, 3, (2, 2, 0, 0, 0))
SECOND = decision(3, 4, (2, 2, 0, 0, 0), seq=2)
REPLACED = replace(FIRST, number=4, counts=Counts(2, 0, 2, 0, 0), superseded_by=SECOND.decision_id)
ALL = (GOOD, QUARANTINED, FIRST, SECOND, REPLACED)
RECORD = LoggedEvidence(
    extractions=(extraction(1, 3), extraction(2, 4), extraction(3, 2), extraction(3, 2, seq=2)),
    decisions=ALL,
    teaching=(GOOD.decision_id,),
    silver=(4, 4),
    seeds={"seed-1": 20},
    last_event=AT,
)
STATES = {
    "bronze": TableState(3, 11), "silver": TableState(4, 4), "quarantine": TableState(1, 5), "baseline": TableState(2, 21),
    "ops/decisions": TableState(9, 9), "ops/extractions": TableState(3, 4), "ops/baselines": TableState(0, 1),
}  # fmt: skip
INVENTORY = Inventory(
    tables=STATES,
    bronze={(DAY[1], 1): 3, (DAY[2], 1): 4, (DAY[3], 1): 2, (DAY[3], 2): 2},
    quarantine={GOOD.decision_id: 1, QUARANTINED.decision_id: 4},
    profiles={GOOD.decision_id: 1, "seed-1": 20},
    named=[GOOD.decision_id, SECOND.decision_id],
    last_event=AT,
)


def states(**changes):
    return {"tables": {**STATES, **{table.replace("ops_", "ops/"): state for table, state in changes.items()}}}


DAMAGE = {
    "fewer rows in bronze": ({"bronze": {**INVENTORY.bronze, (DAY[1], 1): 1}}, [("bronze", "fewer", 1)]),
    "doubled in bronze": ({"bronze": {**INVENTORY.bronze, (DAY[2], 1): 8}}, [("bronze", "more", 2)]),
    "no bronze": ({"bronze": {}, **states(bronze=TableState())}, [("bronze", "lost", d) for d in (1, 2, 3)]),
    "a part of a replaced extraction": ({"bronze": {**INVENTORY.bronze, (DAY[3], 1): 1}}, [("bronze", "fewer", 3)]),
    "a file of bronze": (states(bronze=TableState(3, 11, ("x.parquet",))), [("bronze", "files", None)]),
    "bronze cannot be read": (states(bronze=TableState(unreadable="no")) | {"bronze": {}}, [("bronze", "unreadable", None)]),
    "no quarantine": (
        {"quarantine": {}, **states(quarantine=TableState())}, [("quarantine", "lost", 1), ("quarantine", "lost", 2)],
    ),
    "fewer rows in quarantine": (
        {"quarantine": {GOOD.decision_id: 1, QUARANTINED.decision_id: 3}}, [("quarantine", "fewer", 2)],
    ),
    "doubled in quarantine": ({"quarantine": {GOOD.decision_id: 2, QUARANTINED.decision_id: 4}}, [("quarantine", "more", 1)]),
    "no silver": (states(silver=TableState()), [("silver", "lost", None)]),
    "an older silver": (states(silver=TableState(3, 4)), [("silver", "older", None)]),
    "fewer rows in silver": (states(silver=TableState(4, 3)), [("silver", "fewer", None)]),
    "another program's rows in silver": (
        {**states(silver=TableState(5, 9)), "changes": [Change(5, "WRITE", False, 5)]}, [("silver", "more", None)],
    ),
    "no profiles of a window that teaches": ({"profiles": {"seed-1": 20}}, [("baseline", "fewer", 1)]),
    "a part of a seed": ({"profiles": {**INVENTORY.profiles, "seed-1": 3}}, [("baseline", "fewer", None)]),
    "a decision that is not in the log": ({"named": ["strange"]}, [("ops/decisions", "older", None)]),
    "a quarantined row of an unknown decision": (
        {"quarantine": {**INVENTORY.quarantine, "strange": 1}}, [("ops/decisions", "older", None)],
    ),
    "profiles of an unknown decision": ({"profiles": {"strange": 1}}, [("ops/decisions", "older", None)]),
    "decisions cannot be read": (states(ops_decisions=TableState(unreadable="no")), [("ops/decisions", "unreadable", None)]),
    "a newer event of the baseline": ({"last_event": AT + timedelta(days=1)}, [("ops/baselines", "older", None)]),
}  # fmt: skip

LOGS = {
    "no decisions": ({"decisions": ()}, [("ops/decisions", "lost", None)]),
    "an extraction is not on record": (
        {"extractions": RECORD.extractions[1:]}, [("ops/extractions", "older", 1)],
    ),
    "no extractions": ({"extractions": ()}, [("ops/extractions", "lost", day) for day in (1, 2, 3, 3)]),
    "one decision twice": ({"decisions": (*ALL, QUARANTINED)}, [("ops/decisions", "doubled", 2)] * 2),
    "two decisions of one number": (
        {"decisions": (*ALL, replace(QUARANTINED, number=1, ruleset_hash="x", applied_at=None))},
        [("ops/decisions", "doubled", 1), ("ops/decisions", "doubled", 2)],
    ),
    "recorded by two": ({"recorded_twice": [(DAY[1], 1)]}, [("ops/extractions", "doubled", 1)]),
    "no seeds": ({"last_event": None, "seeds": {}}, [("ops/baselines", "lost", None)]),
}  # fmt: skip

UNAPPLIED = decision(5, 5, (2, 1, 0, 1, 0), applied_at=None, silver_version=None)
CRASHES = {
    "nothing": ({}, {}),
    "extracted and not recorded": ({}, {"bronze": {**INVENTORY.bronze, (DAY[5], 1): 9, (DAY[1], 2): 3}}),
    "extracted again before it was judged, and not recorded": (
        {"extractions": (*RECORD.extractions, extraction(5, 2))},
        {"bronze": {**INVENTORY.bronze, (DAY[5], 1): 7}, "unrecorded": {(DAY[5], 1)}},
    ),
    "decided, and nothing is applied": (
        {"decisions": (*ALL, UNAPPLIED), "extractions": (*RECORD.extractions, extraction(5, 2))},
        {"bronze": {**INVENTORY.bronze, (DAY[5], 1): 2}},
    ),
    "decided, and in quarantine and silver without a mark": (
        {"decisions": (*ALL, UNAPPLIED), "extractions": (*RECORD.extractions, extraction(5, 2))},
        {
            "bronze": {**INVENTORY.bronze, (DAY[5], 1): 2},
            "quarantine": {**INVENTORY.quarantine, UNAPPLIED.decision_id: 1},
            **states(silver=TableState(5, 5)),
            "changes": [Change(5, "MERGE", True, 1)],
        },
    ),
    "folded anew and compacted since": (
        {},
        {**states(silver=TableState(6, 3)), "changes": [Change(5, "WRITE", True, 3, True), Change(6, "OPTIMIZE", False, 0)]},
    ),
    "commits are no longer in the log": ({}, {**states(silver=TableState(99, 3)), "changes": [Change(98, "lost", True, None)]}),
    "a lake of before, without rows on record": ({"silver": (4, None)}, states(silver=TableState(4, 77))),
    "a replaced extraction was removed": ({}, {"bronze": {**INVENTORY.bronze, (DAY[3], 1): 0}}),
    "nothing of the window could be measured": ({"unmeasured": {GOOD.decision_id}}, {"profiles": {"seed-1": 20}}),
    "rows of a closed decision were removed": (
        {"decisions": (*ALL, replace(QUARANTINED, number=5, kind="released", verdict="published", counts=Counts(4, 4)))},
        {"quarantine": {GOOD.decision_id: 1}},
    ),
}  # fmt: skip


def differ(record, inventory):
    findings = compare_evidence("t", replace(RECORD, **record), replace(INVENTORY, **inventory))
    return [(f.place, f.kind, f.window.day if f.window else None) for f in findings]


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_of_a_table(name):
    changes, expected = DAMAGE[name]
    assert sorted(set(differ({}, changes)), key=str) == sorted(set(expected), key=str)


@pytest.mark.parametrize("name", LOGS)
def test_damage_of_a_log(name):
    record, expected = LOGS[name]
    assert sorted(differ(record, {}), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("name", CRASHES)
def test_these_differences_are_no_damage(name):
    assert differ(*CRASHES[name]) == []


def test_remaining_rows_of_a_replaced_extraction_need_bronze_and_quarantine():
    first = decision(3, 3, (3, 2, 0, 1, 0))
    partly_kept = replace(first, number=4, counts=Counts(3, 1, 1, 1, 0), superseded_by=SECOND.decision_id)
    record = {
        "decisions": (GOOD, QUARANTINED, first, SECOND, partly_kept),
        "extractions": (*RECORD.extractions[:2], extraction(3, 3), RECORD.extractions[3]),
    }
    complete = {"bronze": {**INVENTORY.bronze, (DAY[3], 1): 3}, "quarantine": {**INVENTORY.quarantine, first.decision_id: 1}}
    assert differ(record, complete) == []
    assert differ(record, {**complete, "bronze": {**INVENTORY.bronze, (DAY[3], 1): 0}}) == [("bronze", "fewer", 3)]
    assert differ(record, {**complete, "quarantine": INVENTORY.quarantine}) == [("quarantine", "fewer", 3)]


def test_a_finding_names_table_window_and_the_way_out():
    findings = compare_evidence("t", RECORD, replace(INVENTORY, bronze={}, quarantine={}))
    text = format_findings(findings)
    assert "bronze/t 2024-01-01 00:00 #1: 0 rows are there, 3 are on record" in text
    assert "lakehouse verify --table t --mend" in text
    many = format_findings(findings * 4)
    assert "more: lakehouse verify --table t" in many and many.count("Mend:") == 2


def test_missing_profiles_do_not_stop_the_table():
    assert [f.stops for f in compare_evidence("t", RECORD, replace(INVENTORY, profiles={}))] == [False, False]
    assert all(f.stops for f in compare_evidence("t", RECORD, replace(INVENTORY, bronze={})))
