"""`ops/audits`: a row per table and audit, kept for ever; and the Delta tables below a layer of the lake. No JVM.

Belongs here: rows ↔ records, and finding tables on disk. Does not: auditing (audit).
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pyarrow import ArrowException, fs

from lakehouse_assets.contracts.audit import AuditRecord
from lakehouse_assets.errors import EvidenceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets.storage.file_systems import is_folder, open_filesystem
from lakehouse_assets.storage.log_table import LogTable, log_schema

DEEPEST = 5
_JSON = ("raw_data_distribution", "sample_data_distribution", "results", "bindings", "unfit", "lost", "schema")
AUDITS = LogTable(
    "audits",
    log_schema(
        "audit_id text!, run_id text!, path text!, stage text!, table text!, verdict text!, version long, as_of flag!,"
        " total_raw_records long, total_sampled_records long, target_rows long!, weight_column text, distribution_column text,"
        f" {', '.join(f'{name} text!' for name in _JSON)}, audit_columns texts!, notes texts!, uncovered texts!, seed long!,"
        " confidence double!, ruleset_hash text!, started_at moment!, duration double!, error_message text"
    ),
    partition_by=(),
    properties={"delta.appendOnly": "true"},
    under_lease=False,
)


def append_audit(settings: Settings, record: AuditRecord) -> None:
    """Append one audit; Delta refuses to change or remove a row of this table."""
    row = asdict(record)
    row |= {name: json.dumps(row[name]) for name in _JSON}
    row |= {name: list(row[name]) for name in ("audit_columns", "notes", "uncovered")}
    AUDITS.append(settings, [row])


def read_audits(settings: Settings) -> list[AuditRecord]:
    """Return every audit, oldest first. Raises EvidenceError if data files of the log are missing or damaged."""
    try:
        rows = AUDITS.read(settings)
    except (OSError, ArrowException):
        path = AUDITS.path(settings)
        if not (absent := TableFiles(path).absent):
            raise
        raise EvidenceError(
            f"ops/audits lacks {len(absent)} data file(s): put it back from a backup, or move {path} away: its history then"
            " starts anew"
        ) from None
    return sorted((_record(row) for row in rows), key=lambda r: (r.started_at, r.table))


def latest_audits(audits: Sequence[AuditRecord]) -> dict[str, AuditRecord]:
    """Return each table's last audit of its newest version at the time; audits of old versions are history only."""
    return {record.table: record for record in audits if not record.as_of}


def _record(row: dict[str, Any]) -> AuditRecord:
    fields = {name: json.loads(row[name]) if name in _JSON else row[name] for name in AuditRecord.__dataclass_fields__}
    for name in ("audit_columns", "notes", "uncovered", "results"):
        fields[name] = tuple(fields[name])
    for name in ("bindings", "unfit", "lost"):
        fields[name] = tuple(tuple(pair) for pair in fields[name])
    return AuditRecord(**fields)


def find_tables(settings: Settings, stage: str) -> list[str]:
    """Return the Delta tables on disk below a layer, as `silver/weather`: every folder with a `_delta_log`."""
    filesystem, folder = open_filesystem(settings.path(stage))
    if not is_folder(filesystem, folder):
        return []
    return sorted(_tables(filesystem, folder, stage, 1))


def _tables(filesystem: fs.FileSystem, folder: str, name: str, depth: int) -> list[str]:
    folders = [e for e in filesystem.get_file_info(fs.FileSelector(folder)) if e.type is fs.FileType.Directory]
    if any(entry.base_name == "_delta_log" for entry in folders):
        return [name]
    if depth == DEEPEST:
        return []
    below = [entry for entry in folders if not entry.base_name.startswith((".", "_"))]
    return [table for e in below for table in _tables(filesystem, e.path, f"{name}/{e.base_name}", depth + 1)]
