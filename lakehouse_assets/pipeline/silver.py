"""Silver as a target of the gate: batches of bronze, judged by the table's contract, and merged or folded into silver.

Belongs here: the rows, the knowledge of a decision. Does not: the steps (gate), publishing windows (publish), writing
(silver_write).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from itertools import groupby
from typing import Self

from pyspark.sql import DataFrame

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.dependencies import awaited_checks, is_deferred
from lakehouse_assets.checks.drift_rows import DriftRows
from lakehouse_assets.checks.families import HistoryCheck
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.check_context import check_context, window_context
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decide import BatchEvidence, DecidedBatch, JudgementRequest, Knowledge, decide
from lakehouse_assets.decisions.drift.method import METHOD
from lakehouse_assets.decisions.drift.pseudonyms import name_mask
from lakehouse_assets.decisions.drift.verdict import windows_compared
from lakehouse_assets.decisions.history import History, choose_history
from lakehouse_assets.decisions.schema import evolution
from lakehouse_assets.decisions.schema.gate import lacking_columns
from lakehouse_assets.measures.batch_numbers import MeasurePlan, measure_drift
from lakehouse_assets.measures.batches import Broken
from lakehouse_assets.measures.hints import count_record_kinds
from lakehouse_assets.measures.observed_scan import ObservedScan
from lakehouse_assets.measures.order_span import measured_span, span_metrics
from lakehouse_assets.measures.stage import row_rules
from lakehouse_assets.pipeline.evidence import count_silver_rows, hold_without_baseline, refuse_damaged, refuse_other_rows
from lakehouse_assets.pipeline.few_rows import FEW, steps_of_batches
from lakehouse_assets.pipeline.gate import (
    RECOVERING,
    Step,
    Target,
    run_steps,
)
from lakehouse_assets.pipeline.named_rows import divide
from lakehouse_assets.pipeline.redelivery import ReplacedBy, measure_replaced
from lakehouse_assets.pipeline.reference_tables import current_reference_tables, reference_tables_at
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.silver_merge import may_append_staged
from lakehouse_assets.pipeline.silver_write import quarantined_rows, write_silver
from lakehouse_assets.pipeline.staging import Store, all_readable, stage_batches, write_once
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.baseline_state import read_baseline
from lakehouse_assets.storage.delta_reads import read_windows
from lakehouse_assets.storage.staging_folder import staging_path


@dataclass
class SilverTarget(Target[Run]):
    """Extractions of one table, which one contract stages together. ``rules``: the contract that judges them; None: today's.
    ``inputs``: the decisions of other tables up to which checks see their silver; None: as it is now. ``postponing``: batches
    that lack too many keys are left to a pass of their own, after the others of the run. ``postponed``: their extractions.
    ``folder``: ends the name of the staged rows' folder. ``divides``: whether a window may be published without the rows that
    drift names, where its table says so.
    """

    records: Sequence[ExtractionRecord] = ()
    request: JudgementRequest = field(default_factory=JudgementRequest)
    rules: TableSpec | None = None
    inputs: Mapping[str, int] | None = None
    folder: str = ""
    divides: bool = True
    postponing: bool = field(init=False, default=False)
    postponed: list[ExtractionRecord] = field(init=False, default_factory=list)
    replaced_by: ReplacedBy = field(init=False)

    def __post_init__(self) -> None:
        self.rules = self.rules or self.run.spec
        self.staging = self.run.with_contract(evolution.staged_table(self.rules, self.log, self.records))

    @classmethod
    def of_decisions(
        cls, run: Run, decisions: Sequence[Decision], log: Sequence[Decision], records: Sequence[ExtractionRecord]
    ) -> Self:
        """Batches of ``decisions`` (of one rule set, override and inputs), by the rules of then; the rest: all of the table."""
        first, batches = decisions[0], {decision.batch for decision in decisions}
        target = cls(
            run,
            [d for d in log if d.number < first.number],
            records=[r for r in records if r.batch in batches],
            request=JudgementRequest(waived=first.waived),
            rules=run.spec.as_judged(first.ruleset),
            inputs=first.inputs,
        )
        # Staged by the rules of then, folded by today's contract: law 1 uses no other.
        target.log = [d for d in log if d.number <= decisions[-1].number]
        target.decisions, target.again = list(decisions), True
        return target

    @property
    def drift_method(self) -> int:
        """The version of the method by which drift is judged."""
        return METHOD

    @property
    def batches(self) -> list[Batch]:
        """Each extraction is a batch."""
        return [record.batch for record in self.records]

    @cached_property
    def few_rows(self) -> Collection[Step]:
        """As `steps_of_batches`."""
        starts = {record.p_extracted_at for record in self.records}
        return steps_of_batches(self.staging.spec, starts, self.rows_in, self.log, self.run.path("bronze"))

    @property
    def rows_in(self) -> int:
        """The rows of these extractions together, as they are on record."""
        return sum(record.rows for record in self.records)

    @property
    def plan(self) -> MeasurePlan:
        """The declared checks, and the rules of rows that are cast from text."""
        spec, context = self.staging.spec, check_context(self.staging.spec)
        deferred = [check for check in spec.checks if is_deferred(check, context)]
        rules = [rule.id for rule in row_rules(spec)]
        checks = awaited_checks(spec.checks, context)
        return MeasurePlan(
            checks, context, rules, self.staging.personal, deferred, more=span_metrics(spec) | count_record_kinds(spec)
        )

    def complete_earlier_runs(self) -> None:
        """As `Target`. Raises EvidenceError first if the table is damaged."""
        refuse_damaged(self.run)
        settings, table = self.run.settings, self.run.table
        self.log = logs.decisions(settings, table)
        if unapplied := ledger.unapplied_decisions(self.log):
            for target in decided_targets(self.run, logs.with_evidence(settings, table, unapplied), self.log):
                run_steps(target, RECOVERING)
            delta.remove_folder(staging_path(settings, table))
            self.log = logs.decisions(settings, table)

    def stage_rows(self) -> tuple[DataFrame, Broken]:
        """Cast the rows of bronze."""
        run = self.staging
        if self.inputs is None:
            tables = current_reference_tables(run.settings, run.spec.checks, run.spark)
            self.inputs = tables.inputs
        else:
            tables = reference_tables_at(run, self.inputs)
        folder = f"{run.run_id}-{self.decisions[0].number}" if self.decisions else f"{run.run_id}{self.folder}"
        count = self.rows_in
        path = staging_path(run.settings, run.table, folder)
        apart = len(self.records) == 1 and may_append_staged(run.spec, run.path("silver"))
        store: Store = partial(write_once, run.spark, path=path, few=count <= FEW, apart=apart)
        scan = ObservedScan(self.batches[0], self.plan) if len(self.records) == 1 and not self.decisions else None
        if scan is not None:
            store = partial(scan.store, store, path=path)
        readable = all_readable(run.path("bronze"), self.batches)
        bronze = read_windows(run.spark, run.path("bronze"), [record.p_extracted_at for record in self.records])
        staged, broken = stage_batches(run, bronze, self.batches, store, tables, self.request.waived, readable, count)
        self.observed = scan.numbers if scan is not None else None
        return staged, broken

    def add_measures(self) -> None:
        """Profile the drift features, and compare second deliveries with the rows that they would replace."""
        self.measure_features()
        self.measure_replaced()

    def measure_features(self) -> None:
        """Profile the drift features; without a whole baseline, no batch passes."""
        self.measure_drift()
        self.numbers = hold_without_baseline(self.run, self.log, self.numbers)

    def measure_replaced(self, from_bronze: bool = False) -> None:
        """Compare second deliveries and snapshots with the rows that they would replace."""
        rows_in = {batch: numbers.rows_in for batch, numbers in self.numbers.items()}
        starts = {start for start, _ in rows_in if start is not None}
        if self.staging.spec.extraction.mode != "snapshot" and not ledger.of_windows(self.log, starts):
            self.replaced_by = lambda batch, decisions: None  # first deliveries replace nothing
            return
        self.replaced_by = measure_replaced(
            self.staging, self.staged, rows_in, self.log, from_bronze=from_bronze, alone=not self.postponing
        )

    def measure_drift(self) -> None:
        """Profile the features. A batch of which they cannot be measured is in error."""
        spec, personal = self.staging.spec, self.staging.personal
        self.profiles, self.numbers = measure_drift(self.staged, spec.drift, self.numbers, name_mask(spec), personal=personal)

    def decide(self) -> list[Decision]:
        """Decide window by window: what a batch would replace depends on the decisions before it. A row that moves to another
        window of the run is lost if that window is not accepted. So a batch that lacks too many keys waits for the others.
        """
        refuse_other_rows(self.run, self.records, self.numbers)
        run, knowledge, decisions = self.run, self.read_knowledge(), []
        for record in sorted(self.records, key=lambda r: r.p_extracted_at):
            batch = record.batch
            replaced = self.replaced_by(batch, knowledge.decisions)
            if self.postponing and replaced and replaced.undecided:
                self.postponed.append(record)
                continue
            numbers, span = self.numbers[batch], measured_span(self.staging.spec, self.numbers[batch])
            evidence = BatchEvidence(numbers, self.profiles.get(batch, []), replaced, self.inputs or {}, span)
            judge = partial(self._judge, record, knowledge, at=run.clock())
            result = judge(evidence, run.spec)
            if self.divides and result.fails_by_drift_alone:
                result, evidence = divide(self, record, result, evidence, knowledge, judge)
            knowledge.learn(result, evidence)
            decisions += result.decisions
        return decisions

    def _judge(
        self, record: ExtractionRecord, knowledge: Knowledge, evidence: BatchEvidence, rules: TableSpec, *, at: datetime
    ) -> DecidedBatch:
        return decide(rules, record, evidence, knowledge, self.request, run_id=self.run.run_id, at=at)

    def with_check(self, record: ExtractionRecord, check: DriftRows) -> "SilverTarget":
        """One of these extractions by itself, cast by the same contract, with a check of the rows that drift names."""
        rules = (self.rules or self.run.spec).with_drift_rows(check)
        folder = f"-rest-{record.p_extracted_at:%Y%m%dT%H%M%S%f}"
        alone = SilverTarget(self.run, self.log, False, [record], self.request, rules, self.inputs, folder, divides=False)
        alone.staging = self.run.with_contract(evolution.staged_table(rules, self.log, self.records))
        return alone

    def read_knowledge(self) -> Knowledge:
        """Everything that `decide` needs besides the batches' own evidence."""
        settings, table, spec, log = self.run.settings, self.run.table, self.run.spec, self.log
        baseline, earlier_drift, history = None, {}, History()
        if spec.drift:
            last = ledger.last_number(log)
            # Each of these windows may leave the baseline, and not enter it again.
            baseline = read_baseline(settings, spec, log, last, spare=len(self.records), method=self.drift_method)
            compared = windows_compared(log, [record.p_extracted_at for record in self.records])
            earlier_drift = logs.read_drift(settings, table, *compared) if compared else {}
        if checks := [check for check in spec.checks if isinstance(check, HistoryCheck)]:
            accepted, first = ledger.accepted_decisions(log).values(), None
            if spec.extraction.stream:
                starts, judged = (
                    (d.p_extracted_at for d in accepted if d.p_extracted_at),
                    (r.p_extracted_at for r in self.records),
                )
                chosen, first = choose_history(starts, judged, checks)
                accepted = [decision for decision in accepted if decision.p_extracted_at in chosen]
            history = History(logs.with_evidence(settings, table, accepted, ("checks",)), first)
        columns = {column for names, _ in logs.extractions(settings, table).by_shape for column in names}
        return Knowledge(log, columns, baseline, history, earlier_drift, self.run.readers, self.drift_method)

    def quarantined_rows(self, decisions: Sequence[Decision]) -> DataFrame:
        """The rows as bronze has them, with their reasons."""
        return quarantined_rows(self.run, decisions, self.staged)

    def write(self) -> int:
        """Merge or fold."""
        return write_silver(self.run, self.own, self.staged, self.log, again=self.again)

    def count_published_rows(self) -> int | None:
        """Silver's rows. Raises EvidenceError if another program changed them since the last mark."""
        return count_silver_rows(self.run)

    def deferred(self, decision: Decision) -> tuple[CheckContext, list[str]]:
        """The bounds of its window, and the columns that its files lack."""
        rules = self.rules or self.run.spec
        record = next(r for r in self.records if r.batch == decision.batch)
        return window_context(rules, record.p_extracted_at), lacking_columns(rules, record)


def decided_targets(run: Run, decisions: Sequence[Decision], log: Sequence[Decision]) -> list[SilverTarget]:
    """These decisions in order, grouped by the rules that judged them. ``log``: all of the table."""
    records = logs.extractions(run.settings, run.table)
    groups = groupby(decisions, key=lambda d: (d.ruleset, d.waived, d.inputs))
    return [SilverTarget.of_decisions(run, list(group), log, records) for _, group in groups]
