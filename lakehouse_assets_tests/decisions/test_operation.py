"""The id of an operation, pure: what makes two requests the same one, and which decisions it has made already.

Belongs here: ids and decisions. Does not: processes that are killed (laws).
"""

from dataclasses import replace

import pytest

from lakehouse_assets.contracts.decision import Counts
from lakehouse_assets.decisions.operation import Operation
from lakehouse_assets_tests.logbook import decided

REQUEST = {"window": "2024-01-02", "extraction_seq": 1, "by": "ann", "because": "x", "waived": ["a"], "teach": None}
RELEASE = Operation("readings", "released", REQUEST, {"rules": "r", "tables": {}, "baseline": 0})
QUARANTINED, SETTLED = Counts(3, 2, 0, 1, 0), Counts(3, 3, 0, 0, 0)


def log(counts=QUARANTINED, kind="released", operation=RELEASE, **more):
    """A batch that was judged (2), and acted upon as the third decision of its table."""
    first = [decided(1), decided(2)]
    batch = {"p_extracted_at": first[1].p_extracted_at, "kind": kind, "counts": counts}
    return [*first, decided(3, operation=operation.id_after(2), **batch, **more)]


def numbers(operation, decisions, attempts=()):
    return [d.number for d in operation.decisions_made(decisions, attempts).values()]


def test_a_repeated_request_returns_its_decision():
    assert numbers(RELEASE, log()) == [3]
    assert numbers(RELEASE, log()[:2]) == []


@pytest.mark.parametrize(
    "changes",
    [{"by": "bob"}, {"because": "y"}, {"waived": []}, {"teach": True}, {"window": "2024-01-03"}, {"extraction_seq": 2}],
)
def test_a_changed_request_is_another_operation(changes):
    assert numbers(replace(RELEASE, said=REQUEST | changes), log()) == []
    assert numbers(replace(RELEASE, said=REQUEST | changes), log(SETTLED), {"run-3"}) == []


def test_other_rules_make_another_operation_unless_nothing_is_left_to_judge():
    other = replace(RELEASE, judged_by={"rules": "s"})
    assert numbers(other, log()) == []
    assert numbers(other, log(SETTLED)) == [3]
    # A judgement on request is by today's rules, whatever is in quarantine.
    again, later = (replace(o, kind="rejudged") for o in (RELEASE, other))
    decisions = log(SETTLED, "rejudged", again)
    assert (numbers(again, decisions), numbers(later, decisions)) == ([3], [])


def test_another_attempt_of_the_same_run_is_the_same_operation():
    other = replace(RELEASE, judged_by={"rules": "s"})
    assert numbers(other, log(), {"run-3"}) == [3]
    before_ids = [replace(d, operation=None) for d in log()]
    assert (numbers(RELEASE, before_ids), numbers(RELEASE, before_ids, {"run-3"})) == ([], [3])


@pytest.mark.parametrize("kind", ["released", "discarded"])
def test_a_later_request_is_another_operation_while_rows_are_quarantined(kind):
    operation = replace(RELEASE, kind=kind)
    quarantined, settled = log(QUARANTINED, kind, operation), log(SETTLED, kind, operation)
    learnt = [decided(number) for number in range(4, 61)]
    assert numbers(operation, [*quarantined, *learnt]) == []
    assert numbers(operation, [*settled, *learnt]) == [3]
    # Another attempt of the same run, and a killed one that a person repeats with nothing decided in between.
    assert numbers(operation, [*quarantined, *learnt], {"run-3"}) == [3]
    assert numbers(operation, quarantined) == [3]
    # What it superseded itself is no other decision.
    own = replace(quarantined[0], number=4, superseded_by=quarantined[2].decision_id)
    assert numbers(operation, [*quarantined, own]) == [3]


def test_a_batch_without_rows_that_is_still_quarantined_is_not_settled():
    decisions = log(Counts(0, 0, 0, 0, 0), verdict="quarantined")
    assert numbers(RELEASE, decisions) == [3]
    assert numbers(RELEASE, [*decisions, decided(4)]) == []


def test_a_request_after_another_decision_runs_anew():
    decisions = log()
    later = decided(4, p_extracted_at=decisions[1].p_extracted_at, kind="rejudged")
    assert numbers(RELEASE, [*decisions, later]) == []
    superseded = replace(decisions[2], number=4, superseded_by="other", operation=None)
    assert numbers(RELEASE, [*decisions, superseded]) == []
    # Made by the same words on that state, it is an operation of its own, and is found as such.
    anew = decided(5, p_extracted_at=decisions[1].p_extracted_at, kind="released", operation=RELEASE.id_after(4))
    assert numbers(RELEASE, [*decisions, later, anew]) == [5]
    assert RELEASE.id_after(4) != RELEASE.id_after(2)
