"""An audit: every table of a layer that is on disk, sampled, asked, judged and recorded; one that fails never stops the others.

Belongs here: the order of the steps. Does not: drawing, asking and judging themselves (measures, decisions), or pages.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import CheckContext, RowCheck
from lakehouse_assets.checks.sql_text import identifier, literal
from lakehouse_assets.contracts.audit import AuditRules, AuditSetting, fits
from lakehouse_assets.contracts.audit_binding import Binding, Bound, bind
from lakehouse_assets.contracts.audit_record import AuditRecord, audit_id
from lakehouse_assets.decisions import audit as judging
from lakehouse_assets.decisions.audit_share import CONFIDENCE, counted, of_uniform, of_weighted
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.measures import audit_rules as ask
from lakehouse_assets.measures.isolate import plain
from lakehouse_assets.measures.sample import Drawn, Groups, count_groups, draw
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import audits, delta
from lakehouse_assets.storage.session import compiled_as_fits

MASKED = "(masked: pii)"
STAGES = ("silver", "gold")
REPEATED = "rows that nothing tells apart are in the table: the seed does not fix this sample"


@dataclass(frozen=True)
class Known:
    """What a `defs.yaml` says of a table. ``asset``: what Dagster calls it."""

    key: tuple[str, ...] = ()
    pii: frozenset[str] = frozenset()
    asset: str | None = None


def _nothing(_: str) -> None:
    return None


@dataclass(frozen=True)
class AuditRun:
    """One run. ``known``: by table, as `silver/weather`. ``seed``: None takes the run's second. ``escalate``: whether the whole
    table is looked at where the sample leaves a rule open.
    """

    settings: Settings
    rules: AuditRules
    session: Callable[[], SparkSession]
    run_id: str
    known: Mapping[str, Known] = field(default_factory=dict)
    seed: int | None = None
    escalate: bool = True
    as_of: int | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    step: Callable[[str], None] = _nothing


@dataclass(frozen=True)
class Report:
    """The audits, and what of the rules fits no column anywhere (only where all tables of a layer were audited)."""

    audits: tuple[AuditRecord, ...]
    unmatched: tuple[judging.Unmatched, ...] = ()

    @property
    def stops(self) -> bool:
        """Whether a table stops, or a critical rule is asked of nothing."""
        return any(a.verdict == "stopped" for a in self.audits) or any(u.fails for u in self.unmatched)


def audit_layer(run: AuditRun, stage: str, tables: Sequence[str] = ()) -> Report:
    """Audit every table of a layer, or those of these names. Raises RefusedError for a name that is not on disk."""
    there = audits.tables_below(run.settings, stage)
    wanted = [f"{stage}/{name.removeprefix(f'{stage}/')}" for name in tables]
    if missing := sorted(set(wanted) - set(there)):
        raise RefusedError(f"there is no Delta table {', '.join(missing)}; there are {', '.join(there) or 'none'}")
    if run.as_of is not None and len(wanted) != 1:
        raise RefusedError("--as-of names a version of one table: name it with --table")
    before = audits.latest(audits.records(run.settings))
    done = []
    for table in wanted or there:
        run.step(table)
        record = audit_table(run, table, before.get(table))
        audits.append(run.settings, record)
        done.append(record)
    if wanted:
        return Report(tuple(done))
    return Report(tuple(done), tuple(_unmatched(run, before | {a.table: a for a in done})))


def _unmatched(run: AuditRun, audited: Mapping[str, AuditRecord]) -> list[judging.Unmatched]:
    """Over both layers, since a pattern that fits nothing in silver may be meant for gold."""
    columns: dict[str, tuple[str, ...]] = {}
    bound: set[str] = set()
    year = run.clock().year
    for stage in STAGES:
        for table in audits.tables_below(run.settings, stage):
            schema = audited[table].schema if table in audited else _schema_of(run, table)
            columns[table] = tuple(schema)
            bound |= {b.rule.name for b in bind(run.rules.rules, table, schema, _key(run, table), year).bound}
    return judging.unmatched(run.rules.rules, columns, bound) if columns else []


def _schema_of(run: AuditRun, table: str) -> Mapping[str, str]:
    """Of a table that was not audited yet; nothing where it cannot be read, which its own audit will say."""
    try:
        return ask.leaves(_read(run, table, None).schema)
    except Exception:
        return {}


def _read(run: AuditRun, table: str, version: int | None) -> DataFrame:
    reader = run.session().read.format("delta")
    path = run.settings.path(*table.split("/"))
    return (reader.option("versionAsOf", version) if version is not None else reader).load(path)


def _key(run: AuditRun, table: str) -> tuple[str, ...]:
    """The pack's word on it, else that of `defs.yaml`."""
    return run.rules.setting(table).key or run.known.get(table, Known()).key


