"""Checks tried on real data: their outcomes in each window. Nothing is written, logged or published.

Belongs here: rows of the source, bronze or silver as a target of the gate's judging steps. Does not: the steps (pipeline/gate).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial, reduce
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.checks.dependencies import with_prerequisites
from lakehouse_assets.checks.families import HistoryCheck
from lakehouse_assets.checks.kinds.control import ControlTotal
from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.check_context import check_context, window_context
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import gate, ledger
from lakehouse_assets.decisions.history import History
from lakehouse_assets.decisions.schema.gate import columns_not_among, lacking_columns
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.measures.batch_numbers import MeasurePlan
from lakehouse_assets.measures.batches import Broken, select_batches
from lakehouse_assets.measures.stage import declared_rules, row_rules
from lakehouse_assets.pipeline.extract import bronze_rows
from lakehouse_assets.pipeline.gate import JUDGING, Target, run_steps
from lakehouse_assets.pipeline.reference_tables import current_reference_tables
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.silver import SilverTarget
from lakehouse_assets.pipeline.staging import flag_rows, stage_batches, stage_typed
from lakehouse_assets.pipeline.table_source import only_in_bronze, source_of
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta, logs

Spec = TypeVar("Spec", TableSpec, GoldSpec)


@dataclass(frozen=True)
class DryRunOutcome:
    """One check's outcome in a window, or in a gold table (``window`` None). ``current``: its decision, if there is one."""

    window: Window | None
    rows: int
    outcome: gate.Outcome
    current: Decision | None

    @property
    def of(self) -> str:
        """The window's key, or that it is the whole table."""
        return self.window.key if self.window else "whole table"

    @property
    def would_quarantine(self) -> str:
        """Return what this check would have quarantined: rows, the whole window or nothing."""
        if self.outcome.effect == "batch":
            return "the window" if self.window else "the table"
        return f"{self.outcome.failed_rows} row(s)" if self.outcome.effect == "rows" else "nothing"


@dataclass(frozen=True)
class DryRunResult:
    """What each check says of each window, and by check at most five failing values (masked where they are `pii`)."""

    outcomes: list[DryRunOutcome]
    samples: dict[str, list[str]]


def with_check(spec: Spec, check: Check) -> Spec:
    """The table (silver or gold) with this check, in the place of the one of its name or after all others. Raises
    ValidationError where silver has no such column, or where another check stands in its way.
    """
    others = [other for other in spec.checks if other.id != check.id]
    at = next((index for index, other in enumerate(spec.checks) if other.id == check.id), len(others))
    checks = [*others[:at], check, *others[at:]]
    declared = spec.model_dump(by_alias=True, exclude={"checks"}, exclude_unset=True)
    declared |= {"drift": None} if isinstance(spec, TableSpec) else {}
    return type(spec).model_validate({**declared, "checks": [c.model_dump(exclude_unset=True) for c in checks]})


def try_checks(run: Run, checks: Sequence[Check], windows: Sequence[Window], layer: str = "bronze") -> DryRunResult:
    """Judge these windows by these checks, oldest first; windows without rows at the layer are left out. Checks that they
    depend on are judged before them. At most one aggregation, and one query for each check that is not fused into it.

    ``layer``: ``source`` (what has landed, extracted or not), ``bronze`` (newest extractions) or ``silver`` (published rows,
    by their window). A check of the history compares with the windows on record; tried on several windows, one that it would
    have quarantined is no history for those after it. Raises RefusedError if there are no rows.
    """
    names = {check.id for check in checks}
    target = _target_at(run.with_contract(reduce(with_check, checks, run.spec)), windows, layer, names)
    samples = judge_only(target, names)
    return DryRunResult(target.outcomes, samples)


def newest_of(run: Run, windows: Sequence[Window], layer: str) -> list[Window]:
    """The newest of these windows that the layer has, if it has any: that has landed, is in bronze, or is published."""
    if layer == "source":
        starts = {window.start for window in source_of(run.spec, run.settings).fingerprints(windows)}
    elif layer == "silver":
        starts = {start for start, _ in ledger.accepted_decisions(logs.decisions(run.settings, run.spec.name))}
    else:
        starts = {record.p_extracted_at for record in logs.extractions(run.settings, run.spec.name)}
    return [window for window in windows if window.start in starts][-1:]


