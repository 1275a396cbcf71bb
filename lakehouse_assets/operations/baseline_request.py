"""A request on a baseline, of a table or a guard: pin it, unpin it, forget its windows.

Belongs here: the request, an event in `ops/baselines` under the lock, done once. Does not: seeding, or lost files (baseline).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import DriftRules, DriftSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.operation import Operation
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.pipeline.publish import completed_before
from lakehouse_assets.pipeline.run import TableRun
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.baseline import BaselineEvent, Kind, baseline_events, log_baseline_event
from lakehouse_assets.storage.baseline_state import read_baseline
from lakehouse_assets.storage.evidence import required_profiles

Completing = Callable[[Any], AbstractContextManager[Any]]


def pin(run: TableRun[Any], completing: Completing = completed_before, *, by: str, because: str) -> BaselineEvent:
    """Set the reference that the baseline must stay near to what it is now. Raises RefusedError for an empty baseline."""

    def details(decisions: Sequence[Decision], after: int) -> dict[str, Any]:
        windows = len(read_baseline(run.settings, run.spec, decisions, after).baseline)
        if not windows:
            raise RefusedError(f"{run.table}: the baseline has no window yet; there is nothing to pin")
        return {"windows": windows}

    return apply_once(run, completing, "pin", by, because, details)


def unpin(run: TableRun[Any], completing: Completing = completed_before, *, by: str, because: str) -> BaselineEvent:
    """Remove the reference. Raises RefusedError where nothing is pinned."""

    def details(decisions: Sequence[Decision], after: int) -> dict[str, Any]:
        if not read_baseline(run.settings, run.spec, decisions, after).baseline.pinned:
            raise RefusedError(f"{run.table}: the baseline is not pinned")
        return {}

    return apply_once(run, completing, "unpin", by, because, details)


def forget(run: TableRun[Any], completing: Completing = completed_before, *, by: str, because: str) -> BaselineEvent:
    """Forget every window, and learn anew from the next one; the reference stays. Raises RefusedError for an empty baseline."""

    def details(decisions: Sequence[Decision], after: int) -> dict[str, Any]:
        windows = len(read_baseline(run.settings, run.spec, decisions, after).baseline)
        if not windows and not required_profiles(decisions, baseline_events(run.settings, run.table)):
            raise RefusedError(f"{run.table}: the baseline has no window; there is nothing to forget")
        return {"windows": windows}

    return apply_once(run, completing, "reset", by, because, details)


def drift_of(spec: DriftRules) -> DriftSpec:
    """Return the drift that a table declares. Raises RefusedError for none."""
    if spec.drift is None:
        raise RefusedError(f"{spec.name} declares no drift: it has no baseline")
    return spec.drift


def apply_once(
    run: TableRun[Any],
    completing: Completing,
    kind: Kind,
    by: str,
    because: str,
    details: Callable[[Sequence[Decision], int], dict[str, Any]],
    content: Mapping[str, Any] | None = None,
    write: Callable[[BaselineEvent], None] = lambda _: None,
) -> BaselineEvent:
    """Log the event of a request under the table's lock, unless it was logged before. ``details``: what else the event says,
    from the table's decisions and the number of the last one; refuses the request. ``content``: what distinguishes this
    request from others of its kind. ``completing``: holds the table's lock, and completes first what a killed run left.

    It was logged before if it is the table's last event, and either an earlier attempt of this run wrote it or nothing has been
    decided since. What an earlier run left unapplied was decided before this, and is completed first.
    """
    drift_of(run.spec)
    with completing(run):
        decisions = logs.decisions(run.settings, run.table)
        after = ledger.last_number(decisions)
        events = baseline_events(run.settings, run.table)

        def id_of(number: int, nth: int) -> str:
            request = {"by": by, "because": because, **(content or {}), "event": nth}
            return Operation(run.table, kind, request).id_after(number)

        if events:
            last = events[-1]
            at = last.after if last.run_id in {run.run_id, *run.attempts} else after
            if last.extra.get("operation") == id_of(at, len(events)):
                run.step(f"{kind} done before, on {last.at:%Y-%m-%d %H:%M}: not done again")
                return last
        extra = {**details(decisions, after), "operation": id_of(after, len(events) + 1)}
        if not because.strip():
            raise RefusedError("give a reason with --because; it is recorded")
        event = BaselineEvent(run.table, kind, after, run.clock(), by, because, run.run_id, extra)
        write(event)
        log_baseline_event(run.settings, event)
        run.step(f"{kind}_logged")
        return event
