"""Stage → measure → decide for a set of batches of one table: nothing is published here.

Belongs here: the order of the steps and what each is given. Does not: the log, the exchange, quarantine.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.checks.history import HistoryCheck
from lakehouse_assets.checks.sql_text import literal
from lakehouse_assets.contracts.decision import Counts, Decision, ExtractionRecord, Kind
from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.decisions import evolution, gate, ledger
from lakehouse_assets.decisions.drift import Book, DriftVerdict, judge_drift
from lakehouse_assets.decisions.history import History
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.decisions.relations import Measured
from lakehouse_assets.decisions.schema_gate import lacking_columns, schema_outcomes
from lakehouse_assets.layers.afterwards import at_once
from lakehouse_assets.layers.others import others_now
from lakehouse_assets.layers.run import Run
from lakehouse_assets.layers.since import drifting_since
from lakehouse_assets.layers.staging import Broken, stage_batches
from lakehouse_assets.measures.isolate import culprits
from lakehouse_assets.measures.profile import CROWDED, profile
from lakehouse_assets.measures.samples import failing_samples
from lakehouse_assets.measures.scan import riding, scan
from lakehouse_assets.measures.special import query_failures
from lakehouse_assets.measures.stage import check_context, row_rules, select_batches
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.book import read_baseline

Batch = tuple[datetime, int]


@dataclass(frozen=True)
class Act:
    """What a judgement is: by itself or a person's release, overriding what, why; and the other tables that it saw.

    ``teach``: whether it is to teach the baseline, where a person has said so.
    """

    kind: Kind = "judged"
    waived: tuple[str, ...] = ()
    by: str | None = None
    because: str | None = None
    inputs: Mapping[str, int] = field(default_factory=dict)
    teach: bool | None = None

    def teaches(self, drift: DriftVerdict | None) -> bool:
        """Unless a person says otherwise, an override publishes what was found strange, which must not become normal. Beyond
        its pinned reference a baseline learns nothing, whoever says so.
        """
        wanted = self.teach if self.teach is not None else not {"drift", "*"} & set(self.waived)
        return drift is not None and drift.learns and wanted


@dataclass(frozen=True)
class Judged:
    """The decisions of a set of batches, the staged rows that they speak of, and at most five failing values a check."""

    decisions: list[Decision]
    staged: DataFrame
    samples: dict[str, list[str]]


def measure(
    run: Run, staged: DataFrame, broken: Broken, batches: Collection[Batch]
) -> tuple[dict[Batch, BatchNumbers], dict[Batch, list[Measured]]]:
    """At most two grouped aggregations; one more for each check that cannot ride along."""
    spec, context = run.spec, check_context(run.spec)
    awaited = at_once(spec.checks, context)
    rules = [rule.id for rule in row_rules(spec)]
    along = riding(awaited, context, rules)
    errors: dict[Batch, dict[str, str]] = {}
    for name, found in broken.items():
        for batch, message in found.items():
            check = f"cast_{name.removeprefix('column:')}" if name.startswith("column:") else name
            errors.setdefault(batch, {})[check] = message
    try:
        numbers = scan(staged, rules, along)
    except SCAN_ERRORS:
        numbers = _scan_one_by_one(staged, rules, along, errors, batches)
    run.step("measured_rules")
    extra = query_failures(staged, awaited, context, batches, errors, numbers)
    merged = {}
    for batch in batches:
        merged[batch] = numbers.get(batch, BatchNumbers()).completed(along, extra.get(batch, {}), errors.get(batch, {}))
    profiles: dict[Batch, list[Measured]] = {}
    if spec.drift:
        wrong: dict[Batch, str] = {}

        def measured(some: Sequence[Batch]) -> None:
            assert spec.drift is not None  # noqa: S101 (asked above)
            rows = staged if len(some) == len(batches) else select_batches(staged, some)
            found, crowded = profile(rows, spec.drift, some[0] if len(some) == 1 else None)
            profiles.update(found)
            wrong.update(dict.fromkeys(crowded & set(some), CROWDED))

        for batch, message in culprits(sorted(batches), measured).items():
            wrong[batch] = f"the features could not be measured: {message}"
            if set(spec.pii_columns):
                wrong[batch] = f"the features could not be measured: {gate.MASKED}"
        for batch, text in wrong.items():
            merged[batch] = replace(merged[batch], errors={**merged[batch].errors, "drift": text})
    run.step("measured_drift")
    return merged, profiles


def _scan_one_by_one(staged, rules, along, errors, batches) -> dict[Batch, BatchNumbers]:
    """A metric that stops the scan is found by trying each alone; it is in error in the batches where it fails, and measured
    in the others.
    """
    usable = {}
    for check, metrics in along.items():
        wrong = culprits(
            sorted(batches), lambda some, check=check, metrics=metrics: scan(select_batches(staged, some), [], {check: metrics})
        )
        for batch, message in wrong.items():
            errors.setdefault(batch, {})[check] = message
        usable[check] = metrics, [batch for batch in batches if batch not in wrong]
    found = scan(staged, rules, {check: metrics for check, (metrics, good) in usable.items() if len(good) == len(batches)})
    for check, (metrics, good) in usable.items():
        if good and len(good) < len(batches):
            for batch, numbers in scan(select_batches(staged, good), [], {check: metrics}).items():
                found[batch] = replace(found[batch], metrics={**found[batch].metrics, check: numbers.metrics[check]})
    return found


def judge(
    run: Run,
    extractions: Sequence[ExtractionRecord],
    known: Sequence[Decision],
    *,
    kind: Kind = "judged",
    waived: Collection[str] = (),
    by: str | None = None,
    because: str | None = None,
    teach: bool | None = None,
) -> Judged:
    """Judge these extractions, oldest window first, each by what is known when it is decided. All of them are staged by one
    contract: where one changes it, `evolution.together` says which can be judged at once.
    """
    batches = [(e.p_extracted_at, e.extraction_seq) for e in extractions]
    others = others_now(run.settings, run.spec.checks, run.spark)
    staging = replace(run, spec=evolution.staging_spec(run.spec, known, extractions))
    staged, broken = stage_batches(staging, batches, run.run_id, waived, others)
    run.step("staged")
    numbers, profiles = measure(staging, staged, broken, batches)
    act = Act(kind, tuple(sorted(waived)), by, because, others.inputs, teach)
    decisions = decide(run, extractions, known, numbers, profiles, act)
    samples = failing_samples(staged) if any(n.failing or any(n.failed_rows.values()) for n in numbers.values()) else {}
    return Judged(decisions, staged, samples)


def decide(
    run: Run,
    extractions: Sequence[ExtractionRecord],
    known: Sequence[Decision],
    numbers: dict[Batch, BatchNumbers],
    profiles: dict[Batch, list[Measured]],
    act: Act,
    ever: Collection[str] | None = None,
) -> list[Decision]:
    """Numbers → decisions, no Spark. ``ever``: source columns that any extraction has had (default: from the log).

    An accepted batch also supersedes the earlier extractions of its window.
    """
    spec, made = run.spec, list(known)
    start, ruleset, ruleset_hash = max((d.number for d in known), default=0), spec.ruleset(), spec.ruleset_hash
    # Each of these windows may leave the book, and not enter it again.
    book = read_baseline(run.settings, spec, known, start, spare=len(extractions)) if spec.drift else None
    was_accepted = set(ledger.accepted(known))
    if ever is None:
        ever = {column for record in logs.extractions(run.settings, spec.name) for column in record.columns}
    looks_back = any(isinstance(check, HistoryCheck) for check in spec.checks)
    taught = ledger.accepted(known).values() if looks_back else ()
    history = History(logs.with_evidence(run.settings, spec.name, taught, ("checks",)))
    new: list[Decision] = []
    for record in sorted(extractions, key=lambda e: e.p_extracted_at):
        batch = (record.p_extracted_at, record.extraction_seq)
        n, number = numbers[batch], start + len(new) + 1
        drift: DriftVerdict | None = None
        if spec.drift and book and n.newest and "drift" not in n.errors:
            drift = _drift(run, record.p_extracted_at, profiles.get(batch, []), book, made)
        stands = evolution.effective(spec, made)
        planned = evolution.plan(stands, record, run.readers)
        uncast = {name: n.failed_rows.get(f"cast_{name}", 0) for name in stands.columns}
        outcomes = gate.built_in(planned.spec, n) + schema_outcomes(stands, record, planned, ever, uncast)
        context, before = context_at(run, record.p_extracted_at, record.control), partial(history.before, record.p_extracted_at)
        outcomes += gate.judge_checks(
            *(at_once(spec.checks, context), context, n, spec.pii_columns, act.waived, before),
            lacking=lacking_columns(stands, record),
        )
        outcomes += gate.drift_outcome(drift)
        if "drift" in n.errors:
            outcomes.append(gate.Outcome("drift", "drift", "critical", "error", "batch", 0, n.errors["drift"]))
        outcomes = gate.waive(outcomes, act.waived)
        verdict, counts = gate.verdict_of(outcomes, n)
        decision = Decision(
            table=spec.name,
            p_extracted_at=record.p_extracted_at,
            extraction_seq=record.extraction_seq,
            number=number,
            kind=act.kind,
            verdict=verdict,
            counts=counts,
            reasons=gate.reasons_of(outcomes),
            ruleset_hash=ruleset_hash,
            ruleset=ruleset,
            bronze_version=record.bronze_version,
            baseline_version=number - 1 if spec.drift else None,
            run_id=run.run_id,
            decided_at=run.clock(),
            drift_p_value=drift.p_value if drift else None,
            teaches=act.teaches(drift),
            waived=act.waived,
            by=act.by,
            because=act.because,
            inputs=dict(act.inputs),
            evolved=planned.evolved,
            checks=tuple(outcome.as_dict() for outcome in outcomes),
            drift=drift.to_dict() if drift else None,
            profiles=tuple(p.to_dict() for p in profiles.get(batch, [])),
        )
        replaced = ledger.replaced_by(batch, made) if decision.accepted else []
        new_here = [decision, *[_superseded(old, decision) for old in replaced]]
        if book and (decision.accepted or batch in was_accepted):
            # An earlier extraction or what was seeded for the window, or what is held now.
            book.forget(record.p_extracted_at)
            if decision.teaches and drift and decision.accepted:
                book.learn(record.p_extracted_at, profiles.get(batch, []), drift.statistics)
        if decision.accepted:
            history.learn(decision)
        elif batch in was_accepted:
            history.forget(record.p_extracted_at)
        new += [decision]
        made += new_here
    return made[len(known) :]


def _drift(run: Run, start: datetime, measured: Sequence[Measured], book: Book, made: Sequence[Decision]) -> DriftVerdict:
    """The judgement; of a window that drifts, with the window since which it has been so."""
    since = partial(drifting_since, run.settings, run.spec.name, made, start)
    return judge_drift(measured, *book.without_window(start), book.spec, window=start, since=since)


def _superseded(old: Decision, by: Decision) -> Decision:
    counts = Counts(rows_in=old.counts.rows_in, rows_superseded=old.counts.rows_in)
    return replace(
        old, number=by.number, counts=counts, superseded_by=by.decision_id, run_id=by.run_id, decided_at=by.decided_at,
        teaches=False, evolved={}, checks=(), drift=None, profiles=(), silver_version=None, applied_at=None,
    )  # fmt: skip


def context_at(run: Run, start: datetime, control: ControlTotals | None = None) -> CheckContext:
    """The context of one window, its bounds as literals: for judging, where there is no row to take them from."""
    window = window_at(start, run.spec.extraction.cadence)
    bounds = {"window_start_sql": literal(window.start), "window_end_sql": literal(window.end)}
    return replace(check_context(run.spec), **bounds, control=control)
