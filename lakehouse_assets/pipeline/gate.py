"""The gate: the steps by which batches of bronze reach silver, and the rows of a SELECT reach gold.

Belongs here: the steps and their order. Does not: what silver and gold do in a step (`Target`), measuring, or judging.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from pyspark.sql import DataFrame

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.sql.text import literal
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import gate, log_parts
from lakehouse_assets.decisions.decision_log import log_of
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.decisions.verdict import add_deferred_outcomes
from lakehouse_assets.measures.batch_numbers import MeasurePlan, measure_batches, query_failures
from lakehouse_assets.measures.batches import Broken, errors_by_batch
from lakehouse_assets.measures.error_text import masked_text
from lakehouse_assets.measures.failing_samples import all_leave, collect_failing_samples, left_rows
from lakehouse_assets.pipeline.reference_tables import never_published
from lakehouse_assets.pipeline.run import FrameRun, GoldRun, Run
from lakehouse_assets.storage import commit_metadata, delta, delta_writes, logs, version_marks
from lakehouse_assets.storage.baseline import write_profiles
from lakehouse_assets.storage.check_results import project_check_results
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.session_properties import plan_for_few_rows
from lakehouse_assets.storage.staging_folder import staging_path

AnyRun = TypeVar("AnyRun", Run, GoldRun, FrameRun)


@dataclass
class Target(ABC, Generic[AnyRun]):
    """Some batches on their way into a table. Silver and gold implement the rows, the rules and the write; the steps store
    their results here.

    ``observed``: what the first aggregation would give, where staging has counted it.
    ``log``: the table's decisions, and those on these batches once they are made. ``again``: an earlier run may have applied a
    part of them.
    """

    run: AnyRun
    log: Sequence[Decision] = ()
    again: bool = False
    staged: DataFrame = field(init=False)
    broken: Broken = field(init=False, default_factory=dict)
    observed: dict[Batch, BatchNumbers] | None = field(init=False, default=None)
    numbers: dict[Batch, BatchNumbers] = field(init=False, default_factory=dict)
    profiles: dict[Batch, list[Measurement]] = field(init=False, default_factory=dict)
    decisions: list[Decision] = field(init=False, default_factory=list)
    samples: dict[str, list[str]] = field(init=False, default_factory=dict)
    version: int | None = field(init=False, default=None)

    @property
    def own(self) -> list[Decision]:
        """The decisions on these batches, without the records of what they supersede."""
        return [decision for decision in self.decisions if decision.superseded_by is None]

    @cached_property
    def few_rows(self) -> Collection["Step"]:
        """The steps that read few rows."""
        return ()

    @property
    @abstractmethod
    def batches(self) -> Sequence[Batch]:
        """The batches to measure."""

    @property
    @abstractmethod
    def plan(self) -> MeasurePlan:
        """What to measure of the staged rows, by the rules of these batches."""

    @abstractmethod
    def complete_earlier_runs(self) -> None:
        """Apply decisions that an earlier run of this table has logged and not applied."""

    @abstractmethod
    def stage_rows(self) -> tuple[DataFrame, Broken]:
        """The staged rows, stored once; and the rules that cannot be evaluated, by batch."""

    def add_measures(self) -> None:
        """Measure what only this kind of target has."""

    @abstractmethod
    def decide(self) -> list[Decision]:
        """The decisions on these batches, from what was measured, and the records of what they supersede."""

    @abstractmethod
    def quarantined_rows(self, decisions: Sequence[Decision]) -> DataFrame:
        """The rows of these decisions that are quarantined, as the quarantine stores them."""

    @abstractmethod
    def write(self) -> int | None:
        """Publish what is accepted, in one commit. Returns the table's version that has it."""

    def count_published_rows(self) -> int | None:
        """The rows of the published table, for the mark; None without statistics."""
        return version_marks.count_rows(self.run.published_path)

    def staged_batch(self, decision: Decision) -> Batch:
        """The batch of a decision, as the staged rows name it."""
        return decision.batch

    @abstractmethod
    def deferred(self, decision: Decision) -> tuple[CheckContext, Collection[str]]:
        """For deferred checks: the context of the decision's batch, and the columns that it lacks."""

    @property
    def quarantine_path(self) -> str | None:
        """Where quarantined rows are stored; None: nowhere."""
        return self.run.settings.path("quarantine", self.run.table)


def recover(target: Target[Any]) -> None:
    """Complete the decisions that an earlier run has logged and not applied, by that run's rules."""
    target.complete_earlier_runs()


def stage(target: Target[Any]) -> None:
    """Cast the rows, evaluate the row checks, and store both once."""
    target.staged, target.broken = target.stage_rows()


def measure(target: Target[Any]) -> None:
    """At most two aggregations grouped by batch, and one of what builds on them (slices); one query for each check that is not
    fused.
    """
    if target.batches:
        errors = errors_by_batch(target.broken)
        target.numbers = measure_batches(target.staged, target.plan, target.batches, errors, target.observed)
    target.run.step("rules_measured")
    target.add_measures()


def decide(target: Target[Any]) -> None:
    """Judge the batches, oldest first, each by the decisions before it."""
    target.decisions = target.decide()
    target.log = log_of(target.log).followed_by(target.decisions)
    target.samples = {}
    failing = {rule for numbers in target.numbers.values() for rule, rows in numbers.failed_rows.items() if rows}
    if failing or any(numbers.failing for numbers in target.numbers.values()):
        leave = all_leave(target.plan.checks, failing) and not any(decision.waived for decision in target.decisions)
        target.samples = collect_failing_samples(left_rows(target.staged) if leave else target.staged)


