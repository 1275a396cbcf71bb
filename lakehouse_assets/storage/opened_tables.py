"""Delta tables as `deltalake` opens them, which a process keeps while their logs stay the same.

Belongs here: opening a table. Does not: what is read of it (delta).

A run asks a hundred times for the newest version of a few tables, and to open one takes a hundredth of a second.
"""

import os
from collections.abc import Sequence

from deltalake import DeltaTable, Transaction

from lakehouse_assets.object_store import is_url
from lakehouse_assets.storage.leases.guards import require_unfenced, table_transactions
from lakehouse_assets.storage.newest_values import NewestValues
from lakehouse_assets.storage.table_options import table_options

# Above it, the log of a table is read each time.
MOST_LOG_BYTES = 8 << 20
_opened = NewestValues[tuple[int, DeltaTable]](32, lambda _: 1)


def open_table(path: str, number: int | None = None) -> DeltaTable:
    """Return deltalake's table: a version, or the newest. Raises its errors if the log cannot be read.

    While no file of the log changes, the newest version on a disk is the same object, also if it is asked for by its number.
    It is for reading only.
    """
    state = None if is_url(path) else _log_state(path)
    if state is None:
        return open_to_change(path, number)
    entry = _opened.get(path)
    if entry is not None and entry[0] != state:
        entry = None
    if number is not None and (entry is None or entry[1].version() != number):
        return open_to_change(path, number)
    if entry is None:
        # If the log grows meanwhile, the next caller sees another state, and opens it again.
        entry = (state, open_to_change(path))
        _opened.put(path, entry)
    return entry[1]


def is_open(path: str) -> bool:
    """Whether this process has opened the table, and no file of its log has changed since."""
    entry = None if is_url(path) else _opened.get(path)
    return entry is not None and entry[0] == _log_state(path)


def open_to_change(path: str, number: int | None = None, transactions: Sequence[Transaction] = ()) -> DeltaTable:
    """Return the same, to delete, repair or alter: an object of the caller's own. Raises LeaseLostError if this process writes
    the table under a lease that was taken over. ``transactions``: of a log, whose rows are under several leases.
    """
    table = DeltaTable(path, version=number, storage_options=table_options(path))
    require_unfenced(table, path, transactions or table_transactions(path))
    return table


def _log_state(path: str) -> int | None:
    """Return what changes with any file of the log; None for a log that is absent, or too large to be kept."""
    try:
        with os.scandir(f"{path}/_delta_log") as entries:
            files = [(entry.name, status.st_size, status.st_mtime_ns) for entry in entries for status in (entry.stat(),)]
    except OSError:
        return None
    return hash(frozenset(files)) if sum(size for _, size, _ in files) <= MOST_LOG_BYTES else None
