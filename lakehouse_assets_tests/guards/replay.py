"""Deciding again on a guarded version from what its decision recorded, without the table.

Belongs here: recorded measurements → verdict. Does not: the tests.
"""

from lakehouse_assets.contracts.decision import Counts, Decision
from lakehouse_assets.decisions import gate
from lakehouse_assets.decisions.decide import BatchEvidence, Knowledge, drift_verdict
from lakehouse_assets.decisions.drift.relations import read_measurement
from lakehouse_assets.decisions.guard_decision import recorded_numbers, recorded_outcomes
from lakehouse_assets.decisions.verdict import verdict_of


def replay(decision: Decision, knowledge: Knowledge) -> tuple[str, Counts, float | None]:
    """Return verdict, counts and p-value that the recorded measurements give again, without the table. ``knowledge``: what was
    known then. ``decision``: with its evidence.
    """
    numbers = recorded_numbers(decision)
    outcomes = [outcome for outcome in recorded_outcomes(decision) if outcome.check != "drift"]
    failed_drift = [o for o in recorded_outcomes(decision) if o.check == "drift" and o.status == "error"]
    profiles = [read_measurement(profile) for profile in decision.profiles]
    start = decision.p_extracted_at
    drift = None
    if profiles and start is not None and not failed_drift:
        drift = drift_verdict(start, BatchEvidence(numbers, profiles), knowledge)
    outcomes += failed_drift
    verdict, counts = verdict_of(gate.waive([*outcomes, *gate.drift_outcome(drift, numbers)], decision.waived), numbers)
    return verdict, counts, drift.p_value if drift else None