def audit_table(run: AuditRun, table: str, before: AuditRecord | None = None) -> AuditRecord:
    """One table's audit; whatever goes wrong is its *exception*. ``before``: its last audit. Writes nothing."""
    started, clock = run.clock(), time.monotonic()
    seed = run.seed if run.seed is not None else int(started.timestamp())
    path = run.settings.path(*table.split("/"))
    record = AuditRecord(
        audit_id=audit_id(run.run_id, path), run_id=run.run_id, path=path, stage=table.partition("/")[0], table=table,
        version=run.as_of, as_of=run.as_of is not None, verdict="stopped", total_raw_records=None, total_sampled_records=None,
        target_rows=run.rules.setting(table).rows or run.settings.audit_rows, weight_column=None, distribution_column=None,
        raw_data_distribution={}, sample_data_distribution={}, audit_columns=(), seed=seed, confidence=CONFIDENCE,
        ruleset_hash=run.rules.ruleset_hash, started_at=started, duration=0.0,
    )  # fmt: skip
    try:
        record = _audited(run, record, before, started)
    except Exception as error:  # the table's own exception: recorded, a hard stop for it, and for no other
        hidden = bool(_personal(run, table, record.schema))
        text = type(error).__name__ if hidden else f"{type(error).__name__}: {plain(error)}"
        record = replace(record, verdict="stopped", error_message=text)
    return replace(record, duration=round(time.monotonic() - clock, 3))


def _personal(run: AuditRun, table: str, schema: Mapping[str, str]) -> frozenset[str]:
    """Leaves whose values are never shown: those marked (or within a column that is), and those that the pack names."""
    marked = {name.lower() for name in run.known.get(table, Known()).pii}
    patterns = run.rules.setting(table).pii or ()
    found = {name for name in schema if name.lower() in marked or name.lower().partition(".")[0] in marked}
    found |= {name for name in schema if fits(name, patterns)}
    return frozenset(found or marked)


def _audited(run: AuditRun, record: AuditRecord, before: AuditRecord | None, moment: datetime) -> AuditRecord:
    snapshot = delta.snapshot(record.path, run.as_of)
    source = _read(run, record.table, snapshot.version)
    schema = ask.leaves(source.schema)
    setting = run.rules.setting(record.table)
    binding = bind(run.rules.rules, record.table, schema, _key(run, record.table), moment.year)
    pairs = tuple((bound.rule.name, name) for bound in binding.bound for name in bound.columns)
    personal = _personal(run, record.table, schema)
    column, weighted, notes = _distribution(setting, snapshot.partitions, schema, personal)
    lost = judging.lost_columns(before.bindings, pairs, {r.name for r in run.rules.rules}) if before else []
    if binding.lacking:
        notes.append(f"the key's {', '.join(binding.lacking)} is not in the table")
    if not any(bound.rule.key for bound in binding.bound):
        notes.append("no key is known, so that none was asked for; `settings` of a pack can name it")
    record = replace(
        record, version=snapshot.version, bindings=pairs, uncovered=binding.uncovered, unfit=binding.unfit, lost=tuple(lost),
        audit_columns=binding.columns, schema=schema, weight_column=column if weighted else None, distribution_column=column,
        notes=tuple(notes),
    )  # fmt: skip
    rows = snapshot.rows if snapshot.rows is not None else source.count()
    at = literal(moment)
    context = CheckContext((), at, at, "audited")
    identity = _identity(binding, _key(run, record.table), schema)
    wanted = [*binding.columns, *identity, *([column] if column else [])]
    frame = ask.flat(source, wanted)
    groups = count_groups(frame, column, rows, weighted=weighted) if column else None
    with compiled_as_fits(run.session(), len(binding.bound)):
        drawn = draw(
            frame, [F.col(identifier(n)) for n in identity], record.target_rows, record.seed, rows, column=column, groups=groups
        )
        try:
            results = _asked(run, source, binding, drawn, groups, rows, context, personal)
        finally:
            drawn.release()
    if column:
        record = replace(
            record, raw_data_distribution=dict(groups.counts if groups else {}), sample_data_distribution=drawn.counts
        )
    if drawn.repeated:
        record = replace(record, notes=(*record.notes, REPEATED))
    lacks = [("key", name) for name in binding.lacking]
    return replace(
        record,
        total_raw_records=rows,
        total_sampled_records=drawn.count,
        results=tuple(result.as_dict() for result in results),
        verdict=judging.verdict_of(results, None, [*lost, *lacks]),
    )


