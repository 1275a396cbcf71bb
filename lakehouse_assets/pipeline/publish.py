"""Publish windows: the gate for their undecided extractions, under the table's lock, and what a person's operation waits for.

Belongs here: which extractions are judged together, and in what order. Does not: a batch's steps (gate), or its rows (silver).
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decide import JudgementRequest
from lakehouse_assets.decisions.schema import evolution
from lakehouse_assets.pipeline.evidence import refuse_damaged
from lakehouse_assets.pipeline.gate import COMPLETING, JUDGING, PUBLISHING, hold_lock, recover, results, run_steps
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.silver import SilverTarget
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.silver_contract import apply_declarations


@dataclass(frozen=True)
class Published:
    """Each window's current decision; which of them are new; failing values by check, at most five each."""

    current: dict[Window, Decision]
    new: list[Decision] = field(default_factory=list)
    samples: dict[str, list[str]] = field(default_factory=dict)


@contextmanager
def completed_before(run: Run) -> Iterator[None]:
    """Hold the table's lock for a person's operation, and complete what a killed run left: unapplied decisions, check results,
    staged files. So an operation that is refused or done already leaves nothing unfinished either.
    """
    with hold_lock(run):
        run_steps(SilverTarget(run), COMPLETING)
        yield


def publish(run: Run, windows: Sequence[Window], unread: Collection[datetime] = ()) -> Published:
    """Run the gate for these windows' undecided extractions. Decided windows stay as they are, and so do those that are to be
    read again before they are judged (``unread``, their starts).
    """
    with hold_lock(run):
        table = SilverTarget(run)
        run_steps(table, (recover,))
        if delta.exists(run.path("silver")):
            apply_declarations(run.spark, run.path("silver"), evolution.effective_table(run.spec, table.log))
        starts = {window.start for window in windows}
        records = logs.extractions(run.settings, run.table).of_windows(starts - set(unread))
        waiting = ledger.undecided_extractions(records, table.log)
        new, samples = judge_and_apply(run, waiting, table.log)
        run_steps(table, (results,))
        if new:
            # Finds what another process wrote to this table at the same time, without our lock.
            refuse_damaged(run, written=True)
        before = ledger.of_windows(table.log, starts).values()
        current = ledger.newest_by_window(ledger.current_decisions([*chain(*before), *new]).values())
        return Published({window: current[window.start] for window in windows if window.start in current}, new, samples)


def judge_and_apply(
    run: Run, waiting: Sequence[ExtractionRecord], log: Sequence[Decision], request: JudgementRequest | None = None
) -> tuple[list[Decision], dict[str, list[str]]]:
    """Judge, log and apply, under the table's lock. Returns the applied decisions, and failing values by check."""
    new: list[Decision] = []
    samples: dict[str, list[str]] = {}
    postponed: list[ExtractionRecord] = []
    while waiting or postponed:
        # A batch that changes the contract is published before those after it are cast by the changed contract.
        count = evolution.count_batches_together(run.spec, log, waiting) if waiting else 0
        records = waiting[:count] or [postponed.pop(0)]
        target = SilverTarget(run, log, records=records, request=request or JudgementRequest())
        target.postponing = bool(waiting) and len(waiting) + len(postponed) > 1
        run_steps(target, JUDGING)
        if target.decisions:
            run_steps(target, PUBLISHING)
        postponed += target.postponed
        log, waiting = target.log, waiting[count:]
        new += target.own
        samples = {**target.samples, **samples}
    return new, samples
