"""The small files of a log, which a process reads once: a data file of a Delta table never changes.

Belongs here: which rows of which files. Does not: what a row means (logs), or adding rows (log_table).

A run appends five files of a row or two to the logs, and reads all of them forty times.
"""

from collections.abc import Collection, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from lakehouse_assets.storage import delta
from lakehouse_assets.storage.delta_dataset import read_file, read_rows
from lakehouse_assets.storage.newest_values import NewestValues

# Above it, the file is one that maintenance has made of many: it is read by a filter each time.
SMALL_BYTES = 1 << 20
MOST_BYTES = 64 << 20


_read = NewestValues[pa.Table](MOST_BYTES, lambda rows: rows.nbytes)


def read_log(
    path: str, columns: Sequence[str] | None, filters: Sequence[tuple[str, str, Any]], files: Collection[str] | None = None
) -> tuple[pa.Table, Hashable]:
    """Return the rows of a log that ``filters`` select, and an id of what they were read from: the same id, the same rows.
    None where the files are large, or there is no log. ``files``: only these, unless one of them has been compacted meanwhile.

    On a disk, a file counts as read only while it is the one that was read, so that a lost or damaged one is noticed.
    """
    if not delta.exists(path):
        return pa.table({}), None
    names, table = [name for name, _, _ in filters], delta.open_table(path)
    dataset, wanted = delta.dataset_of(table, path, names), delta.as_expression(filters)
    columns = list(columns or dataset.schema.names)
    fragments = list(dataset.get_fragments(filter=wanted))
    if files is not None and {part.path for part in fragments} >= set(files):
        fragments = [part for part in fragments if part.path in files]
    sizes = pa.table(table.get_add_actions(flatten=True)).select(["path", "size_bytes"]).to_pydict()
    size_of = dict(zip(map(unquote, sizes["path"]), sizes["size_bytes"], strict=True))
    if any(size_of.get(fragment.path, SMALL_BYTES + 1) > SMALL_BYTES for fragment in fragments):
        if files is None:
            return read_rows(dataset, columns, wanted), None
        parts = [read_file(part, dataset.schema, columns, wanted) for part in fragments]
        return pa.concat_tables(parts), None
    needed = list(dict.fromkeys([*columns, *names]))
    keys = [(path, *identity, *needed) for identity in identities_of(dataset.filesystem, [part.path for part in fragments])]

    def read(key: Hashable, fragment: Any) -> pa.Table:
        rows = _read.get(key)
        if rows is None:
            rows = fragment.to_table(schema=dataset.schema, columns=needed)
            _read.put(key, rows)
        return rows

    with ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(read, keys, fragments))
    rows = pa.concat_tables(parts) if parts else dataset.schema.empty_table().select(needed)
    return (rows if wanted is None else rows.filter(wanted)).select(columns), (*keys, str(wanted), *columns)


def identities_of(filesystem: fs.FileSystem, paths: Sequence[str]) -> list[tuple[Hashable, ...]]:
    """Return for each file what changes if it is lost or damaged. On an object store, only its path."""
    base = filesystem.base_fs if isinstance(filesystem, fs.SubTreeFileSystem) else filesystem
    if not isinstance(base, fs.LocalFileSystem):
        return [(path,) for path in paths]  # to ask an object store takes as long as to read
    return [(info.path, info.size, info.mtime_ns) for info in filesystem.get_file_info(list(paths))]
