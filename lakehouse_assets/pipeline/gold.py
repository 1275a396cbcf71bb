"""Gold as a target of the gate: a SELECT over published tables, whole or by grain, as one batch.

Belongs here: the rows, the versions of the inputs, and how gold is written. Does not: the steps (gate), or lineage (contracts).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial

from pydantic import ValidationError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.dependencies import awaited_checks, is_deferred
from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.check_context import gold_context
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold_rules import inputs_of, recorded_rules, ruleset, ruleset_hash
from lakehouse_assets.decisions.decide import BatchEvidence, gold_outcomes, make_decision
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures.batch_numbers import MeasurePlan
from lakehouse_assets.measures.batches import Broken
from lakehouse_assets.measures.stage import declared_rules, quarantine_reasons
from lakehouse_assets.pipeline.evidence import gold_lies_whole, refuse_damaged_inputs
from lakehouse_assets.pipeline.few_rows import steps_over
from lakehouse_assets.pipeline.gate import PASS, RECOVERING, Step, Target, hold_lock, recover, results, run_steps
from lakehouse_assets.pipeline.gold_inputs import GoldInputs, input_path, inputs_now, require_inputs
from lakehouse_assets.pipeline.gold_rows import Shape, Values, changed_parts, selected_columns, selects, shape_of
from lakehouse_assets.pipeline.run import GoldRun
from lakehouse_assets.pipeline.staging import stage_gold, write_once
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta, delta_writes, logs
from lakehouse_assets.storage.column_comments import with_units
from lakehouse_assets.storage.delta_reads import read_version
from lakehouse_assets.storage.disk_errors import find_disk_fault
from lakehouse_assets.storage.json_texts import as_json
from lakehouse_assets.storage.layout import overwrite
from lakehouse_assets.storage.small_writes import write_few
from lakehouse_assets.storage.staging_folder import staging_path


def _run_as_judged(run: GoldRun, decision: Decision) -> GoldRun:
    spec, sql, types = recorded_rules(decision.ruleset, run.spec.sql)
    return replace(run, spec=spec, query=replace(run.query, sql=sql, types=types), run_id=f"{run.run_id}-recovery")


@dataclass
class GoldTarget(Target[GoldRun]):
    """A gold table's rows at these versions of its inputs, as one batch: ``number`` of the table, decided ``at``.

    ``parts``: the values of its grain that are derived anew; None: the whole table.
    """

    inputs: GoldInputs = field(default_factory=GoldInputs)
    at: datetime = field(kw_only=True)
    number: int = field(kw_only=True)
    parts: Values | None = None
    shape: Shape = field(init=False)

    @classmethod
    def of_decision(cls, run: GoldRun, decision: Decision, log: Sequence[Decision]) -> "GoldTarget":
        """The batch of an earlier run's decision: the same inputs at the same versions, by the same rules."""
        target = cls(
            _run_as_judged(run, decision), list(log), True, GoldInputs(decision.inputs, decision.input_tables),
            at=decision.decided_at, number=decision.number, parts=decision.recomputed,
        )  # fmt: skip
        target.decisions = [decision]
        return target

    @property
    def context(self) -> CheckContext:
        """The batch as checks see it."""
        return gold_context(self.run.spec.key, self.at)

    @property
    def batches(self) -> list[Batch]:
        """The one batch. Versions without a change (a compaction, an empty commit) leave nothing to judge or to write."""
        return [] if self.parts == () else [(self.at, self.number)]

    @cached_property
    def few_rows(self) -> Collection[Step]:
        """All steps, if the inputs have few."""
        paths = {input_path(self.run.settings, self.run.spec, name): version for name, version in self.inputs.versions.items()}
        return steps_over(paths)

    @property
    def plan(self) -> MeasurePlan:
        """The declared checks, of typed rows."""
        checks, context = self.run.spec.checks, self.context
        deferred = [check for check in checks if is_deferred(check, context)]
        rules = [rule.id for rule in declared_rules(checks, gold_context(()))]
        return MeasurePlan(awaited_checks(checks, context), context, rules, self.run.personal, deferred)

    def complete_earlier_runs(self) -> None:
        """Apply decisions that an earlier run left. Gold is decided anew if the versions of its inputs are gone, or are those
        of other tables. So it is if the project no longer has the rules that made them.
        """
        self.log = logs.decisions(self.run.settings, self.run.table, checks=True)
        last = max(self.log, key=lambda d: d.number, default=None)
        if last is None or last.applied_at is not None:
            return
        try:
            target = GoldTarget.of_decision(self.run, last, self.log)
        except ValidationError:
            self.run.step("rules_of_an_unapplied_decision_are_gone")
            return
        there = all(delta.exists(input_path(self.run.settings, self.run.spec, name)) for name in last.inputs)
        if not there or not inputs_now(self.run.settings, self.run.spec, last.inputs).are_tables_of(self.run.settings, last):
            self.run.step("inputs_of_an_unapplied_decision_are_gone")
            return
        try:
            run_steps(target, RECOVERING)
            self.log = logs.decisions(self.run.settings, self.run.table, checks=True)
        except SCAN_ERRORS as error:
            if find_disk_fault(error):
                raise
            self.run.step("inputs_of_an_unapplied_decision_are_gone")

    def stage_rows(self) -> tuple[DataFrame, Broken]:
        """Derive the parts; if the table gets other columns or types, all of it."""
        staged, broken = self._stage()
        self.shape = shape_of(self.run, staged, self.log)
        if self.shape.grows and self.parts is not None:
            self.parts = None
            staged, broken = self._stage()
        return staged, broken

    def _stage(self) -> tuple[DataFrame, Broken]:
        spark, by = self.run.spark, self.run.spec.grain
        others: dict[str, DataFrame] = {}
        for name, version in self.inputs.versions.items():
            table = read_version(spark, input_path(self.run.settings, self.run.spec, name), version)
            some = by and self.parts is not None and name in by.inputs
            rows = table.where(selects(by.inputs[name], self.parts)) if by and some and self.parts is not None else table
            # What the SQL was read against: without silver's bookkeeping, which a `*` would bring along.
            if name in self.run.spec.reads:
                rows.select(*map(identifier, self.run.spec.reads[name].columns)).createOrReplaceTempView(name)
                continue
            rows.drop("extraction_seq", *[c for c in rows.columns if c.startswith("_")]).createOrReplaceTempView(name)
            others[name.removeprefix("silver_")] = table
        path = staging_path(self.run.settings, self.run.table, self.run.run_id)
        store = partial(write_once, spark, path=path)
        return stage_gold(self.run, (self.at, self.number), spark.sql(self.run.query.limited), others, store)

    def decide(self) -> list[Decision]:
        """One decision, in which the versions of the inputs stand for a window."""
        numbers, outcomes = BatchNumbers(), self.shape.outcomes(self.staged)
        for batch in self.batches:
            numbers = self.numbers[batch]
            outcomes = gold_outcomes(self.run.spec, self.context, numbers, self.run.pii, self._rows_outside()) + outcomes
        decision = make_decision(
            outcomes,
            BatchEvidence(numbers, inputs=self.inputs.versions),
            None,
            table=self.run.table,
            p_extracted_at=None,
            extraction_seq=self.number,
            number=self.number,
            ruleset_hash=ruleset_hash(self.run.spec, self.run.query),
            ruleset=ruleset(self.run.spec, self.run.query),
            run_id=self.run.run_id,
            decided_at=self.at,
            recomputed=self.parts,
            input_tables=dict(self.inputs.tables),
        )
        return [decision]

    def _rows_outside(self) -> int:
        if self.run.spec.grain is None or self.parts is None:
            return 0
        return self.staged.where(f"NOT {selects(self.run.spec.grain.column, self.parts)}").count()

    def quarantined_rows(self, decisions: Sequence[Decision]) -> DataFrame:
        """The rows as JSON, with their reasons."""
        (decision,) = decisions
        rows = self.staged.where(~F.col("_clean")) if decision.accepted else self.staged
        # As text: rows of last year's SQL lie beside those of today's.
        row = as_json(F.struct(*[identifier(c) for c in selected_columns(self.staged)])).alias("row")
        return rows.select(F.lit(decision.decision_id).alias("decision_id"), row, quarantine_reasons())

    def write(self) -> int | None:
        """Replace the parts, or the whole table."""
        (decision,), path, by = self.own, self.run.published_path, self.run.spec.grain
        if decision.recomputed == ():
            return delta.version(path)
        if not decision.accepted:
            return None
        rows = self.shape.of(self.staged.where(F.col("_newest")))
        delta_writes.allow_types(self.run.spark, path, [kind for _, kind in rows.dtypes])
        named = delta.commit_metadata_of([decision.decision_id], "gold")
        self.run.step("before_write")
        if by and decision.recomputed is not None:
            delta_writes.append(rows, path, user_metadata=named, replacing=selects(by.column, decision.recomputed))
        else:
            rows = with_units(rows, path, self.run.spec.units)
            if self.run.spec.layout or not write_few(rows, path, decision.counts.rows_published, "overwrite", named):
                with delta_writes.tag_commits(self.run.spark, named):
                    overwrite(rows, path, self.run.spec.layout)
        return delta.version(path)

    def staged_batch(self, decision: Decision) -> Batch:
        """The time of the decision and its number stand for window and extraction."""
        return (decision.decided_at, decision.number)

    def deferred(self, decision: Decision) -> tuple[CheckContext, tuple[str, ...]]:
        """Its SQL gives every column."""
        return self.context, ()


