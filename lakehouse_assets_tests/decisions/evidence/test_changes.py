"""Comparing only what has changed: it finds nothing only where the full comparison finds nothing.

Belongs here: random changes of whole evidence, against the full comparison. Does not: what is a finding (test_comparison).
"""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_assets.contracts.decision import Counts
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decision_log import DecisionLog
from lakehouse_assets.decisions.evidence import changes
from lakehouse_assets.decisions.evidence.changes import is_still_whole
from lakehouse_assets.decisions.evidence.comparison import compare_evidence
from lakehouse_assets.decisions.evidence.findings import Change, TableState
from lakehouse_assets.decisions.extraction_log import ExtractionLog
from lakehouse_assets.decisions.growing_map import GrowingMap
from lakehouse_assets_tests.decisions.evidence.test_comparison import (
    ALL,
    AT,
    CRASHES,
    DAMAGE,
    DAY,
    INVENTORY,
    LOGS,
    RECORD,
    STATES,
    UNAPPLIED,
    decision,
    extraction,
)

# Two more windows, read by positions: one partly replaced, one that waits for its mark.
FIRST = decision(4, 6, (3, 2, 0, 1, 0), teaches=True)
SECOND = decision(4, 7, (2, 2, 0, 0, 0), seq=2, run_id="later")
REMAINDER = replace(FIRST, number=7, counts=Counts(3, 1, 1, 1, 0), superseded_by=SECOND.decision_id)
WAITING = replace(UNAPPLIED, number=8, run_id="last")
AT_POSITIONS = [replace(extraction(day, rows, seq), position=f"{day}") for day, rows, seq in ((4, 3, 1), (4, 2, 2), (5, 2, 1))]
BASE = (
    replace(
        RECORD,
        decisions=(*ALL, FIRST, SECOND, REMAINDER, WAITING),
        extractions=(*RECORD.extractions, *AT_POSITIONS),
        given_up={"given up"},
    ),
    replace(
        INVENTORY,
        tables={**STATES, "ops/positions": TableState(2, 2)},
        bronze={**INVENTORY.bronze, (DAY[4], 1): 3, (DAY[4], 2): 2, (DAY[5], 1): 2},
        quarantine={**INVENTORY.quarantine, FIRST.decision_id: 1},
        positions={DAY[4], DAY[5]},
        in_silver={SECOND.decision_id},
        named=[*INVENTORY.named, SECOND.decision_id],
    ),
)
BATCHES = [(day, seq) for day in DAY.values() for seq in (1, 2, 3)]
IDS = [*(d.decision_id for d in BASE[0].decisions), "strange", "given up", "seed-1", "seed-2"]


def test_the_base_is_whole():
    assert compare_evidence("t", *BASE) == []
    assert is_still_whole("t", BASE, BASE)


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_noticed(name):
    now = (RECORD, replace(INVENTORY, **DAMAGE[name][0]))
    assert not is_still_whole("t", (RECORD, INVENTORY), now)


@pytest.mark.parametrize("name", LOGS)
def test_damage_of_a_log_is_noticed(name):
    now = (replace(RECORD, **LOGS[name][0]), INVENTORY)
    assert not is_still_whole("t", (RECORD, INVENTORY), now)


@pytest.mark.parametrize("name", CRASHES)
def test_what_a_crash_leaves_needs_no_full_comparison(name):
    record, inventory = CRASHES[name]
    now = (replace(RECORD, **record), replace(INVENTORY, **inventory))
    assert is_still_whole("t", (RECORD, INVENTORY), now)
    assert is_still_whole("t", now, now)


def test_only_windows_that_have_changed_are_compared(monkeypatch):
    compared = []
    monkeypatch.setattr(changes, "compare_evidence", lambda _, record, inventory: compared.append((record, inventory)) or [])
    now = (BASE[0], replace(BASE[1], bronze={**BASE[1].bronze, (DAY[4], 2): 9}))
    assert is_still_whole("t", BASE, now)
    ((record, inventory),) = compared
    assert {each.p_extracted_at for each in (*record.decisions, *record.extractions)} == {DAY[4]}
    assert inventory.bronze == {(DAY[4], 1): 3, (DAY[4], 2): 9}
    assert inventory.quarantine == {FIRST.decision_id: 1}
    assert inventory.profiles == {"seed-1": 20}


def changed_numbers(data, numbers, keys):
    key = data.draw(st.sampled_from(keys))
    rows = data.draw(st.sampled_from([None, 0, 1, 2, 3, 9]))
    return {**{k: v for k, v in numbers.items() if k != key}, **({} if rows is None else {key: rows})}


def changed_members(data, members, values):
    value = data.draw(st.sampled_from(values))
    return [each for each in members if each != value] if value in members else [*members, value]


def changed_entries(data, entries, change):
    """An entry is gone, there twice, changed, or all are as if they were read again."""
    how = data.draw(st.sampled_from(["gone", "twice", "changed", "anew"]))
    if how == "anew" or not entries:
        return tuple(replace(each) for each in entries)
    index = data.draw(st.integers(0, len(entries) - 1))
    parts = {"gone": (), "twice": (entries[index],) * 2, "changed": (change(entries[index]),)}
    return (*entries[:index], *parts[how], *entries[index + 1 :])


