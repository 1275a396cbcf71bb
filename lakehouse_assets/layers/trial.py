"""Checks tried on real data: what they would say of each window. Nothing is written, logged or published.

Belongs here: checks by themselves, before the gate (on the source or bronze) or after it (on silver), and backtests.
Does not: the gate (judge).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from pyspark.sql import DataFrame

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.checks.dependencies import rows_passed_over, with_prerequisites
from lakehouse_assets.checks.history import HistoryCheck
from lakehouse_assets.checks.kinds.control import ControlTotal
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window, window_at
from lakehouse_assets.decisions import gate, ledger
from lakehouse_assets.decisions.history import History
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.decisions.schema_gate import lacking_columns, without
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers.bronze import bronze_rows
from lakehouse_assets.layers.judge import context_at
from lakehouse_assets.layers.others import Others, others_now
from lakehouse_assets.layers.run import Run
from lakehouse_assets.layers.source import only_in_bronze, source_of
from lakehouse_assets.measures.isolate import culprits
from lakehouse_assets.measures.samples import PER_CHECK, failing_samples
from lakehouse_assets.measures.scan import riding, scan
from lakehouse_assets.measures.special import query_failures
from lakehouse_assets.measures.stage import check_context, declared_rules, row_rules, select_batches, stage
from lakehouse_assets.measures.standalone import flagged
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.session import compiled_as_fits

Batch = tuple[datetime, int]
Spec = TypeVar("Spec", TableSpec, GoldSpec)


@dataclass(frozen=True)
class Trial:
    """What one check says of one window, or of a gold table (``window`` None). ``stands``: the decision as it is, None if
    nobody has judged it.
    """

    window: Window | None
    rows: int
    outcome: gate.Outcome
    stands: Decision | None

    @property
    def of(self) -> str:
        """The window's key, or that it is the whole table."""
        return self.window.key if self.window else "whole table"

    @property
    def would_hold(self) -> str:
        """What would have been held for this check's sake."""
        if self.outcome.effect == "batch":
            return "the window" if self.window else "the table"
        return f"{self.outcome.failed_rows} row(s)" if self.outcome.effect == "rows" else "nothing"


@dataclass(frozen=True)
class Tried:
    """What each check says of each window, and by check at most five failing values (masked where they are `pii`)."""

    trials: list[Trial]
    samples: dict[str, list[str]]


@dataclass(frozen=True)
class _Data:
    """Staged rows by batch, the rules whose flags they carry, what the source says of their windows, and the columns that
    these lack.
    """

    frame: DataFrame
    spec: TableSpec
    place: str
    batches: tuple[Batch, ...]
    control: Mapping[datetime, ControlTotals | None] = field(default_factory=dict)
    lacking: Mapping[datetime, Sequence[str]] = field(default_factory=dict)


def with_check(spec: Spec, check: Check) -> Spec:
    """The table (silver or gold) with this check, in the place of the one of its name or after all others. Raises
    ValidationError where silver has no such column, or where another check stands in its way.
    """
    others = [other for other in spec.checks if other.id != check.id]
    at = next((place for place, other in enumerate(spec.checks) if other.id == check.id), len(others))
    checks = [*others[:at], check, *others[at:]]
    given = spec.model_dump(by_alias=True, exclude={"checks"}, exclude_unset=True)
    given |= {"drift": None} if isinstance(spec, TableSpec) else {}
    return type(spec).model_validate({**given, "checks": [c.model_dump(exclude_unset=True) for c in checks]})


