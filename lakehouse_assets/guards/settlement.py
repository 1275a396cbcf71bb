"""A person's decision on a quarantined version of a guarded table: release or discard. Rows are read only to publish them.

Belongs here: finding the version, and logging the decision. Does not: its verdict (decisions/guard_decision).
"""

from collections.abc import Callable
from functools import partial

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decide import JudgementRequest
from lakehouse_assets.decisions.guard_decision import settle
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.guards.guard_run import GuardRun, located_run, writer_of
from lakehouse_assets.guards.observed_table import GuardState
from lakehouse_assets.guards.recorded_version import target_of_decision
from lakehouse_assets.guards.run import APPLYING, apply, locked
from lakehouse_assets.pipeline.gate import log, measure, run_steps, stage
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.check_results import project_check_results


def settle_version(run: GuardRun, version: int, request: JudgementRequest) -> Decision:
    """Release or discard a quarantined version, and return the decision. A request that was killed is done once. If the guard
    publishes, the rows of a released version are read again, and go into the clean table.

    Raises RefusedError if the version was not judged, or is not in quarantine; SourceError if its rows are wanted, and gone.
    """
    run = located_run(run) if run.guard.publish else run
    with locked(run):
        state = GuardState.read(run.settings, run.guard)
        decisions = state.decisions
        current = _current(run.table, decisions, version)
        if request.operation and current.operation == request.operation:
            return current
        (evidence,) = logs.with_evidence(run.settings, run.table, [current])
        number = ledger.last_number(decisions) + 1
        settled = partial(settle, evidence, request, number=number, run_id=run.run_id, at=run.clock())
        if run.guard.publish is None or request.kind == "discarded":
            decision = settled()
            logs.log_decisions(run.settings, [decision])
            run.step("log_done")
            apply(run, [decision], decisions)
        else:
            decision = _release_rows(run, state, evidence, request, settled)
        run.step("mark_applied_done")
        project_check_results(run.settings, run.table)
        return decision


def _release_rows(
    run: GuardRun, state: GuardState, evidence: Decision, request: JudgementRequest, settled: Callable[..., Decision]
) -> Decision:
    """Release a version by the steps of the gate: its rows without the overridden checks are counted, logged and published."""
    with target_of_decision(run, state, evidence, request.waived) as target:
        if target.mistakes:
            raise RefusedError(
                f"{run.table}: the rows of version {evidence.bronze_version} cannot be published: {target.mistakes[0]};"
                " change `columns`, or discard the version"
            )
        target.publish = writer_of(run, target)
        run_steps(target, (stage, measure))
        decision = settled(numbers=target.numbers.get(target.batch))
        target.decisions = [decision]
        target.log = [*target.log, decision]
        run_steps(target, (log, *APPLYING))
        return decision


def _current(table: str, decisions: list[Decision], version: int) -> Decision:
    """Return the current decision on a version."""
    judgements = [d for d in ledger.current_decisions(decisions).values() if d.bronze_version == version]
    if not judgements:
        numbers = sorted({d.bronze_version for d in decisions if d.bronze_version is not None})
        shown = f"judged are {numbers[0]} to {numbers[-1]}" if numbers else "no version was judged"
        raise RefusedError(f"{table}: version {version} was not judged; {shown}")
    return max(judgements, key=lambda d: d.number)
