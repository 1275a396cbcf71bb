"""From bronze into silver: finish what was left, stage → measure → decide → log → exchange.

Belongs here: the gate, as the steps read. Does not: how a step works.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import evolution, ledger
from lakehouse_assets.layers.exchange import apply
from lakehouse_assets.layers.judge import judge
from lakehouse_assets.layers.others import others_at
from lakehouse_assets.layers.results import keep_results
from lakehouse_assets.layers.run import Run
from lakehouse_assets.layers.staging import stage_batches
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.lock import table_lock


@dataclass(frozen=True)
class Published:
    """Each window's standing decision; which of them are new; failing values by check, at most five each."""

    standing: dict[Window, Decision]
    new: list[Decision] = field(default_factory=list)
    samples: dict[str, list[str]] = field(default_factory=dict)


def publish(run: Run, windows: Sequence[Window]) -> Published:
    """Take these windows' undecided extractions through the gate. Windows that are decided already stay as they are."""
    with table_lock(run.settings, run.spec.name):
        recover(run)
        known = logs.decisions(run.settings, run.spec.name, evidence=False)
        starts = {window.start for window in windows}
        records = logs.extractions(run.settings, run.spec.name)
        waiting = [record for record in ledger.undecided(records, known) if record.p_extracted_at in starts]
        new, samples = judge_and_apply(run, waiting, known)
        keep_results(run.settings, run.spec.name, run.step)
        return Published(_of_windows(windows, [*known, *new]), new, samples)


def judge_and_apply(
    run: Run, waiting: Sequence[ExtractionRecord], known: Sequence[Decision], **act: Any
) -> tuple[list[Decision], dict[str, list[str]]]:
    """Judge these extractions (``act``: as `judge` takes it), log what is decided and carry it out, under the table's lock.
    Returns the decisions, applied, and failing values by check.
    """
    new: list[Decision] = []
    samples: dict[str, list[str]] = {}
    while waiting:
        # A batch that changes the contract is published before those after it are cast by what it made of it.
        count = evolution.together(run.spec, known, waiting)
        now, waiting = waiting[:count], waiting[count:]
        judged = judge(run, now, known, **act)
        run.step("decided")
        # Those that say which earlier ones are superseded are not among what was carried out, and must be known all the same.
        known = [*known, *judged.decisions]
        made = carry_out(run, judged.decisions, judged.staged, known)
        done = {d.decision_id: d for d in made}
        known = [done.get(d.decision_id, d) for d in known]
        new += made
        samples = {**judged.samples, **samples}
    return new, samples


def carry_out(run: Run, made: Sequence[Decision], staged: DataFrame, known: Sequence[Decision]) -> list[Decision]:
    """Log decisions that were just made (``known``: all, these included) and apply them. Returns them as `apply` does."""
    logs.log_decisions(run.settings, made)
    run.step("decisions_logged")
    applied = apply(run, made, staged, known, again=False)
    delta.remove_folder(run.settings.path("staging", run.spec.name))
    return applied


def recover(run: Run) -> list[Decision]:
    """Complete the decisions that an earlier run has logged and not applied, with the rules that it judged by."""
    known = logs.decisions(run.settings, run.spec.name, evidence=False)
    left = ledger.unapplied(known)
    if not left:
        return []
    left = logs.with_evidence(run.settings, run.spec.name, left)
    extracted = logs.extractions(run.settings, run.spec.name)
    for (ruleset, waived, inputs), group in groupby(left, key=lambda d: (d.ruleset, d.waived, d.inputs)):
        batch_run = replace(run, spec=as_judged(run.spec, ruleset))
        decisions = list(group)
        records = [r for r in extracted if (r.p_extracted_at, r.extraction_seq) in {d.batch for d in decisions}]
        before = [d for d in known if d.number < decisions[0].number]
        batch_run = replace(batch_run, spec=evolution.staging_spec(batch_run.spec, before, records))
        place = f"{run.run_id}-recovery-{decisions[0].number}"
        batches = [(d.p_extracted_at, d.extraction_seq) for d in decisions if d.p_extracted_at]
        staged, _ = stage_batches(batch_run, batches, place, waived, others_at(batch_run, inputs))
        # Staged by the rules of then, folded by the contract of today: law 1 knows no other.
        live = [d for d in known if d.number <= decisions[-1].number]
        apply(run, decisions, staged, live, again=True, judged_by=batch_run.spec)
    delta.remove_folder(run.settings.path("staging", run.spec.name))
    return left


def as_judged(spec: TableSpec, ruleset: str) -> TableSpec:
    """The table as its rules were when it was judged; what is not a rule is as it is today."""
    then = TableSpec.kept(ruleset)
    return then.model_copy(
        update={"alerts": spec.alerts, "gold": spec.gold, "description": spec.description, "maintenance": spec.maintenance}
    )


def _of_windows(windows: Sequence[Window], known: Sequence[Decision]) -> dict[Window, Decision]:
    newest: dict[object, Decision] = {}
    for decision in ledger.standing(known).values():
        if decision.p_extracted_at not in newest or decision.extraction_seq > newest[decision.p_extracted_at].extraction_seq:
            newest[decision.p_extracted_at] = decision
    return {window: newest[window.start] for window in windows if window.start in newest}
