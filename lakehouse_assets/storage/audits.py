"""`ops/audits`: a row per table and audit, for ever; and the Delta tables that lie below a layer of the lake. No JVM.

Belongs here: rows ↔ records, discovery by what is on disk. Does not: auditing (layers/audit).
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyarrow import fs

from lakehouse_assets.contracts.audit_record import AuditRecord
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.logs import MOMENT

DEEPEST = 5
_JSON = ("raw_data_distribution", "sample_data_distribution", "results", "bindings", "unfit", "lost", "schema")
AUDITS = pa.schema(
    [
        *[pa.field(name, pa.string(), nullable=False) for name in ("audit_id", "run_id", "path", "stage", "table", "verdict")],
        pa.field("version", pa.int64()),
        pa.field("as_of", pa.bool_(), nullable=False),
        pa.field("total_raw_records", pa.int64()),
        pa.field("total_sampled_records", pa.int64()),
        pa.field("target_rows", pa.int64(), nullable=False),
        pa.field("weight_column", pa.string()),
        pa.field("distribution_column", pa.string()),
        *[pa.field(name, pa.string(), nullable=False) for name in _JSON],
        *[pa.field(name, pa.list_(pa.string()), nullable=False) for name in ("audit_columns", "notes", "uncovered")],
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("confidence", pa.float64(), nullable=False),
        pa.field("ruleset_hash", pa.string(), nullable=False),
        pa.field("started_at", MOMENT, nullable=False),
        pa.field("duration", pa.float64(), nullable=False),
        pa.field("error_message", pa.string()),
    ]
)


def append(settings: Settings, record: AuditRecord) -> None:
    """Keep one audit; Delta refuses to change or remove a row of this table."""
    row = asdict(record)
    row |= {name: json.dumps(row[name]) for name in _JSON}
    row |= {name: list(row[name]) for name in ("audit_columns", "notes", "uncovered")}
    with table_lock(settings, "ops_audits"):
        delta.append_arrow(
            pa.Table.from_pylist([row], AUDITS), settings.path("ops", "audits"), configuration={"delta.appendOnly": "true"}
        )


def records(settings: Settings, table: str | None = None) -> list[AuditRecord]:
    """Every audit, oldest first."""
    found = delta.read_arrow(settings.path("ops", "audits"), filters=[("table", "=", table)] if table else None).to_pylist()
    return sorted((_record(row) for row in found), key=lambda r: (r.started_at, r.table))


def latest(known: Sequence[AuditRecord]) -> dict[str, AuditRecord]:
    """Of each table, the last audit that looked at what the table was then; audits of old versions are history only."""
    return {record.table: record for record in known if not record.as_of}


def _record(row: dict[str, Any]) -> AuditRecord:
    given = {name: json.loads(row[name]) if name in _JSON else row[name] for name in AuditRecord.__dataclass_fields__}
    for name in ("audit_columns", "notes", "uncovered", "results"):
        given[name] = tuple(given[name] or ())
    for name in ("bindings", "unfit", "lost"):
        given[name] = tuple(tuple(pair) for pair in given[name])
    return AuditRecord(**given)


def tables_below(settings: Settings, stage: str) -> list[str]:
    """The Delta tables on disk below a layer, as `silver/weather`: whatever holds a `_delta_log`, torn or whole."""
    filesystem, place = delta.place(settings.path(stage))
    if filesystem.get_file_info(place).type is not fs.FileType.Directory:
        return []
    return sorted(_tables(filesystem, place, stage, 1))


def _tables(filesystem: fs.FileSystem, place: str, name: str, depth: int) -> list[str]:
    inner = [e for e in filesystem.get_file_info(fs.FileSelector(place)) if e.type is fs.FileType.Directory]
    if any(entry.base_name == "_delta_log" for entry in inner):
        return [name]
    if depth == DEEPEST:
        return []
    found: list[str] = []
    for entry in inner:
        if not entry.base_name.startswith((".", "_")):
            found += _tables(filesystem, entry.path, f"{name}/{entry.base_name}", depth + 1)
    return found
