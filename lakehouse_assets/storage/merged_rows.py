"""Rows of a table that newer rows of their keys replace or delete, found by Arrow alone.

Belongs here: comparing keys and orders, and the rows and changes that follow. Does not: which tables are merged so, files, or
the commit (small_merges).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

CHANGE = pa.field("_change_type", pa.string())
ROW, MERGED = "_row", "_merged_row"
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class MergedRows:
    """Numbers of rows. ``updated``: by file, its rows that are replaced. ``newer``: by file, the rows to merge in their place.
    ``deleted``: by file, its rows that are deleted. ``added``: the rows to merge whose key is new.
    """

    updated: dict[int, Numbers]
    newer: dict[int, Numbers]
    deleted: dict[int, Numbers]
    added: Numbers

    @property
    def files(self) -> list[int]:
        """The files of which a row is replaced or deleted."""
        return sorted({*self.updated, *self.deleted})


def compare_rows(
    own: pa.Table, is_deletion: NDArray[np.bool_], files: Sequence[pa.Table], key: Sequence[str], order: Sequence[str]
) -> MergedRows:
    """Return which rows replace, delete or add which.

    ``own``: the rows to merge, one per key. ``is_deletion``: of each, whether it deletes its key. ``files``: of the table, at
    least with these columns. ``key``: without NULL. ``order``: columns that say which of two rows is newer, the first first;
    NULL is older than any value.
    """
    wanted = own.select(key).append_column(MERGED, pa.array(np.arange(own.num_rows)))
    is_new = ~is_deletion
    updated, newer, deleted = dict[int, Numbers](), dict[int, Numbers](), dict[int, Numbers]()
    for number, rows in enumerate(files):
        numbered = rows.select(key).append_column(ROW, pa.array(np.arange(rows.num_rows)))
        pairs = numbered.join(wanted, list(key), join_type="inner").sort_by(ROW)
        of_table, of_own = (pairs[name].to_numpy() for name in (ROW, MERGED))
        is_new[of_own] = False
        is_newer = _are_newer(take_rows(own, of_own), take_rows(rows, of_table), order)
        deletes = is_deletion[of_own]
        for into, numbers, chosen in (
            (updated, of_table, is_newer & ~deletes),
            (newer, of_own, is_newer & ~deletes),
            (deleted, of_table, is_newer & deletes),
        ):
            if chosen.any():
                into[number] = numbers[chosen]
    return MergedRows(updated, newer, deleted, np.flatnonzero(is_new))


def _are_newer(rows: pa.Table, than: pa.Table, order: Sequence[str]) -> NDArray[np.bool_]:
    """Return for each pair of rows whether the first one is newer."""
    newer = np.zeros(rows.num_rows, bool)
    for column in reversed(order):
        one, other = rows[column], than[column]
        has_one, has_other = (as_booleans(values.is_valid()) for values in (one, other))
        is_greater, is_equal = (as_booleans(compute.call_function(name, [one, other])) for name in ("greater", "equal"))
        is_equal |= ~has_one & ~has_other
        newer = (has_one & ~has_other) | is_greater | (is_equal & newer)
    return newer


def as_booleans(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Return a column of booleans, with False for NULL."""
    return np.array(column.fill_null(False).to_numpy(), dtype=bool)


def rows_to_write(own: pa.Table, files: Mapping[int, pa.Table], merged: MergedRows) -> tuple[pa.Table, pa.Table]:
    """Return the rows that the table gets in place of these files, and the changes as a reader of the feed has them.

    ``own``: the rows to merge, with the table's columns. ``files``: those of `MergedRows.files`, with all columns.
    """
    rest, changes = [], []
    for number, rows in files.items():
        updated, deleted = (by_file.get(number, np.zeros(0, np.int64)) for by_file in (merged.updated, merged.deleted))
        is_kept = np.ones(rows.num_rows, bool)
        is_kept[updated] = is_kept[deleted] = False
        rest.append(rows.filter(pa.array(is_kept)))
        changes += [_as_change(take_rows(rows, updated), "update_preimage"), _as_change(take_rows(rows, deleted), "delete")]
    newer = [take_rows(own, numbers) for numbers in merged.newer.values()]
    added = take_rows(own, merged.added)
    changes += [*(_as_change(rows, "update_postimage") for rows in newer), _as_change(added, "insert")]
    return pa.concat_tables([*rest, *newer, added]), pa.concat_tables(changes)


def take_rows(rows: pa.Table, numbers: Numbers) -> pa.Table:
    """Return the rows of a table with these numbers, in this order."""
    return rows.take(pa.array(numbers))


def _as_change(rows: pa.Table, kind: str) -> pa.Table:
    kinds: Any = pa.repeat(pa.scalar(kind, CHANGE.type), rows.num_rows)
    return rows.append_column(CHANGE, kinds)
