"""A rehearsal: faults put into copies of accepted windows, and judged by the gate. Nothing is written, logged or published.

Belongs here: which windows are copied, and the order of the work. Does not: the copies (rehearsal_copies), the faults
(rehearsal_faults), judging (rehearsal_judge), or the scorecard's sums (decisions/rehearsal).
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.rehearsal import (
    Copy,
    JudgedCopy,
    Rehearsal,
    list_unseen,
    summarize_clean,
    summarize_faults,
)
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.dry_run import in_memory
from lakehouse_assets.operations.rehearsal_columns import fault_columns
from lakehouse_assets.operations.rehearsal_copies import (
    FaultyCopy,
    make_copies,
    measure_figures,
    plan_copies,
    read_figures,
    split_copies,
)
from lakehouse_assets.operations.rehearsal_faults import FAULTS, Fault
from lakehouse_assets.operations.rehearsal_judge import CopyJudge
from lakehouse_assets.operations.suggest import suggested_checks
from lakehouse_assets.pipeline.bronze_rows import bronze_rows
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.storage import logs

RECENT = 100  # newest accepted windows that are drawn from
MOST_ROWS = 2_000_000  # rows that are staged in memory at once


@dataclass(frozen=True)
class RehearsalRequest:
    """What to rehearse. ``windows``: how many are copied with faults; ``clean``: how many without, these included.
    ``columns``: the most columns that one fault is put into, in each window. ``faults``: names of `FAULTS`; none: all.
    """

    windows: int = 3
    clean: int = 20
    columns: int = 2
    seed: int = 0
    faults: Sequence[str] = ()

    @property
    def kinds(self) -> list[Fault]:
        """The kinds of faults. Raises RefusedError for an unknown name."""
        if unknown := [name for name in self.faults if name not in FAULTS]:
            raise RefusedError(f"--fault {unknown[0]}: there is no such fault; there are {', '.join(FAULTS)}")
        return [fault for name, fault in FAULTS.items() if not self.faults or name in self.faults]


def rehearse(run: Run, request: RehearsalRequest, say: Callable[[str], object] = lambda _: None) -> Rehearsal:
    """Judge faulty copies of accepted windows by today's rules, as if each copy arrived now in the place of its window.

    A copy is compared with the baseline of all accepted windows but its own, and by checks of the history with the windows
    before it. Raises RefusedError where no accepted window has rows.
    """
    kinds = request.kinds
    records, clean, faulty = _draw_windows(run, request)
    rows = bronze_rows(run, [records[start].batch for start in clean])
    columns, left_out = fault_columns(run.spec, rows.columns)
    figures = in_memory(measure_figures(rows, columns))
    try:
        windows = read_figures(figures, columns)
        if not windows:
            raise RefusedError(f"{run.table}: bronze has no row of these windows; see `lakehouse verify`")
        copies = plan_copies(windows, faulty, kinds, columns, request.columns, request.seed)
        say(f"{len(copies)} copies of {len(windows)} windows")
        judge = CopyJudge(run, suggested_checks(run), records)
        judged: dict[Copy, JudgedCopy] = {}
        for some in split_copies(copies, {window.batch: window.rows for window in windows}, MOST_ROWS):
            judged |= judge.judge_copies(make_copies(rows, figures, some, columns, request.seed), some)
            say(f"{len(judged)} of {len(copies)} copies judged")
    finally:
        figures.unpersist()
    return _scorecard(run, request, copies, judged, judge.proposals, left_out)


def _draw_windows(
    run: Run, request: RehearsalRequest
) -> tuple[dict[datetime, ExtractionRecord], list[datetime], list[datetime]]:
    """Return the records of the drawn windows, those that are copied clean, and those of them that are copied with faults."""
    accepted = ledger.accepted_decisions(logs.decisions(run.settings, run.table))
    records = {r.p_extracted_at: r for r in logs.extractions(run.settings, run.table) if r.batch in accepted and r.rows}
    if not records:
        raise RefusedError(f"{run.table}: no accepted window has rows to copy; run `lakehouse run` first")
    recent = sorted(records)[-RECENT:]
    drawn = random.Random(request.seed).sample(recent, min(len(recent), max(request.clean, request.windows)))  # noqa: S311
    return records, sorted(drawn), sorted(drawn[: request.windows])


def _scorecard(
    run: Run,
    request: RehearsalRequest,
    copies: Sequence[FaultyCopy],
    judged: Mapping[Copy, JudgedCopy],
    proposals: Mapping[str, str],
    left_out: Mapping[str, str],
) -> Rehearsal:
    clean = {copy.window: result for copy, result in judged.items() if not copy.fault}
    faulty = [judged[each.copy] for each in copies if each.fault]
    pairs = [(clean[each.copy.window], each) for each in faulty if each.changed_rows]
    removed = [name for name, fault in FAULTS.items() if fault.removed_by_key and run.spec.key]
    names = {each.copy: {"column": each.copy.column, "partner": each.copy.partner} for each in copies}
    advice = {each.copy: each.fault.advice.format(**names[each.copy]) for each in copies if each.fault}
    return Rehearsal(
        table=run.table,
        seed=request.seed,
        windows=tuple(sorted({each.copy.window for each in copies if each.fault})),
        clean=summarize_clean(list(clean.values())),
        faults=tuple(summarize_faults(pairs, removed)),
        unseen=tuple(list_unseen(pairs, removed, advice, proposals, list(clean.values()))),
        unchanged=len(faulty) - len(pairs),
        left_out=left_out,
        summaries={fault.name: fault.summary for fault in request.kinds},
    )