def _distribution(
    setting: AuditSetting, partitions: Sequence[str], schema: Mapping[str, str], personal: frozenset[str]
) -> tuple[str | None, bool, list[str]]:
    """The column by which rows are counted (the declared weight, else the first partition column), whether it weighs, notes."""
    column, weighted = (setting.weight, True) if setting.weight else (next(iter(partitions), None), False)
    if column is None:
        return None, False, []
    if column not in schema:
        return None, False, [f"weight: there is no column {column}; the sample is uniform"]
    if column in personal:
        return None, False, [f"weight: {column} is pii, and its values would be shown; the sample is uniform"]
    return column, weighted, []


def _identity(binding: Binding, key: Sequence[str], schema: Mapping[str, str]) -> list[str]:
    """The columns that tell a row from any other: its key; without one, all that can be hashed."""
    if key and not binding.lacking:
        return list(key)
    return [name for name, kind in schema.items() if not re.search(r"\b(map|variant|interval)\b", kind)]


def _asked(
    run: AuditRun,
    source: DataFrame,
    binding: Binding,
    drawn: Drawn,
    groups: Groups | None,
    rows: int,
    context: CheckContext,
    personal: frozenset[str],
) -> list[judging.RuleResult]:
    by_row = [bound for bound in binding.bound if isinstance(bound.check, RowCheck)]
    weights = groups.weights if groups else {}
    flags, likely, errors = ask.failures_in_sample(drawn.rows, by_row, context, weights, drawn.cut)
    shares = {}
    for n, bound in enumerate(by_row):
        failed = flags[:, n]
        if weights:
            shares[bound.id] = of_weighted(failed.tolist(), likely.tolist(), rows)
        else:
            shares[bound.id] = of_uniform(len(failed), int(failed.sum()), rows)
    open_ = [b for b in by_row if b.id not in errors and shares[b.id].answer(b.rule.threshold) == "inconclusive"]
    escalated: set[str] = set()
    if open_ and run.escalate:
        run.step(f"{len(open_)} rules in full")
        frame = ask.flat(source, [name for bound in open_ for name in bound.columns])
        whole, counts, more = ask.failures_in_full(frame, open_, context)
        errors |= more
        shares |= {name: counted(whole, failed) for name, failed in counts.items()}
        escalated = set(counts)
    failing = [b for b in by_row if b.id not in errors and shares[b.id].failed and not personal & set(b.columns)]
    shown = ask.examples(drawn.rows, failing, context)
    failed = [b for b in failing if not shown.get(b.id) and shares[b.id].answer(b.rule.threshold) == "fail"]
    if failed:
        frame = ask.flat(source, [name for bound in failed for name in bound.columns])
        shown |= ask.least_examples(frame, failed, context)
    found = []
    for bound in binding.bound:
        hidden = bool(personal & set(bound.columns))
        if bound.id in errors:
            found.append(judging.in_exception(bound, MASKED if hidden else errors[bound.id]))
        elif isinstance(bound.check, RowCheck):
            share = shares[bound.id]
            values = (MASKED,) if hidden and share.failed else shown.get(bound.id, ())
            found.append(judging.judge(bound, share, escalated=bound.id in escalated, examples=values))
        else:
            found.append(_unique(source, bound, rows, context, hidden))
    return found


def _unique(source: DataFrame, bound: Bound, rows: int, context: CheckContext, hidden: bool) -> judging.RuleResult:
    """Never on the sample: two rows of one value are hardly ever both in it."""

    def count() -> Any:
        return ask.duplicates(ask.flat(source, bound.columns), bound, context)

    found, error = ask.attempt(count)
    return judging.in_exception(bound, MASKED if hidden else error) if error else judging.judge_unique(bound, rows, found)