def changed_decision(data, one):
    values = data.draw(
        st.sampled_from(
            [
                {"applied_at": None}, {"applied_at": AT}, {"number": one.number + 1}, {"run_id": "another"}, {"teaches": True},
                {"verdict": "quarantined"}, {"verdict": "published"}, {"counts": Counts(4, 0, 0, 4, 0)},
                {"counts": Counts(3, 2, 0, 1, 0)}, {"superseded_by": SECOND.decision_id}, {"extraction_seq": 3},
                {"p_extracted_at": DAY[6]}, {"kind": "released"},
            ]
        )
    )  # fmt: skip
    return replace(one, **values)


def changed_extraction(data, one):
    choices = [{"rows": 1}, {"rows": one.rows}, {"bronze_version": 9}, {"position": "p"}, {"position": None}]
    return replace(one, **data.draw(st.sampled_from([*choices, {"p_extracted_at": DAY[6]}, {"extraction_seq": 3}])))


def changed_state(data, tables):
    name = data.draw(st.sampled_from(sorted(tables)))
    states = [TableState(), TableState(4, 4), TableState(5, 5), TableState(9, 9, ("x",)), TableState(unreadable="no")]
    return {**tables, name: data.draw(st.sampled_from(states))}


def changed(data, evidence):
    """One change of the record or the inventory."""
    record, inventory = evidence
    ways = {
        "bronze": lambda: {"bronze": changed_numbers(data, inventory.bronze, BATCHES)},
        "quarantine": lambda: {"quarantine": changed_numbers(data, inventory.quarantine, IDS)},
        "profiles": lambda: {"profiles": changed_numbers(data, inventory.profiles, IDS)},
        "unrecorded": lambda: {"unrecorded": changed_members(data, inventory.unrecorded, BATCHES)},
        "doubled": lambda: {"doubled": changed_members(data, inventory.doubled, IDS)},
        "named": lambda: {"named": changed_members(data, inventory.named, IDS)},
        "in_silver": lambda: {"in_silver": changed_members(data, inventory.in_silver, IDS)},
        "positions": lambda: {"positions": changed_members(data, inventory.positions, [*DAY.values()])},
        "tables": lambda: {"tables": changed_state(data, inventory.tables)},
        "changes": lambda: {"changes": [Change(5, "WRITE", data.draw(st.booleans()), data.draw(st.integers(0, 2)))]},
        "last_event": lambda: {"last_event": AT + timedelta(days=data.draw(st.integers(-1, 1)))},
    }
    logs = {
        "decisions": lambda: {
            "decisions": changed_entries(data, record.decisions, lambda one: changed_decision(data, one)),
        },
        "extractions": lambda: {
            "extractions": changed_entries(data, record.extractions, lambda one: changed_extraction(data, one)),
        },
        "teaching": lambda: {"teaching": changed_members(data, record.teaching, [d.decision_id for d in record.decisions])},
        "unmeasured": lambda: {"unmeasured": changed_members(data, record.unmeasured, IDS)},
        "given_up": lambda: {"given_up": changed_members(data, record.given_up, IDS)},
        "twice": lambda: {"recorded_twice": changed_members(data, record.recorded_twice, BATCHES)},
        "seeds": lambda: {"seeds": changed_numbers(data, record.seeds, ["seed-1", "seed-2"])},
        "silver": lambda: {"silver": data.draw(st.sampled_from([None, (4, 4), (4, None), (5, 5)]))},
    }
    way = data.draw(st.sampled_from([*ways, *logs]))
    if way in logs:
        record = replace(record, **logs[way]())
        logged_ids = {d.decision_id for d in record.decisions}
        return replace(record, teaching=[name for name in record.teaching if name in logged_ids]), inventory
    return record, replace(inventory, **ways[way]())


@given(st.data())
@settings(max_examples=1500, deadline=None)
def test_nothing_is_missed(data):
    before = BASE
    for _ in range(data.draw(st.integers(0, 3))):
        changed_before = changed(data, before)
        before = changed_before if compare_evidence("t", *changed_before) == [] else before
    now = before
    for _ in range(data.draw(st.integers(1, 3))):
        now = changed(data, now)
    if is_still_whole("t", before, now):
        assert compare_evidence("t", *now) == []


def grown(before: GrowingMap, now) -> GrowingMap:
    """The mapping that has grown from another one."""
    later = before.copy()
    for key in {*before} - {*now}:
        del later[key]
    later.update(now)
    return later


def as_kept(before, now):
    """Both as a process keeps them: logs with sums, and mappings of which one has grown from the other."""
    maps = {name: GrowingMap(getattr(before[1], name)) for name in ("bronze", "quarantine", "profiles")}
    later = {name: grown(each, getattr(now[1], name)) for name, each in maps.items()}
    records = [
        replace(record, decisions=DecisionLog(record.decisions), extractions=ExtractionLog(record.extractions))
        for record, _ in (before, now)
    ]
    for record in records:
        assert ledger.last_number(record.decisions) >= 0
    return (records[0], replace(before[1], **maps)), (records[1], replace(now[1], **later))


@given(st.data())
@settings(max_examples=1000, deadline=None)
def test_nothing_is_missed_of_what_a_process_keeps(data):
    now = before = BASE
    for _ in range(data.draw(st.integers(1, 3))):
        now = changed(data, now)
    if is_still_whole("t", *as_kept(before, now)):
        assert compare_evidence("t", *now) == []
    assert is_still_whole("t", *as_kept(before, before))
