"""The protocol of several machines keeps its promises in every interleaving, and each of its safeguards is needed.

Belongs here: what the model finds, whole and with a safeguard left out. Does not: processes (storage/test_several_writers).
"""

from dataclasses import fields, replace

import pytest

from lakehouse_assets.pipeline import gate
from lakehouse_assets_tests.laws.protocol_model import EXISTING, FRESH, Budget, explore
from lakehouse_assets_tests.laws.protocol_store import Safeguards
from lakehouse_assets_tests.laws.protocol_writer import GATE

TWICE = "bronze has an extraction twice"
LATE = "a commit to bronze under lease"
LATE_IN_SILVER = "a commit to silver under lease"
LATE_RECORD = "a commit to extractions under lease"
# Safeguards left out; the lake at first; what may happen; what the model finds then.
BROKEN = {
    "puts_lease_if_absent": (EXISTING, Budget(3), TWICE),
    "confirms_claim": (EXISTING, Budget(2, renewals=2), TWICE),
    "fences_takeover": (EXISTING, Budget(2), LATE),
    "fences_logs": (EXISTING, Budget(2), LATE_RECORD),
    "checks_number_at_fence": (EXISTING, Budget(3), LATE),
    "abandons_failed_fence": (EXISTING, Budget(3, failed_fences=1), LATE),
    "checks_number_at_commit": (EXISTING, Budget(2), LATE),
    "creates_version_once": (EXISTING, Budget(2), LATE),
    "compares_content": (EXISTING, Budget(2, lost_replies=1), TWICE),
    "states_lease_in_tables": (EXISTING, Budget(2), LATE_IN_SILVER),
    "reads_number_of_commits": (FRESH, Budget(2, deaths=1), "silver has a decision twice"),
    "states_lease_in_logs": (EXISTING, Budget(2), LATE_RECORD),
    "fences_after_errors": (EXISTING, Budget(3, late_requests=1), LATE),
    "refuses_unfenced_tables": (FRESH, Budget(3), TWICE),
    "fences_absent_tables_later": (FRESH, Budget(3, empty_runs=1), TWICE),
    "claims_decision_numbers,states_lease_in_logs": (EXISTING, Budget(2), "two decisions have one number"),
    "claims_decision_numbers,fences_logs": (EXISTING, Budget(2), "two decisions have one number"),
}


def without(names: str) -> Safeguards:
    """Return the protocol without these safeguards."""
    return replace(Safeguards(), **dict.fromkeys(names.split(","), False))


def test_each_step_of_the_gate_has_its_actions():
    assert list(GATE) == [step.__name__ for step in gate.STEPS]


def test_each_safeguard_is_left_out_once():
    assert {name for names in BROKEN for name in names.split(",")} == {field.name for field in fields(Safeguards)}


@pytest.mark.parametrize("names", BROKEN)
def test_without_a_safeguard_the_model_finds_what_goes_wrong(names):
    start, budget, message = BROKEN[names]
    exploration = explore(start, 2, budget, without(names), message)
    print(f"without {names}: {exploration.violation}", *exploration.trace, sep="\n  ")
    assert message in exploration.violation
    assert exploration.trace


@pytest.mark.parametrize("names", ["claims_decision_numbers", "states_lease_in_logs", "fences_logs"])
def test_one_of_two_safeguards_is_enough_for_the_numbers_of_decisions(names):
    assert explore(EXISTING, 2, Budget(2), without(names), "two decisions").violation == ""


@pytest.mark.parametrize(
    ("start", "budget"),
    [
        (EXISTING, Budget(3)),
        (EXISTING, Budget(2, 1, 1, 1, 1, 1)),
        (FRESH, Budget(2, deaths=1, late_requests=1)),
        (FRESH, Budget(3)),
        (FRESH, Budget(3, empty_runs=1)),
    ],
    ids=["three leases", "each fault", "a lake without tables, faults", "a lake without tables", "runs without data"],
)
def test_two_writers_keep_every_promise(start, budget):
    exploration = explore(start, 2, budget)
    assert exploration.violation == "", "\n".join(exploration.trace)
    assert exploration.states > 10_000


@pytest.mark.exhaustive(seconds=220)
@pytest.mark.parametrize(
    ("start", "writers", "budget"),
    [
        (EXISTING, 2, Budget(2, 2, 1, 1, 1, 1, 1)),
        (EXISTING, 2, Budget(3, deaths=1, late_requests=1)),
        (EXISTING, 2, Budget(4)),
        (EXISTING, 3, Budget(3)),
        (EXISTING, 3, Budget(3, deaths=1)),
        (FRESH, 2, Budget(2, 1, 1, 1, 1, 1)),
        (FRESH, 3, Budget(3)),
    ],
)
def test_more_writers_and_faults_keep_every_promise(start, writers, budget):
    exploration = explore(start, writers, budget)
    assert exploration.violation == "", "\n".join(exploration.trace)
