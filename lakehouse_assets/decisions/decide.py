"""Decide on one batch: from its numbers and what is known by then to its decision.

Belongs here: the order of all checks, and what an accepted batch changes for later ones. Does not: any check's own judgement
(gate, drift, schema, supersession), reading a log, or applying a decision.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.dependencies import awaited_checks
from lakehouse_assets.checks.drift_rows import DRIFT_ROWS
from lakehouse_assets.contracts.check_context import window_context
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord, Kind
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.table import EffectiveTable, TableSpec
from lakehouse_assets.decisions import gate, ledger
from lakehouse_assets.decisions.decision_log import log_of
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.doubtful_windows import is_doubtful
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.method import METHOD
from lakehouse_assets.decisions.drift.named_rows import count_apart, find_check
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.drift.verdict import DriftVerdict, find_drift_start
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.decisions.history import History
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.decisions.schema import evolution
from lakehouse_assets.decisions.schema.gate import lacking_columns, schema_outcomes
from lakehouse_assets.decisions.supersession import Replaced, supersede_outcome, supersession_records
from lakehouse_assets.decisions.verdict import reasons_of, verdict_of


@dataclass(frozen=True)
class JudgementRequest:
    """Why batches are judged: by the gate itself or for a person, overriding which checks. ``joins_baseline``: what the person
    says of an accepted window; None: nothing. ``operation``: the id of the person's request.
    """

    kind: Kind = "judged"
    waived: tuple[str, ...] = ()
    by: str | None = None
    because: str | None = None
    joins_baseline: bool | None = None
    operation: str | None = None

    def lets_join(self, drift: DriftVerdict | None, *, is_divided: bool = False) -> bool:
        """Whether an accepted window joins the baseline. Unless a person says otherwise, overridden drift does not become
        normal. Nor does the rest of a window without the rows that drift named (``is_divided``). A baseline that has left its
        pinned reference learns nothing, whoever says so.
        """
        usual = not is_divided and not {"drift", DRIFT_ROWS, "*"} & set(self.waived)
        wanted = self.joins_baseline if self.joins_baseline is not None else usual
        return drift is not None and drift.learns and wanted


@dataclass(frozen=True)
class BatchEvidence:
    """The measurements of one batch. ``replaced``: the rows it would replace, if any. ``inputs``: the last decisions of the
    tables that its checks read. ``order_span``: where its rows lie in the total order, as text; None: not measured.
    """

    numbers: BatchNumbers
    profiles: Sequence[Measurement] = ()
    replaced: Replaced | None = None
    inputs: Mapping[str, int] = field(default_factory=dict)
    order_span: str | None = None


@dataclass(frozen=True)
class DecidedBatch:
    """The decision on a batch, and the records of the extractions that it supersedes. ``drift``: its drift verdict."""

    decisions: list[Decision]
    drift: DriftVerdict | None

    @property
    def fails_by_drift_alone(self) -> bool:
        """Whether nothing but drift quarantines the whole batch."""
        decision = self.decisions[0]
        effects = {reason.check for reason in decision.reasons if reason.effect == "batch"}
        return decision.verdict == "quarantined" and effects == {"drift"}


@dataclass
class Knowledge:
    """All that a decision is made from besides the batch. `decide` reads it; who decides several batches lets it `learn`.

    ``decisions``: all of the table. ``columns``: source columns that any extraction has had. ``baseline``: None where the table
    declares no drift. ``earlier_drift``: earlier drift verdicts by decision id. ``readers``: downstream readers by column.
    ``drift_method``: the version of the method by which drift is judged.
    """

    decisions: Sequence[Decision]
    columns: Collection[str]
    baseline: BaselineState | None = None
    history: History = field(default_factory=History)
    earlier_drift: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    readers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    drift_method: int = METHOD

    def __post_init__(self) -> None:
        before = log_of(self.decisions)
        self._accepted_before = ledger.accepted_decisions(before)
        self.decisions = self._log = before.copy()

    def learn(self, batch: DecidedBatch, evidence: BatchEvidence) -> None:
        """Bring decisions, baseline and history up to date with a decided batch."""
        decision, drift = batch.decisions[0], batch.drift
        self._log.extend(batch.decisions)
        start = decision.p_extracted_at
        if self.baseline and start is not None:
            self.baseline.count(start)
        if start is None or not (decision.accepted or decision.batch in self._accepted_before):
            return
        if self.baseline:
            # An earlier extraction or what was seeded for the window, or a batch that is quarantined from now on.
            self.baseline.forget(start)
            if decision.teaches and drift and decision.accepted:
                self.baseline.learn(start, evidence.profiles, drift.statistics, doubtful=is_doubtful(decision))
        if decision.accepted:
            self.history.learn(decision)
        else:
            self.history.forget(start)


def make_decision(outcomes: Sequence[Outcome], evidence: BatchEvidence, drift: DriftVerdict | None, **fields: Any) -> Decision:
    """Return the decision that follows from a batch's outcomes. ``fields``: the batch, the rules and the run."""
    verdict, counts = verdict_of(outcomes, evidence.numbers)
    return Decision(
        verdict=verdict,
        counts=counts,
        reasons=reasons_of(outcomes),
        drift_p_value=drift.p_value if drift else None,
        inputs=dict(evidence.inputs),
        checks=tuple(outcome.as_dict() for outcome in outcomes),
        drift=drift.to_dict() if drift else None,
        profiles=tuple(profile.to_dict() for profile in evidence.profiles),
        **{"kind": "judged", "bronze_version": None, "baseline_version": None, **fields},
    )


