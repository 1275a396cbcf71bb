"""A person's requests on judged windows: release or discard a quarantined batch, judge windows again. Each is done once.

Belongs here: what may be requested, and its steps. Does not: a request's id (decisions), or silver as a whole (rebuild).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import Any

from lakehouse_assets.checks.drift_rows import DRIFT_ROWS
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord, Kind
from lakehouse_assets.contracts.table import EffectiveTable
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import gate, ledger
from lakehouse_assets.decisions.decide import JudgementRequest
from lakehouse_assets.decisions.naming import name_start
from lakehouse_assets.decisions.operation import Operation
from lakehouse_assets.decisions.schema import evolution
from lakehouse_assets.decisions.supersession import CHECK as SUPERSEDE
from lakehouse_assets.decisions.verdict import discard_rows
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.pipeline.gate import APPLYING, PASS, log, results, run_steps, stage
from lakehouse_assets.pipeline.publish import completed_before, judge_and_apply
from lakehouse_assets.pipeline.reference_tables import decisions_read
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.silver import SilverTarget
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.baseline import baseline_events

RELEASE = REJUDGE = (*PASS, results)
# The rows were measured and judged before.
DISCARD = (stage, log, *APPLYING, results)


def release(
    run: Run,
    start: datetime,
    seq: int | None,
    *,
    waived: Collection[str],
    by: str,
    because: str,
    teach: bool | None = None,
) -> Decision:
    """Judge a quarantined batch again, by today's rules; checks in ``waived`` (``*``: all that can be) lose their effect.

    ``teach``: whether the window joins the baseline; None: it does unless drift is overridden. Raises RefusedError when
    nothing of the batch is quarantined, or a later extraction was accepted. A release that was killed and is requested again
    returns its own earlier decision (`decisions.operation`).
    """
    with completed_before(run):
        request = {"waived": sorted(waived), "by": by, "because": because, "teach": teach}
        operation, before = _operation_on_batch(run, "released", start, seq, request)
        if before is not None:
            return before
        decisions, _, record = _quarantined(run, start, seq)
        _refuse_unknown(evolution.plan(evolution.effective_table(run.spec, decisions), record).after, waived)
        if teach and run.spec.drift is None:
            raise RefusedError(f"{run.table} declares no drift: there is no baseline to join")
        name = operation.id_after(ledger.last_number(decisions))
        judgement = JudgementRequest("released", tuple(sorted(waived)), by, because, teach, name)
        target = SilverTarget(run, decisions, records=[record], request=judgement)
        run_steps(target, RELEASE)
        return target.own[0]


def _refuse_unknown(spec: EffectiveTable, waived: Collection[str]) -> None:
    names = {"*", "casts", SUPERSEDE, *gate.SCHEMA_CHECKS, *(f"cast_{name}" for name in spec.columns)}
    names |= {check.id for check in spec.checks} | ({"drift"} if spec.drift else set())
    names |= {DRIFT_ROWS} if spec.drift and spec.drift.divides else set()
    if never := sorted(filter(gate.is_unwaivable, set(waived))):
        why = "there is nothing that could be published, or silver's constraint refuses it"
        raise RefusedError(f"{spec.name}: {', '.join(never)} cannot be overridden: {why}")
    if unknown := sorted(set(waived) - names):
        raise RefusedError(f"{spec.name} has no check {', '.join(unknown)}; there are {', '.join(sorted(names))}")


def discard(run: Run, start: datetime, seq: int | None, *, by: str, because: str) -> Decision:
    """Give up a batch's quarantined rows; they stay, marked discarded. Raises RefusedError, and is done once, as `release`."""
    with completed_before(run):
        operation, before = _operation_on_batch(run, "discarded", start, seq, {"by": by, "because": because})
        if before is not None:
            return before
        decisions, current, record = _quarantined(run, start, seq)
        verdict, counts = discard_rows(current)
        decision = replace(
            current,
            number=ledger.last_number(decisions) + 1,
            operation=operation.id_after(ledger.last_number(decisions)),
            kind="discarded",
            verdict=verdict,
            counts=counts,
            by=by,
            because=because,
            run_id=run.run_id,
            decided_at=run.clock(),
            silver_version=None,
            applied_at=None,
        )
        target = SilverTarget.of_decisions(run, [current], decisions, [record])
        target.log, target.decisions, target.again = [*decisions, decision], [decision], False
        run_steps(target, DISCARD)
        return decision


