"""An audit: every table of a layer on disk, sampled, measured, judged and recorded; a failing one never stops the others.

Belongs here: the order of the steps. Does not: the steps themselves (sample, rule_results, decisions), pages.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.audit import rule_scans
from lakehouse_assets.audit.rule_results import judge_rules
from lakehouse_assets.audit.sample import count_groups, draw_sample
from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.contracts.audit import AuditRecord, AuditRules, AuditSetting, audit_id
from lakehouse_assets.contracts.audit_binding import Binding, bind
from lakehouse_assets.decisions.audit import verdict as judging
from lakehouse_assets.decisions.audit.masking import personal_leaves
from lakehouse_assets.decisions.audit.share import CONFIDENCE
from lakehouse_assets.errors import RefusedError, SourceError
from lakehouse_assets.measures.error_text import error_text
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import audit_log, delta
from lakehouse_assets.storage.session_properties import limit_codegen

STAGES = ("silver", "gold")
# Tables that others write, where a guard names them. They are declared, and not found on disk.
GUARDED = "guarded"
REPEATED = "rows that nothing distinguishes are in the table: the seed does not fix this sample"


@dataclass(frozen=True)
class DeclaredTable:
    """A table's facts from its `defs.yaml`. ``asset``: Dagster's name of it. ``location``: finds a guarded table, by a session
    where only its catalog knows. Raises SourceError.
    """

    key: tuple[str, ...] = ()
    pii: frozenset[str] = frozenset()
    asset: str | None = None
    location: Callable[[Callable[[], SparkSession]], str] | None = None


@dataclass(frozen=True)
class AuditRun:
    """One run. ``declared``: tables by path, as `silver/weather` or `guarded/orders`. ``seed``: None takes the run's second.
    ``escalate``: the whole table is read if the sample leaves a rule open.
    """

    settings: Settings
    rules: AuditRules
    session: Callable[[], SparkSession]
    run_id: str
    declared: Mapping[str, DeclaredTable] = field(default_factory=dict)
    seed: int | None = None
    escalate: bool = True
    as_of: int | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    step: Callable[[str], None] = lambda _: None

    def tables(self, stage: str) -> list[str]:
        """Return the tables of a layer that are on disk, or those that guards name."""
        if stage == GUARDED:
            return sorted(table for table, each in self.declared.items() if each.location is not None)
        return audit_log.find_tables(self.settings, stage)

    def reads_in_full(self, rules: int) -> bool:
        """Whether the whole table is read for so many rules that the sample leaves open."""
        if self.escalate:
            self.step(f"{rules} rules in full")
        return self.escalate

    def path(self, table: str) -> str:
        """Return where a table lies. Raises SourceError for a guarded one that cannot be found."""
        location = self.declared.get(table, DeclaredTable()).location
        return location(self.session) if location else self.settings.path(*table.split("/"))


@dataclass(frozen=True)
class AuditReport:
    """The audits; of a whole layer also the rules that match no column anywhere."""

    audits: tuple[AuditRecord, ...]
    unmatched: tuple[judging.Unmatched, ...] = ()

    @property
    def stops(self) -> bool:
        """Whether a table stops, or a critical rule matches nothing."""
        return any(a.verdict == "stopped" for a in self.audits) or any(u.fails for u in self.unmatched)


def audit_layer(run: AuditRun, stage: str, tables: Sequence[str] = ()) -> AuditReport:
    """Audit every table of a layer, or those of these names. ``stage``: `silver`, `gold` or `guarded`. Raises RefusedError for
    a name that is not on disk, or that no guard has.
    """
    on_disk = run.tables(stage)
    requested = [f"{stage}/{name.removeprefix(f'{stage}/')}" for name in tables]
    if missing := sorted(set(requested) - set(on_disk)):
        kind = "guard" if stage == GUARDED else "Delta table"
        raise RefusedError(f"there is no {kind} {', '.join(missing)}; there are {', '.join(on_disk) or 'none'}")
    if run.as_of is not None and len(requested) != 1:
        raise RefusedError("--as-of names a version of one table: name it with --table")
    before = audit_log.latest_audits(audit_log.read_audits(run.settings))
    records = []
    for table in requested or on_disk:
        run.step(table)
        record = audit_table(run, table, before.get(table))
        audit_log.append_audit(run.settings, record)
        records.append(record)
    unmatched = [] if requested else _unmatched(run, before | {a.table: a for a in records})
    return AuditReport(tuple(records), tuple(unmatched))


def _unmatched(run: AuditRun, audited: Mapping[str, AuditRecord]) -> list[judging.Unmatched]:
    """Return unmatched rules over all layers, since a pattern without match in silver may be meant for gold."""
    columns: dict[str, tuple[str, ...]] = {}
    bound: set[str] = set()
    year = run.clock().year
    for stage in (*STAGES, GUARDED):
        for table in run.tables(stage):
            schema = audited[table].schema if table in audited else _schema_of(run, table)
            columns[table] = tuple(schema)
            bound |= {b.rule.name for b in bind(run.rules.rules, table, schema, _key(run, table), year).bound}
    return judging.find_unmatched(run.rules.rules, columns, bound) if columns else []


def _schema_of(run: AuditRun, table: str) -> Mapping[str, str]:
    """Return the schema of a table that was not audited yet; empty if it is unreadable, which its own audit reports."""
    try:
        return rule_scans.leaf_types(_read(run, table, None).schema)
    except Exception:
        return {}


def _read(run: AuditRun, table: str, version: int | None) -> DataFrame:
    reader = run.session().read.format("delta")
    path = run.path(table)
    return (reader.option("versionAsOf", version) if version is not None else reader).load(path)


def _key(run: AuditRun, table: str) -> tuple[str, ...]:
    """Return the pack's key of a table, else that of `defs.yaml`."""
    return run.rules.setting(table).key or run.declared.get(table, DeclaredTable()).key


