"""A person's decision on a quarantined version of a guarded table: release or discard. No row is read.

Belongs here: finding the version, and logging the decision. Does not: its verdict (decisions/guard_decision).
"""

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decide import JudgementRequest
from lakehouse_assets.decisions.guard_decision import settle
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.guards.run import GuardRun, apply, last_number, locked
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.check_results import project_check_results


def settle_version(run: GuardRun, version: int, request: JudgementRequest) -> Decision:
    """Release or discard a quarantined version, and return the decision. A request that was killed is done once.

    Raises RefusedError if the version was not judged, or is not in quarantine.
    """
    with locked(run):
        decisions = logs.decisions(run.settings, run.table)
        current = _current(run.table, decisions, version)
        if request.operation and current.operation == request.operation:
            return current
        (evidence,) = logs.with_evidence(run.settings, run.table, [current])
        number = last_number(decisions) + 1
        decision = settle(evidence, request, number=number, run_id=run.run_id, at=run.clock())
        logs.log_decisions(run.settings, [decision])
        run.step("log_done")
        apply(run, [decision])
        run.step("mark_applied_done")
        project_check_results(run.settings, run.table)
        return decision


def _current(table: str, decisions: list[Decision], version: int) -> Decision:
    """Return the current decision on a version."""
    judged = [d for d in ledger.current_decisions(decisions).values() if d.bronze_version == version]
    if not judged:
        numbers = sorted({d.bronze_version for d in decisions if d.bronze_version is not None})
        shown = f"judged are {numbers[0]} to {numbers[-1]}" if numbers else "no version was judged"
        raise RefusedError(f"{table}: version {version} was not judged; {shown}")
    return max(judged, key=lambda d: d.number)
