"""Decide on one version of a guarded table: from its numbers and what is known by then to its decision; and a person's.

Belongs here: the two results that only a guard has, the order of all, and what a judgement of the whole table closes. Does not:
which rows are the batch (guard), or any check's own judgement.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.guarded_table import COLUMNS, HISTORY, WINDOWS, GuardSpec
from lakehouse_assets.contracts.windows import KEY_FORMATS
from lakehouse_assets.decisions import gate, ledger
from lakehouse_assets.decisions.decide import BatchEvidence, JudgementRequest, Knowledge, make_decision
from lakehouse_assets.decisions.frame import judge_rows
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.decisions.guard import VersionBatch, describe_renamed
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.decisions.supersession import supersession_records
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
        return self.batch.rows not in ("none", "outside") and not self.mistakes


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


def may_be_closed(decision: Decision) -> bool:
    """Whether a later decision on the table as a whole closes this quarantined one. What `table_history` quarantines, only a
    person settles; windows are no part of it.
    """
    start, of_history = decision.p_extracted_at, any(r.check == HISTORY and r.effect == "batch" for r in decision.reasons)
    return start is not None and not may_be_window(start) and not of_history


def batch_name(spec: GuardSpec, decision: Decision) -> str:
    """Return what people call a decision's batch: a version, or the window of a guard with `windows`."""
    start = decision.p_extracted_at
    if spec.windows and start and may_be_window(start):
        return f"window {start.strftime(KEY_FORMATS[spec.windows.cadence])}"
    return f"version {decision.bronze_version}"


def may_be_window(start: datetime) -> bool:
    """Whether a batch of a guard with `windows` may be a window, which begins with a minute. The table as a whole is named by
    another moment.
    """
    return (start.second, start.microsecond) == (0, 0)


def windows_outcome(spec: GuardSpec, batch: VersionBatch) -> Outcome:
    """Return the result `table_windows`: how many rows of the table lie in no window."""
    windows, observed = spec.windows, {"outside": batch.outside}
    if windows is None or not batch.outside:
        return Outcome(WINDOWS, "windows", "info", "passed", "none", 0, "", observed)
    before = f", or one before {windows.start}" if windows.start else ""
    text = (
        f"{batch.outside} row(s) lie in no window and are not judged: they have no {windows.column}{before}, or one of a window"
        " that has not begun; correct them, or release the version"
    )
    severity, effect = ("critical", "batch") if windows.outside == "quarantine" else ("warning", "report")
    return Outcome(WINDOWS, "windows", severity, "failed", effect, batch.outside, text, observed)


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
    if evidence.batch.rows == "outside":
        outcomes.append(windows_outcome(spec, evidence.batch))
    of_rows = BatchEvidence(numbers, list(evidence.profiles))
    if evidence.measured:
        of_checks, drift = judge_rows(spec, start, of_rows, knowledge)
        outcomes += of_checks
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
    if evidence.batch.rows == "window":
        closed = replaced_extractions(decision, log)
    else:
        closed = closed_by(decision, log) if evidence.batch.rows in ("table", "outside") else []
        if evidence.batch.rows == "outside":
            # The table as a whole settles what was said of it before, and no window.
            closed = [old for old in closed if may_be_closed(old)]
    return [decision, *closed]


def replaced_extractions(decision: Decision, log: Sequence[Decision]) -> list[Decision]:
    """Return the records of a window's earlier extractions, which an accepted one replaces."""
    earlier = [d for d in ledger.earlier(decision, log) if d.superseded_by is None]
    return supersession_records(earlier, decision, None) if decision.accepted else []


def closed_by(decision: Decision, log: Sequence[Decision]) -> list[Decision]:
    """Return the records of the quarantined decisions that an accepted judgement of the whole table closes."""
    if not decision.accepted:
        return []
    return supersession_records([d for d in ledger.quarantined_decisions(log) if d.batch != decision.batch], decision, None)


def settle(
    decision: Decision,
    request: JudgementRequest,
    *,
    number: int,
    run_id: str,
    at: datetime,
    numbers: BatchNumbers | None = None,
) -> Decision:
    """Return a person's decision on a quarantined version, from its recorded results. ``decision``: the current one, with its
    evidence. ``numbers``: its rows without the overridden checks; default: as recorded. Raises RefusedError where nothing is
    in quarantine.
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
    verdict, counts = verdict_of(outcomes, numbers or recorded_numbers(decision))
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
    return recorded not in ("none", "outside") and (recorded == "table") == (rows == "table")


def rows_of(record: ExtractionRecord | None) -> str:
    """Return which rows a recorded version's batch was."""
    return str(json.loads(record.position).get("rows", "none")) if record and record.position else "none"
