"""Restore lost entries of `ops/extractions` and `ops/positions`: from bronze's rows and commits, and from each other.

Belongs here: which entries can be restored, and appending them. Does not: decisions (restore_logs), or reading a source.
"""

from collections.abc import Sequence
from typing import Any

from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.decisions import ledger
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.storage import commit_metadata, delta, logs
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets.storage.source_positions import read_positions, record_positions

ALL = 1_000_000


def read_fingerprints(bronze: TableFiles) -> dict[Batch, str]:
    """Return the newest fingerprint of each extraction by bronze's commits."""
    fingerprints: dict[Batch, str] = {}
    for entry in bronze.history(ALL):
        fingerprints = {**commit_metadata.decode_fingerprints(entry.get("userMetadata")), **fingerprints}
    return fingerprints


def restore_extractions(run: Run, decisions: Sequence[Decision]) -> int:
    """Restore extractions that are decided or in bronze and not on record, without types, spellings and control totals."""
    bronze = TableFiles(run.path("bronze"))
    records = logs.extractions(run.settings, run.table)
    rows = {batch: count for batch, (count, _) in bronze.extractions().items()}
    newest = {start: r.extraction_seq for start, r in ledger.latest_extractions(records).items()}
    decided = {d.batch: d for d in decisions if d.p_extracted_at is not None}
    in_bronze = {b for b in rows if b in decided or b[1] <= newest.get(start_of(b), 0)}
    missing = sorted(({*decided} | in_bronze) - {r.batch for r in records})
    if not missing:
        return 0
    fingerprints, column_lists = read_fingerprints(bronze), _column_lists(run, missing)
    positions = _committed_positions(bronze)
    restored = []
    for batch in missing:
        lists = column_lists.get(batch, [])
        columns = tuple(dict.fromkeys(name for names in lists for name in names))
        restored.append(
            ExtractionRecord(
                table=run.table,
                p_extracted_at=start_of(batch),
                extraction_seq=batch[1],
                fingerprint=fingerprints.get(batch, ""),
                rows=decided[batch].counts.rows_in if batch in decided else rows.get(batch, 0),
                columns=columns,
                bronze_version=bronze.state.version or 0,
                run_id=run.run_id,
                extracted_at=run.clock(),
                lacking=tuple(sorted(name for name in columns if not all(name in names for names in lists if names))),
                position=positions.get(batch),
            )
        )
    logs.record_extractions(run.settings, restored)
    return len(restored)


def restore_positions(run: Run) -> int:
    """Restore positions of windows by their extractions. One of a window that was not read is assigned anew."""
    recorded = read_positions(run.settings, run.table)
    cadence, positions = run.spec.extraction.window_cadence, {}
    # A window's first position counts.
    for record in sorted(logs.extractions(run.settings, run.table), key=lambda r: r.extraction_seq, reverse=True):
        if record.position is not None and record.p_extracted_at not in recorded:
            positions[window_at(record.p_extracted_at, cadence)] = record.position
    if positions:
        record_positions(run.settings, run.table, positions, run.run_id, run.clock())
    return len(positions)


def _committed_positions(bronze: TableFiles) -> dict[Batch, str]:
    """Return the newest position of each extraction by bronze's commits."""
    positions: dict[Batch, str] = {}
    for entry in bronze.history(ALL):
        positions = {**commit_metadata.decode_positions(entry.get("userMetadata")), **positions}
    return positions


def _column_lists(run: Run, batches: Sequence[Batch]) -> dict[Batch, list[tuple[str, ...]]]:
    """Return of each batch the lists of columns that its files had, by its rows in bronze."""
    path = run.path("bronze")
    if not delta.exists(path) or TableFiles(path).state.absent:
        return {}
    wanted = [("p_extracted_at", "in", sorted({start_of(batch) for batch in batches}))]
    rows: list[dict[str, Any]] = delta.read_arrow(path, ["p_extracted_at", "extraction_seq", "_columns"], wanted).to_pylist()
    lists: dict[Batch, dict[tuple[str, ...], None]] = {}
    for row in rows:
        lists.setdefault((row["p_extracted_at"], row["extraction_seq"]), {})[tuple(row["_columns"] or ())] = None
    return {batch: list(names) for batch, names in lists.items()}