def log(target: Target[Any]) -> None:
    """The write-ahead log: all decisions in one commit, before anything is published."""
    logs.log_decisions(target.run.settings, target.decisions)


def quarantine(target: Target[Any]) -> None:
    """Write the quarantined rows, whole batches or single rows, with their reasons and the decision's id."""
    decisions = [d for d in target.own if d.counts.rows_quarantined or d.counts.rows_discarded]
    path = target.quarantine_path
    if not decisions or path is None:
        return
    rows, ids = target.quarantined_rows(decisions), {decision.decision_id for decision in decisions}
    # Restored from here without what it supersedes, a decision would leave two extractions of its window accepted.
    superseded = log_parts.superseded_decisions(target.log, ids)
    metadata = commit_metadata.encode_decisions("quarantine", decisions, [*decisions, *superseded])
    where = f"decision_id IN ({', '.join(literal(d.decision_id) for d in decisions)})" if target.again else None
    delta_writes.append(rows, path, user_metadata=metadata, replacing=where)


def write(target: Target[Any]) -> None:
    """Publish the accepted batches' clean rows, in one commit that names its decisions."""
    target.version = target.write()


def profiles(target: Target[Any]) -> None:
    """Add the profiles of accepted windows to the baseline."""
    if joining := [decision for decision in target.own if decision.accepted and decision.teaches]:
        write_profiles(target.run.settings, target.run.table, joining)


def deferred_checks(target: Target[Any]) -> None:
    """Run the checks that quarantine nothing and need a query of their own. Their results are logged before the mark, so that a
    recovery cannot miss them.
    """
    if later := deferred_outcomes(target):
        logs.log_checked(target.run.settings, [(d, later[d.decision_id]) for d in target.own if d.decision_id in later])
    complete(target, later)


def complete(target: Target[Any], later: dict[str, list[gate.Outcome]]) -> None:
    """Add these outcomes to the decisions, by their ids."""
    completed = {d.decision_id: add_deferred_outcomes(d, later[d.decision_id]) for d in target.own if d.decision_id in later}
    if not completed:
        return
    target.log = [completed.get(d.decision_id, d) for d in target.log]
    target.decisions = [completed.get(d.decision_id, d) for d in target.decisions]


def deferred_outcomes(target: Target[Any]) -> dict[str, list[gate.Outcome]]:
    """Return the deferred checks' outcomes by decision id; nothing for a table without such checks. One query each."""
    plan, run = target.plan, target.run
    checks = plan.deferred
    # A discarded batch was checked when it was judged.
    decisions = [(d, target.staged_batch(d)) for d in target.own if d.kind != "discarded" and d.recomputed != ()]
    if not checks or not decisions:
        return {}
    errors: dict[Batch, dict[str, str]] = {}
    for decision, batch in decisions:
        absent = [c for c in checks if c.reads and f"silver_{c.reads.table}" not in decision.inputs]
        errors[batch] = {c.id: never_published(c.reads.table) for c in absent if c.reads}
    batches = [batch for _, batch in decisions]
    counts = {batch: decision.counts.rows_in for decision, batch in decisions}
    metrics = query_failures(target.staged, checks, plan.context, batches, errors, counts=counts, personal=bool(run.pii))
    outcomes = {}
    for decision, batch in decisions:
        numbers = BatchNumbers(metrics=metrics[batch], errors=errors[batch])
        context, lacking = target.deferred(decision)
        before = [gate.Outcome(**outcome) for outcome in decision.checks]
        outcomes[decision.decision_id] = gate.judge_checks(
            checks, context, numbers, run.pii, decision.waived, earlier=before, lacking=lacking
        )
    return outcomes


def mark_applied(target: Target[Any]) -> None:
    """The last commit of a batch: its decision is completely in the tables."""
    run, version = target.run, target.version
    rows = None if version is None else target.count_published_rows()
    logs.mark_applied(run.settings, target.own, version, run.clock(), rows)


def results(target: Target[Any]) -> None:
    """Project applied decisions into `ops/check_results`. A failure fails no step: the next run, or the sensor, repeats it."""
    try:
        project_check_results(target.run.settings, target.run.table)
    except Exception as error:
        # The decisions are applied: the data is right, and the log has the missing rows.
        target.run.step(f"check results are left to the next run: {masked_text(error)}")


Step = Callable[[Target[Any]], None]
JUDGING: tuple[Step, ...] = (stage, measure, decide)
APPLYING: tuple[Step, ...] = (quarantine, write, profiles, deferred_checks, mark_applied)
PUBLISHING: tuple[Step, ...] = (log, *APPLYING)
RECOVERING: tuple[Step, ...] = (stage, *APPLYING)
# The steps of each set of batches; `recover` runs before all of them, `results` after them.
PASS: tuple[Step, ...] = (*JUDGING, *PUBLISHING)
STEPS: tuple[Step, ...] = (recover, *PASS, results)
# Before a person's operation: what a killed run left.
COMPLETING: tuple[Step, ...] = (recover, results)


@contextmanager
def hold_lock(run: Run | GoldRun) -> Iterator[None]:
    """Hold the table's lock; at the end, also after an error, remove its staging: that has whole rows."""
    with table_lock(run.settings, run.table):
        try:
            yield
        finally:
            delta.remove_folder(staging_path(run.settings, run.table))


def run_steps(target: Target[Any], steps: Sequence[Step]) -> None:
    """Run these steps. After each, ``Run.step`` receives its name with ``_done``: there a kill test can stop it."""
    for step in steps:
        with plan_for_few_rows(target.run.spark) if step in target.few_rows else nullcontext():
            step(target)
        target.run.step(f"{step.__name__}_done")
