"""The small files of a log, merged into few, and old versions of it removed. No JVM.

Belongs here: when and how. Does not: which logs there are (operations/maintain).

A stream adds a few files to each log every few seconds. The rows stay as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import Transaction, WriterProperties

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.log_table import HOURS_KEPT, RETENTION, LogTable
from lakehouse_assets.storage.opened_tables import open_to_change

# Fewer small files are left as they are.
FEW_FILES = 50
# A file of this size is not merged again, so that a compaction costs the same after a year.
LARGE_BYTES = 32 << 20
# Of a merged file: what a filter by window or number does not select is not decoded.
ROWS_TOGETHER = 5_000
# Under leases another machine may have written a file, and sleep before its commit. Where a log is on a store, its folder
# takes long to list: maintenance does it, and not a stream between two windows.
HOURS_KEPT_UNDER_LEASES = 7 * 24
# Under leases, old commits have the number of the last lease.
UNLEASED = {"delta.logRetentionDuration": "interval 1 days"}


@dataclass(frozen=True)
class Compacted:
    """One log: a table's live files before and after."""

    log: str
    files_before: int
    files_after: int


def compact_log(settings: Settings, log: LogTable, table: str, *, is_maintenance: bool = True) -> Compacted | None:
    """Merge a table's small files of a log; None if they are few. The caller holds the table's lock or lease. Old files are
    deleted, under leases by maintenance only.

    Raises LeaseLostError after a takeover.
    """
    path = log.path(settings)
    if not delta.exists(path) or _count_small(path, table) <= FEW_FILES:
        return None
    if settings.is_leased:
        # Other machines append to the log meanwhile, and a change of its properties would refuse their commits.
        transactions = guards.log_transactions(settings, [table], required=True)
        hours_kept = HOURS_KEPT_UNDER_LEASES if is_maintenance else None
        return _compact(path, log.name, table, {}, hours_kept, transactions)
    with log.lock(settings):
        return _compact(path, log.name, table, RETENTION | UNLEASED)


def compact_table(settings: Settings, path: str) -> Compacted | None:
    """Merge the small files of a table that is written without a JVM, as `baseline/<table>` is; None if they are few."""
    if not delta.exists(path) or _count_small(path, None) <= FEW_FILES:
        return None
    layer = path.rsplit("/", 2)[-2]
    if settings.is_leased:
        return _compact(path, layer, None, RETENTION, HOURS_KEPT_UNDER_LEASES)
    return _compact(path, layer, None, RETENTION | UNLEASED)


def _compact(
    path: str,
    name: str,
    table: str | None,
    wanted: Mapping[str, str],
    hours_kept: int | None = HOURS_KEPT,
    transactions: Sequence[Transaction] = (),
) -> Compacted:
    opened, before = open_to_change(path, transactions=transactions), _count_files(path, table)
    stated = guards.commit_properties(path, transactions=transactions)
    missing = {key: value for key, value in wanted.items() if opened.metadata().configuration.get(key) != value}
    if missing:
        opened.alter.set_table_properties(missing, commit_properties=stated)
    opened.optimize.compact(
        partition_filters=[("table", "=", table)] if table else None,
        target_size=LARGE_BYTES,
        writer_properties=WriterProperties(compression="ZSTD", max_row_group_size=ROWS_TOGETHER),
        commit_properties=stated,
    )
    if hours_kept is not None:
        # In full: a checkpoint forgets which files were removed more than an hour ago, and so would the vacuum.
        opened.vacuum(hours_kept, dry_run=False, enforce_retention_duration=False, commit_properties=stated, full=True)
    opened.create_checkpoint()
    opened.cleanup_metadata()
    return Compacted(name, before, _count_files(path, table))


def _files(path: str, table: str | None) -> pa.Table:
    files = delta.row_counts(path)
    if table is None:
        return files
    return files.filter(pa.array([name == table for name in files["partition.table"].to_pylist()], pa.bool_()))


def _count_files(path: str, table: str | None) -> int:
    return _files(path, table).num_rows


def _count_small(path: str, table: str | None) -> int:
    return sum(size < LARGE_BYTES for size in _files(path, table)["size_bytes"].to_pylist())