def try_checks(run: Run, checks: Sequence[Check], windows: Sequence[Window], place: str = "bronze") -> Tried:
    """Judge these windows by these checks, oldest first; those that have no rows at the place are left out. Checks that they
    depend on are judged before them. At most one aggregation, and one query for each check that cannot ride along.

    ``place``: ``source`` (what has landed, extracted or not), ``bronze`` (newest extractions) or ``silver`` (published rows,
    by the window that they came with). A check of the history is compared with windows as they are on record; where it is
    tried on several, a window that it would have held teaches nothing to those after it. Raises RefusedError where there is
    nothing to look at.
    """
    spec = run.spec
    for check in checks:
        spec = with_check(spec, check)
    run, names = replace(run, spec=spec), {check.id for check in checks}
    data = _data(run, windows, place, names)
    wanted = with_prerequisites(spec.checks, names)
    numbers, samples = _measure(run, data, wanted, names)
    looks_back = any(isinstance(check, HistoryCheck) for check in wanted)
    known = logs.decisions(run.settings, spec.name, evidence=False, checks=looks_back)
    standing = {d.p_extracted_at: d for d in ledger.standing(known).values() if d.superseded_by is None}
    history = History(known)
    found = []
    for batch in sorted(data.batches):
        start = batch[0]

        def before(past: HistoryCheck, start: datetime = start):
            return history.before(start, past)

        judged = gate.judge_checks(
            *(wanted, context_at(run, start, data.control.get(start)), numbers[batch], spec.pii_columns),
            before=before,
            lacking=data.lacking.get(start, ()),
        )
        window, old = window_at(start, spec.extraction.cadence), standing.get(start)
        found += [Trial(window, numbers[batch].rows_in, outcome, old) for outcome in judged if outcome.check in names]
        if old and old.accepted and not any(outcome.effect == "batch" for outcome in judged):
            history.learn(replace(old, checks=tuple(outcome.as_dict() for outcome in judged), waived=()))
        else:
            history.forget(start)
    return Tried(found, samples)


def newest_of(run: Run, windows: Sequence[Window], place: str) -> list[Window]:
    """The newest of these windows that the place has, if it has any: that has landed, is in bronze, or is published."""
    if place == "source":
        starts = {window.start for window in source_of(run.spec, run.settings).fingerprints(windows)}
    elif place == "silver":
        starts = {start for start, _ in ledger.accepted(logs.decisions(run.settings, run.spec.name, evidence=False))}
    else:
        starts = {record.p_extracted_at for record in logs.extractions(run.settings, run.spec.name)}
    return [window for window in windows if window.start in starts][-1:]


def _data(run: Run, windows: Sequence[Window], place: str, names: Collection[str]) -> _Data:
    spec, starts = run.spec, {window.start for window in windows}
    if place == "source":
        if only_in_bronze(spec):
            raise RefusedError(f"{spec.name}: its source has the present only; ask bronze")
        source = source_of(spec, run.settings)
        arrived = sorted(source.fingerprints(windows))
        if not arrived:
            raise RefusedError(f"{spec.name}: none of these windows has landed")
        extraction = source.read(run.spark, arrived)
        rows = bronze_rows(extraction.frame, dict.fromkeys(arrived, 1))
        told = {window.start: totals for window, totals in extraction.control.items()}
        came = {window.start: extraction.columns.get(window, ()) for window in arrived}
        lacks = {start: without(spec, columns) for start, columns in came.items()}
        return _Data(rows, spec, place, tuple((window.start, 1) for window in arrived), told, lacks)
    if place == "silver":
        as_came = HistoryCheck | ControlTotal
        if looking := [check.id for check in spec.checks if isinstance(check, as_came) and check.id in names]:
            text = "look at windows as they came, and in silver later ones have taken rows from them; ask bronze"
            raise RefusedError(f"{spec.name}: {', '.join(looking)} {text}")
        known = logs.decisions(run.settings, spec.name, evidence=False)
        batches = tuple(batch for batch in ledger.accepted(known) if batch[0] in starts)
        if not batches or not delta.exists(run.path("silver")):
            raise RefusedError(f"{spec.name}: none of these windows is published")
        rows = run.spark.read.format("delta").load(run.path("silver"))
        accepted = {(r.p_extracted_at, r.extraction_seq): r for r in logs.extractions(run.settings, spec.name)}
        lacks = {start: lacking_columns(spec, accepted[start, seq]) for start, seq in batches if start}
        return _Data(rows, spec, place, tuple((start, seq) for start, seq in batches if start), lacking=lacks)
    records = ledger.latest_extractions(logs.extractions(run.settings, spec.name))
    batches = tuple((start, record.extraction_seq) for start, record in records.items() if start in starts)
    if not batches:
        raise RefusedError(f"{spec.name}: none of these windows is in bronze; see `lakehouse verdicts`, or try --on source")
    told = {start: record.control for start, record in records.items()}
    lacks = {start: lacking_columns(spec, records[start]) for start, _ in batches}
    return _Data(run.spark.read.format("delta").load(run.path("bronze")), spec, place, batches, told, lacks)