def decide(
    spec: TableSpec,
    record: ExtractionRecord,
    evidence: BatchEvidence,
    knowledge: Knowledge,
    request: JudgementRequest,
    *,
    run_id: str,
    at: datetime,
) -> DecidedBatch:
    """Return the decision on one batch of silver and, if it is accepted, the records of the extractions that it supersedes.
    ``at``: the time of the decision.
    """
    current = evolution.effective_table(spec, knowledge.decisions)
    planned = evolution.plan(current, record, knowledge.readers)
    named = find_check(spec.checks)
    apart = count_apart(named, spec.drift, evidence.numbers)
    drift = drift_verdict(record.p_extracted_at, evidence, knowledge, apart)
    outcomes = _outcomes(spec, current, planned, record, evidence, knowledge, request.waived)
    outcomes = gate.waive([*outcomes, *gate.drift_outcome(drift, evidence.numbers)], request.waived)
    number = ledger.last_number(knowledge.decisions) + 1
    decision = make_decision(
        outcomes,
        evidence,
        drift,
        table=spec.name,
        p_extracted_at=record.p_extracted_at,
        extraction_seq=record.extraction_seq,
        number=number,
        kind=request.kind,
        ruleset_hash=spec.ruleset_hash,
        ruleset=spec.ruleset(),
        bronze_version=record.bronze_version,
        baseline_version=number - 1 if spec.drift else None,
        run_id=run_id,
        decided_at=at,
        teaches=request.lets_join(drift, is_divided=named is not None),
        waived=request.waived,
        by=request.by,
        because=request.because,
        operation=request.operation,
        evolved=planned.evolved,
        order_span=evidence.order_span,
    )
    earlier = ledger.earlier(decision, knowledge.decisions) if decision.accepted else []
    return DecidedBatch([decision, *supersession_records(earlier, decision, evidence.replaced)], drift)


def _outcomes(
    spec: TableSpec,
    current: EffectiveTable,
    planned: evolution.Plan,
    record: ExtractionRecord,
    evidence: BatchEvidence,
    knowledge: Knowledge,
    waived: Collection[str],
) -> list[Outcome]:
    """Outcomes of all checks but drift. ``current``: the contract before this batch; ``planned``: after it."""
    numbers = evidence.numbers
    failed_casts = {name: numbers.failed_rows.get(f"cast_{name}", 0) for name in current.columns}
    outcomes = gate.built_in(planned.after, numbers) + schema_outcomes(
        current, record, planned, knowledge.columns, failed_casts
    )
    context = window_context(spec, record.p_extracted_at, record.control)
    checks, lacking = awaited_checks(spec.checks, context), lacking_columns(current, record)
    before = partial(knowledge.history.before, record.p_extracted_at)
    outcomes += gate.judge_checks(checks, context, numbers, spec.pii_columns, waived, before, lacking=lacking)
    return outcomes + supersede_outcome(current, numbers, evidence.replaced, lacking_columns(current.declared, record))


def drift_verdict(start: datetime, evidence: BatchEvidence, knowledge: Knowledge, rows_apart: int = 0) -> DriftVerdict | None:
    """Return the drift verdict of a batch; None without `drift`, without rows to publish, or where it was not measured.
    ``rows_apart``: rows that drift has named, which count in the volume.
    """
    if knowledge.baseline is None or not evidence.numbers.newest or "drift" in evidence.numbers.errors:
        return None
    since = partial(find_drift_start, knowledge.decisions, knowledge.earlier_drift, start)
    past = knowledge.baseline.without_window(start)
    spec, method = knowledge.baseline.spec_at(start), knowledge.drift_method
    return judge_drift(evidence.profiles, *past, spec, window=start, since=since, rows_apart=rows_apart, method=method)


def gold_outcomes(
    spec: GoldSpec, context: CheckContext, numbers: BatchNumbers, pii: Collection[str], rows_outside: int
) -> list[Outcome]:
    """Outcomes of a gold table's checks, of its key and of its grain. ``rows_outside``: rows of no part that was derived."""
    outcomes = gate.judge_checks(awaited_checks(spec.checks, context), context, numbers, pii)
    if numbers.key_conflicts:
        text = f"{numbers.key_conflicts} key(s) ({', '.join(spec.key)}) with more than one row"
        outcomes.append(Outcome("key", "unique", "critical", "failed", "batch", numbers.key_conflicts, text))
    if spec.grain and rows_outside:
        column = spec.grain.column
        text = f"{rows_outside} row(s) have a {column} that none of their inputs has: is `grain.inputs` what the SQL says?"
        outcomes.append(Outcome("grain", "grain", "critical", "failed", "batch", rows_outside, text))
    return outcomes