@dataclass(frozen=True)
class GoldPublished:
    """The current decision, whether it is new, and failing values by check. ``judged``: the decision whose checks are of the
    table as it is: an earlier one if no row was derived since.
    """

    decision: Decision
    new: bool
    samples: dict[str, list[str]]
    judged: Decision


def publish_gold(run: GoldRun) -> GoldPublished:
    """Bring a gold table up to its inputs, if these or its rules changed. Raises RefusedError if an input is unpublished."""
    with hold_lock(run):
        refuse_damaged_inputs(run.settings, inputs_of(run.spec, run.query))
        is_whole = gold_lies_whole(run.settings, run.table)
        table = GoldTarget(run, at=run.clock(), number=0)
        run_steps(table, (recover,))
        log = table.log
        last = max(log, key=lambda d: d.number, default=None)
        inputs, rules = require_inputs(run), ruleset_hash(run.spec, run.query)
        same = last is not None and last.ruleset_hash == rules and inputs.were_read_by(run.settings, last)
        if is_whole and last is not None and last.applied_at and same:
            published = GoldPublished(last, False, {}, _judged(last, log))
        else:
            number, parts = (last.number if last else 0) + 1, changed_parts(run, log, inputs) if is_whole else None
            target = GoldTarget(run, log, inputs=inputs, at=run.clock(), number=number, parts=parts)
            run_steps(target, PASS)
            (decision,) = target.own
            published = GoldPublished(decision, True, target.samples, _judged(decision, log))
        run_steps(table, (results,))
        return published


def _judged(decision: Decision, log: Sequence[Decision]) -> Decision:
    if decision.recomputed != ():
        return decision
    return max((d for d in log if d.applied_at and d.recomputed != ()), key=lambda d: d.number, default=decision)
