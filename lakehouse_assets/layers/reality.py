"""Contract against reality: what is promised of a table, what it has, what arrived last, and how its schema came to be.

Belongs here: reading them side by side, without a JVM. Does not: changing a table (migrate), or comparing (decisions).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.contracts.source import safe_name, source_name
from lakehouse_assets.contracts.spark_types import parse_type, sql_type
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import evolution, ledger
from lakehouse_assets.decisions.schema import Difference
from lakehouse_assets.decisions.schema_gate import schema_outcomes
from lakehouse_assets.layers.fold import silver_columns
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs

OWN_TYPES = {"p_extracted_at": "timestamp", "extraction_seq": "int", "_content_hash": "string", "_ordinal": "int"}
Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Reality:
    """``promised``: silver's columns by the contract as it stands; ``table``: those it has, None where there is none yet.
    ``arrived``: how the last extraction differs from the contract, with what the gate makes of it. ``filled``: promised
    columns of which accepted batches have values.
    """

    spec: TableSpec
    promised: Columns
    table: Columns | None
    last: ExtractionRecord | None
    arrived: tuple[Difference, ...]
    filled: frozenset[str]
    same_values: bool

    @property
    def matches(self) -> bool:
        """Whether the table has the promised columns, or is not there yet."""
        return self.table is None or (self.table == self.promised and self.same_values)


def reality_of(settings: Settings, spec: TableSpec, readers: Mapping[str, Sequence[str]] | None = None) -> Reality:
    """What is promised, what there is, and what arrived last. ``readers``: what reads a column downstream."""
    known = logs.decisions(settings, spec.name, evidence=False)
    stands = evolution.effective(spec, known)
    records = logs.extractions(settings, spec.name)
    last = max(records, key=lambda r: (r.extracted_at, r.p_extracted_at), default=None)
    arrived = _as_judged(stands, last, records, readers) if last else ()
    live = ledger.accepted(known)
    came = {name for r in records if (r.p_extracted_at, r.extraction_seq) in live for name in r.columns}
    filled = frozenset(name for name in stands.columns if safe_name(stands.source_column(name)) in came)
    path = settings.path("silver", spec.name)
    there = delta.exists(path)
    table = tuple(delta.schema_types(path)) if there else None
    same = not there or delta.properties(path).get(delta.MEANING, spec.meaning) == spec.meaning
    return Reality(stands, promised_of(stands), table, last, arrived, filled, same)


def _as_judged(
    stands: TableSpec, last: ExtractionRecord, records: Sequence[ExtractionRecord], readers: Mapping[str, Sequence[str]] | None
) -> tuple[Difference, ...]:
    planned = evolution.plan(stands, last, readers)
    ever = {column for record in records for column in record.columns}
    told = [d for outcome in schema_outcomes(stands, last, planned, ever) for d in outcome.observed.get("differences", ())]
    found = [Difference(**{**each, "used_by": tuple(each["used_by"])}) for each in told]
    # What the gate has nothing to say of.
    accepted = [d for d in planned.comparison.differences if d.outcome == "accepted" and d.kind != "missing"]
    return (*found, *accepted)


def effective_spec(settings: Settings, spec: TableSpec) -> TableSpec:
    """The contract as it stands, from the log."""
    return evolution.effective(spec, logs.decisions(settings, spec.name, evidence=False))


def promised_of(spec: TableSpec) -> Columns:
    """Silver's columns with their types, in their order."""
    types = {name: sql_type(parse_type(column.type)) for name, column in spec.columns.items()} | OWN_TYPES
    return tuple((name, types[name]) for name in silver_columns(spec))


def shown(reality: Reality) -> list[dict[str, str]]:
    """One line a column: promised, the table's, what arrived last (`text` where the source says no type)."""
    spec, last = reality.spec, reality.last
    added = spec.evolved_columns
    has = dict(reality.table or ())
    names = [name for name, _ in reality.promised if name in spec.columns]
    names += [name for name in has if name not in names and name not in OWN_TYPES]
    sources = {name: safe_name(spec.source_column(name)) for name in names if name in spec.columns}
    rows = [
        {
            "column": name,
            "promised": spec.columns[name].type if name in spec.columns else "",
            "by": "" if name not in spec.columns else "a batch" if name in added else "defs.yaml",
            "table": has.get(name, ""),
            "arrived": _arrived(last, sources.get(name)),
        }
        for name in names
    ]
    rest = [name for name in (last.columns if last else ()) if name not in sources.values()]
    empty = {"promised": "", "by": "", "table": ""}
    return rows + [{"column": source_name(name), **empty, "arrived": _arrived(last, name)} for name in rest]


def _arrived(last: ExtractionRecord | None, source: str | None) -> str:
    if last is None or source is None or source not in last.columns:
        return ""
    return last.types.get(source, "text")


def table_differences(reality: Reality, readers: Mapping[str, Sequence[str]] | None = None) -> list[Difference]:
    """What the table has otherwise than it is promised. ``readers``: what reads a column downstream."""
    if reality.table is None:
        return []
    has, wants = dict(reality.table), dict(reality.promised)
    found = []
    for name in [*wants, *(name for name in has if name not in wants)]:
        if has.get(name) != wants.get(name):
            kind = "missing" if name not in has else "new" if name not in wants else "type"
            told = (wants.get(name, ""), has.get(name, ""))
            used = tuple((readers or {}).get(name, ()))
            found.append(Difference(name, *told, "accepted", "the next batch brings it about; or migrate", kind, name, used))
    return found


@dataclass(frozen=True)
class SchemaVersion:
    """A version of a table at which its columns changed."""

    version: int
    at: datetime
    operation: str
    changes: str


def history_of(path: str, most: int = 100) -> list[SchemaVersion]:
    """The newest of those versions whose commits are still in Delta's log, oldest first."""
    found: list[SchemaVersion] = []
    before: dict[str, str] | None = None
    for version, at, operation, columns in delta.schema_changes(path):
        now = dict(columns)
        if now != before:
            found.append(SchemaVersion(version, at, operation, _changes(before, now)))
        before = now
    return found[-most:]


def _changes(before: Mapping[str, str] | None, now: Mapping[str, str]) -> str:
    if before is None:
        return f"{len(now)} columns"
    told = [f"+ {name} {kind}" for name, kind in now.items() if name not in before]
    told += [f"- {name}" for name in before if name not in now]
    told += [f"{name}: {before[name]} → {kind}" for name, kind in now.items() if name in before and before[name] != kind]
    return "; ".join(told) or "another order"
