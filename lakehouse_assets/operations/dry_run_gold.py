"""Checks tried on a published gold table as it is. Nothing is written, logged or published.

Belongs here: the published rows as a target of the gate's judging steps. Does not: a table's windows (dry_run).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import DataFrame

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.dependencies import with_prerequisites
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import gate
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.measures.batch_numbers import MeasurePlan
from lakehouse_assets.measures.batches import Broken
from lakehouse_assets.operations.dry_run import DryRunOutcome, DryRunResult, in_memory, judge_only, with_check
from lakehouse_assets.pipeline.gold import GoldTarget
from lakehouse_assets.pipeline.reference_tables import current_reference_tables
from lakehouse_assets.pipeline.run import GoldRun
from lakehouse_assets.pipeline.staging import stage_gold
from lakehouse_assets.storage import delta, logs


@dataclass
class _GoldDryRun(GoldTarget):
    """The published rows as the batch that the checks judge."""

    rows: DataFrame = field(kw_only=True)
    outcomes: list[gate.Outcome] = field(init=False, default_factory=list)

    @property
    def plan(self) -> MeasurePlan:
        return replace(super().plan, checks=self.run.spec.checks)

    def stage_rows(self) -> tuple[DataFrame, Broken]:
        others = current_reference_tables(self.run.settings, self.run.spec.checks, self.run.spark)
        missing = others.errors(self.run.spec.checks)
        return stage_gold(self.run, (self.at, self.number), self.rows, others.frames, in_memory, missing)

    def decide(self) -> list[Decision]:
        (numbers,) = self.numbers.values()
        self.outcomes = gate.judge_checks(self.plan.checks, self.context, numbers, self.run.pii)
        return []


def try_gold_checks(run: GoldRun, checks: Sequence[Check]) -> DryRunResult:
    """Judge the published table by these checks, as one batch at the time of its last accepted decision. Checks that they
    depend on are judged before them; one that stops the scan is alone in error. Reads the table once, whole.

    Raises RefusedError where nothing was ever published, or not yet with the columns of these checks.
    """
    spec, names = reduce(with_check, checks, run.spec), {check.id for check in checks}
    wanted = with_prerequisites(spec.checks, names)
    run = replace(run, spec=spec.model_copy(update={"checks": tuple(wanted)}))
    published = [d for d in logs.decisions(run.settings, run.table) if d.accepted and d.applied_at]
    if not published or not delta.exists(run.published_path):
        raise RefusedError(f"{run.table} has never been published; run `lakehouse run` first")
    current = max(published, key=lambda d: d.number)
    rows = run.spark.read.format("delta").load(run.published_path)
    for check in wanted:
        if missing := check.unknown_columns([*rows.columns, "p_extracted_at"]):
            has = ", ".join(rows.columns)
            raise RefusedError(f"{run.table} as it is published has no column {', '.join(missing)} ({check.id}); it has {has}")
    target = _GoldDryRun(run, at=current.decided_at, number=current.number, rows=rows)
    samples = judge_only(target, names)
    numbers = target.numbers[target.at, target.number]
    outcomes = [DryRunOutcome(None, numbers.rows_in, o, current) for o in target.outcomes if o.check in names]
    return DryRunResult(outcomes, samples)