def audit_table(run: AuditRun, table: str, before: AuditRecord | None = None) -> AuditRecord:
    """Audit one table; any failure is its *exception*. ``before``: its last audit. Writes nothing."""
    started, clock = run.clock(), time.monotonic()
    seed = run.seed if run.seed is not None else int(started.timestamp())
    try:
        path, problem = run.path(table), None
    except SourceError as error:
        path, problem = "", error
    record = AuditRecord(
        audit_id=audit_id(run.run_id, path or table), run_id=run.run_id, path=path, stage=table.partition("/")[0], table=table,
        version=run.as_of, as_of=run.as_of is not None, verdict="stopped", total_raw_records=None, total_sampled_records=None,
        target_rows=run.rules.setting(table).rows or run.settings.audit_rows, weight_column=None, distribution_column=None,
        raw_data_distribution={}, sample_data_distribution={}, audit_columns=(), seed=seed, confidence=CONFIDENCE,
        ruleset_hash=run.rules.ruleset_hash, started_at=started, duration=0.0,
    )  # fmt: skip
    try:
        if problem is not None:
            raise problem
        record = _audit(run, record, before, started)
    except Exception as error:  # the table's own exception: recorded, a hard stop for it, and for no other
        hidden = bool(_personal_columns(run, table, record.schema))
        text = error_text(error, hidden)
        text = text if hidden else f"{type(error).__name__}: {text}"
        record = replace(record, verdict="stopped", error_message=text)
    return replace(record, duration=round(time.monotonic() - clock, 3))


def _personal_columns(run: AuditRun, table: str, schema: Mapping[str, str]) -> frozenset[str]:
    """Return leaves whose values are never shown: marked ones (or within a marked column), and those that the pack names."""
    return personal_leaves(schema, run.declared.get(table, DeclaredTable()).pii, run.rules.setting(table).pii or ())


def _audit(run: AuditRun, record: AuditRecord, before: AuditRecord | None, moment: datetime) -> AuditRecord:
    snapshot = delta.snapshot(record.path, run.as_of)
    source = _read(run, record.table, snapshot.version)
    schema, key = rule_scans.leaf_types(source.schema), _key(run, record.table)
    binding = bind(run.rules.rules, record.table, schema, key, moment.year)
    pairs = tuple((bound.rule.name, name) for bound in binding.bound for name in bound.columns)
    personal = _personal_columns(run, record.table, schema)
    column, weighted, notes = _distribution(run.rules.setting(record.table), snapshot.partitions, schema, personal)
    lost = judging.find_lost_columns(before.bindings, pairs, {r.name for r in run.rules.rules}) if before else []
    if binding.lacking:
        notes.append(f"the key's {', '.join(binding.lacking)} is not in the table")
    if not any(bound.rule.key for bound in binding.bound):
        notes.append("no key is known, so that none was asked for; `settings` of a pack can name it")
    rows = snapshot.rows if snapshot.rows is not None else source.count()
    at = literal(moment)
    context = CheckContext((), at, at, "audited")
    identity = _identity(binding, key, schema)
    frame = rule_scans.select_leaves(source, [*binding.columns, *identity, *([column] if column else [])])
    groups = count_groups(frame, column, rows, weighted=weighted) if column else None
    with limit_codegen(run.session(), len(binding.bound)):
        sample = draw_sample(
            frame, [F.col(identifier(n)) for n in identity], record.target_rows, record.seed, rows, column=column, groups=groups
        )
        try:
            results = judge_rules(source, binding, sample, rows, context, personal, run.reads_in_full)
        finally:
            sample.release()
    verdict = judging.decide_verdict(results, [*lost, *(("key", name) for name in binding.lacking)])
    return replace(
        record, version=snapshot.version, bindings=pairs, uncovered=binding.uncovered, unfit=binding.unfit, lost=tuple(lost),
        audit_columns=binding.columns, schema=schema, weight_column=column if weighted else None, distribution_column=column,
        raw_data_distribution=groups.counts if groups else {}, sample_data_distribution=sample.counts if column else {},
        notes=(*notes, *([REPEATED] if sample.repeated else [])), total_raw_records=rows, total_sampled_records=sample.count,
        results=tuple(result.as_dict() for result in results), verdict=verdict,
    )  # fmt: skip


def _distribution(
    setting: AuditSetting, partitions: Sequence[str], schema: Mapping[str, str], personal: frozenset[str]
) -> tuple[str | None, bool, list[str]]:
    """Return the column that counts rows (the declared weight, else the first partition column), whether it weights, notes."""
    column, weighted = (setting.weight, True) if setting.weight else (next(iter(partitions), None), False)
    if column is None:
        return None, False, []
    if column not in schema:
        return None, False, [f"weight: there is no column {column}; the sample is uniform"]
    if column in personal:
        return None, False, [f"weight: {column} is pii, and its values would be shown; the sample is uniform"]
    return column, weighted, []


def _identity(binding: Binding, key: Sequence[str], schema: Mapping[str, str]) -> list[str]:
    """Return the columns that identify a row: its key; without one, all that can be hashed."""
    if key and not binding.lacking:
        return list(key)
    return [name for name, kind in schema.items() if not re.search(r"\b(map|variant|interval)\b", kind)]
