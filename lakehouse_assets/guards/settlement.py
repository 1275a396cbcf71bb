"""A person's decision on a quarantined version of a guarded table: release or discard. Rows are read only to publish them.

Belongs here: finding the version, and logging the decision. Does not: its verdict (decisions/guard_decision).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.windows import parse_key
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decide import JudgementRequest
from lakehouse_assets.decisions.guard_decision import may_be_window, replaced_extractions, settle
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.guards.guard_run import GuardRun, located_run, writer_of
from lakehouse_assets.guards.observed_table import GuardState
from lakehouse_assets.guards.recorded_version import target_of_decision
from lakehouse_assets.guards.run import APPLYING, apply, hold_lock
from lakehouse_assets.pipeline.gate import log, measure, run_steps, stage
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.check_results import project_check_results


def settle_version(run: GuardRun, version: int | datetime, request: JudgementRequest) -> Decision:
    """Release or discard a quarantined version, or the window that starts at a time, and return the decision. A request that
    was killed is done once. If the guard publishes, rows of a released version are read again, and go into the clean table.

    Raises RefusedError if the version was not judged, or is not in quarantine; SourceError if its rows are wanted, and gone.
    """
    run = located_run(run) if run.guard.publish else run
    with hold_lock(run):
        state = GuardState.read(run.settings, run.guard)
        decisions = state.decisions
        current = current_decision(run.guard, decisions, version)
        if request.operation and current.operation == request.operation:
            return current
        (evidence,) = logs.with_evidence(run.settings, run.table, [current])
        number = ledger.last_number(decisions) + 1
        settled = partial(settle, evidence, request, number=number, run_id=run.run_id, at=run.clock())
        if run.guard.publish is None or request.kind == "discarded":
            decision = settled()
            logs.log_decisions(run.settings, [decision, *_replaced(run, decision, decisions)])
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
        target.decisions = [decision, *_replaced(run, decision, state.decisions)]
        target.log = [*target.log, *target.decisions]
        run_steps(target, (log, *APPLYING))
        return decision


def chosen_batch(guard: GuardSpec, version: int | None, window: str | None) -> int | datetime:
    """Return the version, or the start of the window, that a person named. Raises RefusedError unless it is one of both."""
    if (version is None) == (window is None):
        raise RefusedError(f"{guard.name}: name a version (--version 3), or a window of a guard with `windows` (--window …)")
    if window is None:
        return version or 0
    if guard.windows is None:
        raise RefusedError(f"{guard.name}: it has no `windows`: name the version with --version")
    for cadence in ("hourly", "daily"):
        with suppress(ValueError):
            return parse_key(window, cadence).start
    raise RefusedError(f"{guard.name}: --window {window}: a window is named by its start, as 2024-05-01 or 2024-05-01-07:00")


def _replaced(run: GuardRun, decision: Decision, decisions: Sequence[Decision]) -> list[Decision]:
    """Return the records of a window's earlier extractions, which a release replaces."""
    return replaced_extractions(decision, decisions) if run.guard.windows else []


def current_decision(guard: GuardSpec, decisions: Sequence[Decision], version: int | datetime) -> Decision:
    """Return the current decision on a version, or on a window's newest extraction. Raises RefusedError without one."""
    table = guard.name
    current = ledger.current_decisions(decisions).values()
    if isinstance(version, datetime):
        of_window = [d for d in current if d.p_extracted_at == version]
        if not of_window:
            raise RefusedError(f"{table}: the window {version:%Y-%m-%d %H:%M} was not judged")
        return max(of_window, key=lambda d: d.extraction_seq)
    judgements = [d for d in current if d.bronze_version == version]
    if guard.windows:
        # A version has many windows; by its number one settles what was said of the table as a whole.
        judgements = [d for d in judgements if d.p_extracted_at and not may_be_window(d.p_extracted_at)]
        if not judgements:
            raise RefusedError(f"{table}: nothing was decided on version {version} as a whole; name the window with --window")
    if not judgements:
        numbers = sorted({d.bronze_version for d in decisions if d.bronze_version is not None})
        shown = f"judged are {numbers[0]} to {numbers[-1]}" if numbers else "no version was judged"
        raise RefusedError(f"{table}: version {version} was not judged; {shown}")
    return max(judgements, key=lambda d: d.number)