def rejudge(run: Run, windows: Sequence[Window], *, by: str, because: str) -> list[Decision]:
    """Judge the newest extraction of each of these windows again, oldest first, by today's rules and baseline.

    An override stays in force, since a person decided it, and what was discarded stays so. A window that was accepted and is
    quarantined now leaves silver and the baseline; one that was quarantined and passes enters them. A request that was killed
    and is made again judges the windows that it had not come to; returns the decisions of both. Raises RefusedError where none
    of these windows was ever judged.
    """
    with completed_before(run):
        decisions = logs.decisions(run.settings, run.table)
        chosen = _rejudgeable(decisions, windows)
        if not chosen:
            raise RefusedError(f"{run.table}: no window here has been judged, or all were discarded; run `lakehouse run`")
        request = {"windows": [window.start for window in windows], "by": by, "because": because}
        operation = _operation(run, "rejudged", request)
        before, name = _decided_before(run, operation, decisions, chosen), operation.id_after(ledger.last_number(decisions))
        name = next((d.operation for d in before.values() if d.operation), name)
        records = {r.batch: r for r in logs.extractions(run.settings, run.table)}
        rejudged: list[Decision] = [*before.values()]
        waiting = [d for d in chosen if d.batch not in before]
        for (waived, teaches), group in groupby(waiting, key=lambda d: (d.waived, d.teaches if d.waived else None)):
            judgement = JudgementRequest("rejudged", waived, by, because, teaches, name)
            new, _ = judge_and_apply(run, [records[d.batch] for d in group], decisions, judgement)
            rejudged += new
            decisions = logs.decisions(run.settings, run.table)
        run_steps(SilverTarget(run), (results,))
        return rejudged


def _decided_before(
    run: Run, operation: Operation, decisions: Sequence[Decision], chosen: Sequence[Decision]
) -> dict[Batch, Decision]:
    """Its earlier decisions on these batches; none if it is complete and the table has later ones: a new request."""
    batches = {decision.batch for decision in chosen}
    decided = {batch: d for batch, d in _decisions_of(run, operation, decisions).items() if batch in batches}
    attempted = {run.run_id, *run.attempts}
    later = ledger.last_number(decisions) > ledger.last_number(decided.values())
    new = later and not attempted & {d.run_id for d in decided.values()}
    return {} if new and decided.keys() == batches else decided


def _rejudgeable(decisions: Sequence[Decision], windows: Sequence[Window]) -> list[Decision]:
    """The current decisions on the newest judged extraction of these windows, without what was discarded; oldest first."""
    starts = {window.start for window in windows}
    current = ledger.current_decisions(decisions).values()
    chosen = (d for d in current if d.p_extracted_at in starts and d.superseded_by is None and d.kind != "discarded")
    return [decision for _, decision in sorted(ledger.newest_by_window(chosen).items())]


def _operation(run: Run, kind: Kind, request: Mapping[str, Any]) -> Operation:
    """The operation of a request. Its outcome depends on the rules, the tables that checks read, and the baseline's events."""
    if kind == "discarded":
        return Operation(run.table, kind, request)
    events = baseline_events(run.settings, run.table) if run.spec.drift else []
    tables = decisions_read(run.settings, run.spec.checks)
    return Operation(run.table, kind, request, {"rules": run.spec.ruleset_hash, "tables": tables, "baseline": len(events)})


def _operation_on_batch(
    run: Run, kind: Kind, start: datetime, seq: int | None, request: Mapping[str, Any]
) -> tuple[Operation, Decision | None]:
    """The operation, and the current decision that it has made already."""
    decisions = logs.decisions(run.settings, run.table)
    chosen = seq if seq is not None else max(_of_window(decisions, start), default=0)
    operation = _operation(run, kind, {"window": start, "extraction_seq": chosen, **request})
    return operation, _decisions_of(run, operation, decisions).get((start, chosen))


def _decisions_of(run: Run, operation: Operation, decisions: Sequence[Decision]) -> dict[Batch, Decision]:
    """The decisions that the operation has made already, with their evidence, by batch."""
    by_batch = operation.decisions_made(decisions, {run.run_id, *run.attempts})
    complete = logs.with_evidence(run.settings, run.table, by_batch.values())
    for decision in complete:
        when = f"{decision.decided_at:%Y-%m-%d %H:%M}"
        run.step(f"{decision.kind} before, on {when}, by decision {decision.number}: not done again")
    return {decision.batch: decision for decision in complete}


def _of_window(decisions: Sequence[Decision], start: datetime) -> dict[int, Decision]:
    return {d.extraction_seq: d for d in ledger.current_decisions(decisions).values() if d.p_extracted_at == start}


def _quarantined(run: Run, start: datetime, seq: int | None) -> tuple[Sequence[Decision], Decision, ExtractionRecord]:
    """The table's decisions, the current one on the batch with its evidence, and the extraction. Raises RefusedError."""
    decisions = logs.decisions(run.settings, run.table)
    of_window = _of_window(decisions, start)
    name = f"{run.table} {name_start(start)}"
    if not of_window:
        raise RefusedError(f"{name} has never been judged; see `lakehouse verdicts`")
    chosen = of_window.get(seq if seq is not None else max(of_window))
    if chosen is None:
        raise RefusedError(f"{name} has no extraction {seq}; there are {', '.join(map(str, sorted(of_window)))}")
    if chosen.superseded_by:
        raise RefusedError(
            f"{name} extraction {chosen.extraction_seq} was superseded by a later one that was accepted, and cannot be released"
        )
    if not chosen.counts.rows_quarantined and chosen.verdict != "quarantined":
        raise RefusedError(f"{name} extraction {chosen.extraction_seq} is {chosen.verdict} and has no quarantined rows")
    (chosen,) = logs.with_evidence(run.settings, run.table, [chosen])
    record = next(r for r in logs.extractions(run.settings, run.table) if r.batch == chosen.batch)
    return decisions, chosen, record