def _target_at(run: Run, windows: Sequence[Window], layer: str, names: Collection[str]) -> "_DryRun":
    """The rows of these windows at the layer, as a target of the gate."""
    spec, starts = run.spec, {window.start for window in windows}
    if layer == "source":
        if only_in_bronze(spec):
            raise RefusedError(f"{spec.name}: its source keeps no history; use --on bronze")
        source = source_of(spec, run.settings)
        arrived = sorted(source.fingerprints(windows))
        if not arrived:
            raise RefusedError(f"{spec.name}: none of these windows has landed")
        extraction = source.read(run.spark, arrived)
        control = {window.start: totals for window, totals in extraction.control.items()}
        lacking = {window.start: columns_not_among(spec, extraction.columns.get(window, ())) for window in arrived}
        rows = bronze_rows(extraction.frame, dict.fromkeys(arrived, 1))
        return _DryRun(run, names=names, rows=rows, chosen=[(w.start, 1) for w in arrived], control=control, lacking=lacking)
    records, typed = logs.extractions(run.settings, spec.name), layer == "silver"
    if typed:
        as_came = HistoryCheck | ControlTotal
        if backward := [check.id for check in spec.checks if isinstance(check, as_came) and check.id in names]:
            text = "look at windows as they came, and in silver later ones have taken rows from them; ask bronze"
            raise RefusedError(f"{spec.name}: {', '.join(backward)} {text}")
        accepted = ledger.accepted_decisions(logs.decisions(run.settings, spec.name))
        if not starts & {start for start, _ in accepted} or not delta.exists(run.path("silver")):
            raise RefusedError(f"{spec.name}: none of these windows is published")
        chosen = [r for r in records if r.p_extracted_at in starts and r.batch in accepted]
    else:
        chosen = [r for start, r in ledger.latest_extractions(records).items() if start in starts]
        if not chosen:
            raise RefusedError(f"{spec.name}: none of these windows is in bronze; `lakehouse verdicts` lists those that are")
    rows = run.spark.read.format("delta").load(run.path(layer))
    control = {} if typed else {r.p_extracted_at: r.control for r in chosen}
    lacking = {r.p_extracted_at: lacking_columns(spec, r) for r in chosen}
    batches = [r.batch for r in chosen]
    return _DryRun(run, names=names, rows=rows, chosen=batches, control=control, lacking=lacking, typed=typed)


@dataclass
class _DryRun(SilverTarget):
    """Rows of windows that the checks of these ``names`` judge, beside those that they depend on. ``typed``: the rows are
    those of silver. ``control``: what the source says of each window. ``lacking``: the columns that a window's rows do not
    have.
    """

    rows: DataFrame = field(kw_only=True)
    chosen: Sequence[Batch] = ()
    names: Collection[str] = ()
    control: Mapping[datetime, ControlTotals | None] = field(default_factory=dict)
    lacking: Mapping[datetime, Sequence[str]] = field(default_factory=dict)
    typed: bool = False
    outcomes: list[DryRunOutcome] = field(init=False, default_factory=list)

    @property
    def batches(self) -> list[Batch]:
        return sorted(self.chosen)

    @property
    def plan(self) -> MeasurePlan:
        spec, context = self.run.spec, check_context(self.run.spec)
        rules = declared_rules(spec.checks, context) if self.typed else row_rules(spec)
        wanted = with_prerequisites(spec.checks, self.names)
        return MeasurePlan(wanted, context, [rule.id for rule in rules], self.run.personal)

    def stage_rows(self) -> tuple[DataFrame, Broken]:
        run, context = self.run, check_context(self.run.spec)
        others = current_reference_tables(run.settings, run.spec.checks, run.spark)
        if not self.typed:
            return stage_batches(run, self.rows, self.batches, in_memory, others)

        def flag(rows: DataFrame, checks: Sequence[Check], broken: Broken) -> DataFrame:
            return flag_rows(rows, checks, context, others.frames, broken, run.pii)

        missing = others.errors(run.spec.checks)
        return stage_typed(run, select_batches(self.rows, self.batches), self.batches, flag, in_memory, missing)

    def add_measures(self) -> None:
        return

    def decide(self) -> list[Decision]:
        spec, wanted = self.run.spec, self.plan.checks
        looks_back = any(isinstance(check, HistoryCheck) for check in wanted)
        log = logs.decisions(self.run.settings, spec.name, checks=looks_back)
        current = {d.p_extracted_at: d for d in ledger.current_decisions(log).values() if d.superseded_by is None}
        history = History(log)
        for batch in self.batches:
            start = start_of(batch)
            context, before = window_context(spec, start, self.control.get(start)), partial(history.before, start)
            lacking = self.lacking.get(start, ())
            numbers = self.numbers[batch]
            outcomes = gate.judge_checks(wanted, context, numbers, spec.pii_columns, before=before, lacking=lacking)
            window, old, rows = spec.extraction.window_at(start), current.get(start), self.numbers[batch].rows_in
            self.outcomes += [DryRunOutcome(window, rows, o, old) for o in outcomes if o.check in self.names]
            if old and old.accepted and not any(outcome.effect == "batch" for outcome in outcomes):
                history.learn(replace(old, checks=tuple(outcome.as_dict() for outcome in outcomes), waived=()))
            else:
                history.forget(start)
        return []


def judge_only(target: Target[Any], names: Collection[str]) -> dict[str, list[str]]:
    """Run the gate's judging steps on rows that `in_memory` keeps. Returns failing values of these checks."""
    try:
        run_steps(target, JUDGING)
    finally:
        if hasattr(target, "staged"):
            target.staged.unpersist()
    return {name: values for name, values in target.samples.items() if name in names}


def in_memory(frame: DataFrame) -> DataFrame:
    """The frame, computed once and kept in memory."""
    cached = frame.persist()
    try:
        cached.count()
    except SCAN_ERRORS:
        cached.unpersist()
        raise
    return cached