def _staged(data: _Data, batches: Sequence[Batch], others: Others) -> DataFrame:
    rows, spec = select_batches(data.frame, batches), data.spec
    # As at the gate: what cannot be looked up fails no row.
    broken = others.errors(spec.checks)
    if data.place == "silver":
        return flagged(rows, spec.checks, check_context(spec), others.frames, broken, spec.pii_columns)
    return stage(rows, spec, others=others.frames, broken=dict.fromkeys(broken, batches))


def _measure(
    run: Run, data: _Data, wanted: Sequence[Check], names: Collection[str]
) -> tuple[dict[Batch, BatchNumbers], dict[str, list[str]]]:
    """Numbers of these checks by batch, and values that fail them. A check that stops the scan is in error where it does."""
    context = check_context(data.spec)
    others = others_now(run.settings, run.spec.checks, run.spark)
    errors: dict[Batch, dict[str, str]] = {batch: others.errors(wanted) for batch in data.batches}
    found: dict[Batch, BatchNumbers] = {}
    samples: dict[str, list[str]] = {}

    def measured(some: Sequence[Batch], data: _Data = data, asked: Sequence[Check] = wanted) -> None:
        rules = declared_rules(data.spec.checks, context) if data.place == "silver" else row_rules(data.spec)
        along = riding(asked, context, [rule.id for rule in rules])
        staged = _staged(data, some, others).persist()
        try:
            scanned = scan(staged, [rule.id for rule in rules], along)
            extra = query_failures(staged, asked, context, some, errors, scanned)
            if any(n.failed_rows.get(name) for n in scanned.values() for name in names):
                for name, values in failing_samples(staged).items():
                    if name in names and name in {check.id for check in asked}:
                        samples[name] = [*samples.get(name, []), *values][:PER_CHECK]
        finally:
            staged.unpersist()
        for batch in some:
            new, old = scanned.get(batch, BatchNumbers()), found.get(batch, BatchNumbers())
            failed = {c.id: new.failed_rows[c.id] for c in asked if c.id in new.failed_rows}
            new = new.completed(along, extra.get(batch, {}), {})
            found[batch] = replace(new, failed_rows={**old.failed_rows, **failed}, metrics={**old.metrics, **new.metrics})

    with compiled_as_fits(run.spark, len(data.spec.checks)):
        wrong = culprits(sorted(data.batches), measured)
        # Something stops the scan of these: each check is asked by itself, with those whose rows it passes over.
        for check in wanted if wrong else ():
            alone = (*rows_passed_over(check, data.spec.checks), check)
            apart = replace(data, spec=data.spec.model_copy(update={"checks": alone}))

            def one(some: Sequence[Batch], apart: _Data = apart, check: Check = check) -> None:
                measured(some, apart, [check])

            for batch, message in culprits(sorted(wrong), one).items():
                # A value may stand in it, of any column that is cast on the way.
                errors[batch][check.id] = gate.MASKED if data.spec.pii_columns else message
    return {batch: replace(found.get(batch, BatchNumbers()), errors=errors[batch]) for batch in data.batches}, samples
