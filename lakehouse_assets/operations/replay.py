"""Judge recorded decisions again by what they kept: the same batch, rules, baseline and profiles give the same verdict.

Belongs here: the same judgement from the same evidence, and what differs. Does not: judging by today's rules (release). Nothing
is written: no lock is held, and a run removes the staging of its table.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions.decide import JudgementRequest, Knowledge
from lakehouse_assets.decisions.drift.method import METHOD
from lakehouse_assets.decisions.drift.relations import read_measurement
from lakehouse_assets.decisions.drift.verdict import read_method
from lakehouse_assets.decisions.evidence.findings import Finding
from lakehouse_assets.measures.batches import Broken
from lakehouse_assets.operations.dry_run import in_memory
from lakehouse_assets.pipeline.gate import JUDGING, complete, deferred_outcomes, run_steps
from lakehouse_assets.pipeline.reference_tables import reference_tables_at
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.silver import SilverTarget
from lakehouse_assets.pipeline.staging import all_readable, stage_batches
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets.storage.delta_reads import read_windows

SAME_P_VALUE = 1e-9  # relative: another machine's arithmetic may differ in the last digit
MEND = "look for what has changed: `lakehouse verify --rows`, a function of the engine, a reference table; then judge it again"


@dataclass
class _Replay(SilverTarget):
    """A batch as it was when ``decision`` judged it: with its own profiles, and by the columns that extractions had until
    then.
    """

    decision: Decision | None = None
    columns: frozenset[str] = frozenset()

    def add_measures(self) -> None:
        self.measure_drift()
        if self.decision:
            self.profiles = {batch: [read_measurement(profile) for profile in self.decision.profiles] for batch in self.batches}
            errors = _drift_errors(self.decision)
            self.numbers = {batch: replace(n, errors={**n.errors, **errors}) for batch, n in self.numbers.items()}
        self.measure_replaced(from_bronze=True)

    def stage_rows(self) -> tuple[DataFrame, Broken]:
        """Cast the rows of bronze, and keep them in memory until the replay ends."""
        run, bronze = self.staging, self.run.path("bronze")
        rows = read_windows(run.spark, bronze, [record.p_extracted_at for record in self.records])
        tables, readable = reference_tables_at(run, self.inputs or {}), all_readable(bronze, self.batches)
        count = sum(record.rows for record in self.records)
        return stage_batches(run, rows, self.batches, _in_memory, tables, self.request.waived, readable, count)

    def read_knowledge(self) -> Knowledge:
        return replace(super().read_knowledge(), columns=self.columns)

    @property
    def drift_method(self) -> int:
        return read_method(self.decision.drift) if self.decision else METHOD


def _drift_errors(decision: Decision) -> dict[str, str]:
    """The error that kept drift from being judged, if any: what the baseline lacked then, it may have today."""
    if decision.drift is not None:
        return {}
    return {each["check"]: each["message"] for each in decision.checks if (each["check"], each["status"]) == ("drift", "error")}


def replay(run: Run, decision: Decision) -> Decision:
    """Judge a decision's batch again: its bronze rows, its rule set, its baseline version, its own profiles.

    ``decision`` must have been read with its evidence, and be one of silver's.
    """
    run = replace(run, spec=run.spec.as_judged(decision.ruleset), run_id=f"{run.run_id}-replay")
    records = logs.extractions(run.settings, run.table)
    record = next(r for r in records if r.batch == decision.batch)
    # What an extraction had not yet shown when it was decided, it did not know.
    # (By bronze's count as well: the clock may have been set back between extraction and decision.)
    until_then = [r for r in records if r.extracted_at <= decision.decided_at or r.bronze_version <= record.bronze_version]
    # What a person said of a release is kept as what came of it.
    joins = decision.teaches if decision.kind in ("released", "rejudged") else None
    target = _Replay(
        run,
        [d for d in logs.decisions(run.settings, run.table) if d.number < decision.number],
        records=[record],
        request=JudgementRequest(decision.kind, decision.waived, decision.by, decision.because, joins),
        inputs=decision.inputs,
        divides=False,
        decision=decision,
        columns=frozenset(column for r in until_then for column in r.columns),
    )
    try:
        run_steps(target, JUDGING)
        complete(target, deferred_outcomes(target))
    finally:
        if hasattr(target, "staged"):
            target.staged.unpersist()
    return target.own[0]


def _in_memory(frame: DataFrame) -> DataFrame:
    return in_memory(frame.drop("_absent"))  # as `write_once` has it


def find_other_verdicts(run: Run, most: int) -> Iterator[Finding]:
    """Judge the newest ``most`` decisions again. Yield a finding for each that then has another verdict, other counts, other
    reasons or another p-value of drift.

    Left out are decisions that a later one supersedes, those that were restored without their evidence, and those whose
    extraction is no longer in bronze.
    """
    decisions = [d for d in logs.decisions(run.settings, run.table) if d.superseded_by is None and d.kind != "discarded"]
    in_bronze = TableFiles(run.path("bronze")).extractions().keys()
    recorded = {record.batch for record in logs.extractions(run.settings, run.table) if not record.rows} | in_bronze
    newest = [d for d in decisions if d.batch in recorded][-most:]
    for decision in logs.with_evidence(run.settings, run.table, newest):
        if not decision.checks:
            continue
        again = replay(run, decision)
        if names := find_differences(decision, again):
            text = f"judged again by what it kept, decision {decision.number} gives other {', '.join(names)}"
            text += f": {again.verdict} ({decision.verdict} on record)"
            at = (decision.p_extracted_at, decision.extraction_seq, decision.decision_id)
            yield Finding(run.table, "ops/decisions", "replayed", text, MEND, *at)


def find_differences(decision: Decision, again: Decision) -> list[str]:
    """Return what differs of two decisions on one batch. How a reason is worded is no difference: a later version of this
    software may say the same in other words.
    """
    names = [name for name in ("verdict", "counts") if getattr(again, name) != getattr(decision, name)]
    reasons = [[replace(reason, message="") for reason in each.reasons] for each in (decision, again)]
    if reasons[0] != reasons[1]:
        names.append("reasons")
    before, now = decision.drift_p_value, again.drift_p_value
    if before != now and (before is None or now is None or not math.isclose(before, now, rel_tol=SAME_P_VALUE)):
        names.append("p-value of drift")
    return names
