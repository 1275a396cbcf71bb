"""Decide on one version of a guarded table: from its numbers and what is known by then to its decision; and a person's.

Belongs here: the two results that only a guard has, the order of all, and what a judgement of the whole table closes. Does not:
which rows are the batch (guard), or any check's own judgement.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.guarded_table import COLUMNS, HISTORY, GuardSpec
from lakehouse_assets.decisions import gate, ledger
from lakehouse_assets.decisions.decide import BatchEvidence, JudgementRequest, Knowledge, drift_verdict, make_decision
from lakehouse_assets.decisions.frame import KEY_CHECK, frame_context
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.decisions.guard import VersionBatch, describe_renamed
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.decisions.supersession import superseded
from lakehouse_assets.decisions.verdict import discard_rows, verdict_of
from lakehouse_assets.errors import RefusedError

NAMED = 20
MEASURED = ("rows_in", "newest", "older", "failing")
REPLACED = "; release the version if this table is the one to guard"


@dataclass(frozen=True)
class VersionEvidence:
    """``mistakes``: why the rules cannot be applied to these columns; then the rows were not measured. ``unknown``: undeclared
    columns.
    """

    batch: VersionBatch
    numbers: BatchNumbers
    profiles: Sequence[Any] = ()
    mistakes: Sequence[str] = ()
    unknown: Sequence[str] = ()

    @property
    def measured(self) -> bool:
        """Whether the rules were evaluated on rows."""
        return self.batch.rows != "none" and not self.mistakes


def history_outcome(spec: GuardSpec, batch: VersionBatch, numbers: BatchNumbers) -> Outcome:
    """Return the result `table_history`: which rows were judged, and what happened to the table. It has the numbers from which
    the decision replays.
    """
    observed = {"version": batch.version, "after": batch.after, "rows": batch.rows, "event": batch.event}
    observed |= {name: getattr(numbers, name) for name in MEASURED}
    severity, status, effect = "info", "passed", "none"
    if batch.event == "replaced":
        severity, status, effect = "critical", "failed", "batch"
    elif batch.event and spec.rewrites != "accept":
        status = "failed"
        severity, effect = ("critical", "batch") if spec.rewrites == "quarantine" else ("warning", "report")
    text = batch.text + (REPLACED if batch.event == "replaced" else "")
    return Outcome(HISTORY, "history", severity, status, effect, 0, text, observed)


def columns_outcome(spec: GuardSpec, evidence: VersionEvidence) -> Outcome:
    """Return the result `table_columns`: whether the columns are those of the contract."""
    renamed = describe_renamed(evidence.batch.renamed)
    if evidence.mistakes:
        text = first_of(list(evidence.mistakes), 5) + (f" ({renamed})" if renamed else "")
        return Outcome(COLUMNS, "columns", "critical", "failed", "batch", evidence.numbers.rows_in, text)
    if evidence.unknown and spec.schema_policy.new_columns != "ignore":
        is_strict = spec.schema_policy.new_columns == "quarantine"
        text = f"undeclared columns: {first_of(list(evidence.unknown), NAMED)}" + (f" ({renamed})" if renamed else "")
        severity, effect = ("critical", "batch") if is_strict else ("warning", "report")
        return Outcome(COLUMNS, "columns", severity, "failed", effect, 0, text)
    if renamed:
        return Outcome(COLUMNS, "columns", "warning", "failed", "report", 0, renamed)
    return Outcome(COLUMNS, "columns", "critical", "passed", "none", 0, "")


def decide_version(
    spec: GuardSpec,
    batch: Batch,
    evidence: VersionEvidence,
    knowledge: Knowledge,
    log: Sequence[Decision],
    *,
    number: int,
    run_id: str,
    at: datetime,
) -> list[Decision]:
    """Return the decision on a version, then the records of decisions that it closes. ``log``: all decisions of the guard.
    ``knowledge``: of versions of the same kind.
    """
    start, numbers, drift = start_of(batch), evidence.numbers, None
    outcomes = [history_outcome(spec, evidence.batch, numbers), columns_outcome(spec, evidence)]
    of_rows = BatchEvidence(numbers, list(evidence.profiles))
    if evidence.measured:
        if spec.key:
            outcomes.append(gate.counted(KEY_CHECK, "key", "row(s) without a whole key", numbers, bool(spec.pii_columns)))
        before = partial(knowledge.history.before, start)
        outcomes += gate.judge_checks(spec.checks, frame_context(spec, start), numbers, spec.pii_columns, before=before)
        drift = drift_verdict(start, of_rows, knowledge)
        outcomes += gate.drift_outcome(drift, numbers)
    elif not evidence.mistakes:
        # A check cannot fail on rows that never arrived.
        passed = ("passed", "none", 0, "no row to judge")
        outcomes += [Outcome(check.id, check.check, check.severity, *passed) for check in spec.checks]
    decision = make_decision(
        outcomes,
        of_rows,
        drift,
        table=spec.name,
        p_extracted_at=start,
        extraction_seq=batch[1],
        number=number,
        ruleset_hash=spec.ruleset_hash,
        ruleset=spec.ruleset(),
        bronze_version=evidence.batch.version,
        baseline_version=number - 1 if spec.drift else None,
        run_id=run_id,
        decided_at=at,
        teaches=drift is not None and drift.learns,
    )
    closed = closed_by(decision, log) if evidence.batch.rows == "table" else []
    return [decision, *closed]


def closed_by(decision: Decision, log: Sequence[Decision]) -> list[Decision]:
    """Return the records of the quarantined decisions that an accepted judgement of the whole table closes."""
    if not decision.accepted:
        return []
    return superseded([d for d in ledger.quarantined_decisions(log) if d.batch != decision.batch], decision, None)


def settle(decision: Decision, request: JudgementRequest, *, number: int, run_id: str, at: datetime) -> Decision:
    """Return a person's decision on a quarantined version: from its recorded results, without reading a row. ``decision``: the
    current one, with its evidence. Raises RefusedError where nothing is in quarantine.
    """
    if decision.superseded_by or not (decision.verdict == "quarantined" or decision.counts.rows_quarantined):
        raise RefusedError(f"{decision.table} {decision.p_extracted_at}: nothing of this version is in quarantine")
    common: dict[str, Any] = {
        "number": number, "kind": request.kind, "by": request.by, "because": request.because, "run_id": run_id,
        "decided_at": at, "waived": request.waived, "operation": request.operation, "applied_at": None,
    }  # fmt: skip
    if request.kind == "discarded":
        verdict, counts = discard_rows(decision)
        return replace(decision, verdict=verdict, counts=counts, teaches=False, **common)
    outcomes = gate.waive(recorded_outcomes(decision), request.waived)
    verdict, counts = verdict_of(outcomes, recorded_numbers(decision))
    waives_drift = bool({"drift", "*"} & set(request.waived))
    teaches = bool(decision.drift and decision.profiles) and not waives_drift and verdict != "quarantined"
    checks = tuple(outcome.as_dict() for outcome in outcomes)
    return replace(decision, verdict=verdict, counts=counts, checks=checks, teaches=teaches, **common)


def recorded_outcomes(decision: Decision) -> list[Outcome]:
    """Return the results of a decision as they were judged."""
    return [Outcome(**outcome) for outcome in decision.checks]


def recorded_numbers(decision: Decision) -> BatchNumbers:
    """Return the counts of rows that a decision was made from."""
    recorded: Mapping[str, Any] = next((c["observed"] for c in decision.checks if c["check"] == HISTORY), {})
    rows_in, newest, older, failing = (int(recorded.get(name, 0)) for name in MEASURED)
    return BatchNumbers(rows_in, newest, older, failing)


def is_of_kind(record: ExtractionRecord | None, rows: str) -> bool:
    """Whether a recorded version's batch is comparable with one of these rows: whole tables with whole tables."""
    recorded = rows_of(record)
    return recorded != "none" and (recorded == "table") == (rows == "table")


def rows_of(record: ExtractionRecord | None) -> str:
    """Return which rows a recorded version's batch was."""
    return str(json.loads(record.position).get("rows", "none")) if record and record.position else "none"
