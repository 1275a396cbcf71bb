"""The gate's judgement of faulty copies: the copies as a target of its judging steps, and a decision on each of them.

Belongs here: one staging of copies, and what the gate knows of each. Does not: which copies there are (rehearse), or how they
are made (rehearsal_copies).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.dependencies import is_deferred
from lakehouse_assets.checks.families import HistoryCheck
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.check_context import check_context, window_context
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.decisions import gate, ledger
from lakehouse_assets.decisions.decide import BatchEvidence, JudgementRequest, Knowledge, decide
from lakehouse_assets.decisions.history import History
from lakehouse_assets.decisions.rehearsal import Copy, JudgedCopy
from lakehouse_assets.decisions.schema.gate import lacking_columns
from lakehouse_assets.measures.batch_numbers import MeasurePlan
from lakehouse_assets.measures.batches import Broken
from lakehouse_assets.measures.stage import row_rules
from lakehouse_assets.operations.dry_run import in_memory
from lakehouse_assets.operations.rehearsal_copies import FaultyCopy, count_changes
from lakehouse_assets.pipeline.evidence import hold_without_baseline
from lakehouse_assets.pipeline.gate import measure, run_steps, stage
from lakehouse_assets.pipeline.reference_tables import current_reference_tables
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.silver import SilverTarget
from lakehouse_assets.pipeline.staging import stage_batches
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.session_properties import no_codegen


@dataclass
class CopyJudge:
    """The gate's judgement of copies. ``candidates``: proposed checks, which change no verdict. ``records``: the extractions
    that are copied, by window.
    """

    run: Run
    candidates: Sequence[tuple[Check, str]]
    records: Mapping[datetime, ExtractionRecord]
    knowledge: Knowledge | None = None

    @property
    def proposals(self) -> dict[str, str]:
        """The candidates as YAML, by name."""
        return {check.id: text for check, text in self.candidates}

    def judge_copies(self, copied: DataFrame, copies: Sequence[FaultyCopy]) -> dict[Copy, JudgedCopy]:
        """Judge these copies in one staging and at most two aggregations, and a query for each check that is not fused."""
        with no_codegen(self.run.spark):
            copied = in_memory(copied)
        counts = count_changes(copied)
        by_batch = {each.batch: each for each in copies}
        # In the order of the windows: the baseline without a window is made once for all of its copies.
        records = [
            replace(self.records[each.copy.window], extraction_seq=batch[1], rows=counts.get(batch, (0, 0))[0])
            for batch, each in sorted(by_batch.items())
        ]
        checks = [check for check, _ in self.candidates]
        rules = self.run.spec.model_copy(update={"checks": (*self.run.spec.checks, *checks)})
        target = _CopiedWindows(
            self.run, logs.decisions(self.run.settings, self.run.table), records=records, rules=rules, rows=copied
        )
        try:
            run_steps(target, (stage, measure))
            self.knowledge = self.knowledge or target.read_knowledge()
            return {
                by_batch[r.batch].copy: self._judge_copy(target, self.knowledge, by_batch[r.batch], r, counts) for r in records
            }
        finally:
            copied.unpersist()
            if hasattr(target, "staged"):
                target.staged.unpersist()

    def _judge_copy(
        self,
        target: "_CopiedWindows",
        knowledge: Knowledge,
        each: FaultyCopy,
        record: ExtractionRecord,
        counts: Mapping[Batch, tuple[int, int]],
    ) -> JudgedCopy:
        run = self.run
        numbers = target.numbers[record.batch]
        evidence = BatchEvidence(numbers, target.profiles.get(record.batch, []))
        decided = decide(run.spec, record, evidence, knowledge, JudgementRequest(), run_id=run.run_id, at=run.clock())
        decision, drift = decided.decisions[0], decided.drift
        context = window_context(run.spec, record.p_extracted_at, record.control)
        before = partial(knowledge.history.before, record.p_extracted_at)
        lacking = lacking_columns(target.rules or run.spec, record)
        outcomes = [gate.Outcome(**outcome) for outcome in decision.checks]
        deferred = [check for check in run.spec.checks if is_deferred(check, check_context(run.spec))]
        outcomes += gate.judge_checks(deferred, context, numbers, run.pii, (), before, outcomes, lacking)
        checks = [check for check, _ in self.candidates]
        proposed = gate.judge_checks(checks, context, numbers, run.pii, (), before, outcomes, lacking)
        rows, changed = counts.get(record.batch, (0, 0))
        worst = drift.worst if drift and drift.action != "pass" else None
        return JudgedCopy(
            each.copy,
            decision.verdict,
            rows,
            decision.counts.rows_published,
            tuple(outcomes),
            changed + abs(rows - self.records[each.copy.window].rows),
            worst.feature if worst else "",
            frozenset(outcome.check for outcome in proposed if outcome.status == "failed"),
        )


@dataclass
class _CopiedWindows(SilverTarget):
    """Copies of windows as batches of the table. ``rows``: theirs, as bronze has them."""

    rows: DataFrame = field(kw_only=True)

    @property
    def plan(self) -> MeasurePlan:
        """All checks, deferred ones too, without examples of values."""
        spec = self.staging.spec
        rules = [rule.id for rule in row_rules(spec)]
        return MeasurePlan(spec.checks, check_context(spec), rules, self.staging.personal, examples=False)

    def stage_rows(self) -> tuple[DataFrame, Broken]:
        """Cast the rows of the copies."""
        run = self.staging
        others = current_reference_tables(run.settings, run.spec.checks, run.spark)
        return stage_batches(run, self.rows, self.batches, in_memory, others)

    def add_measures(self) -> None:
        """Profile the drift features. A copy replaces nothing."""
        self.measure_drift()
        self.numbers = hold_without_baseline(self.run, self.log, self.numbers)

    def decide(self) -> list[Decision]:
        """A rehearsal judges each copy by itself (`CopyJudge`)."""
        raise NotImplementedError

    def read_knowledge(self) -> Knowledge:
        """As `SilverTarget`, with the history that candidates compare with."""
        knowledge = super().read_knowledge()
        if any(isinstance(check, HistoryCheck) for check in self.staging.spec.checks) and self.log:
            accepted = ledger.accepted_decisions(self.log).values()
            knowledge.history = History(logs.with_evidence(self.run.settings, self.run.table, accepted, ("checks",)))
        return knowledge
