"""What the rows of a log add up to, which a process keeps: afterwards it reads only the files that were added since.

Belongs here: which files are read, and dropping what is not asked for. Does not: what rows add up to (log_folds).

A stream appends a window's rows every few seconds. To read and to decode those of all windows before it takes longer than that.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import dirname
from threading import Lock, RLock
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from lakehouse_assets.storage import delta
from lakehouse_assets.storage.arrow_rows import rows_of
from lakehouse_assets.storage.collector import paused_collector
from lakehouse_assets.storage.log_files import identities_of

# Of all tables together: about 250 MB. Those of the table that was asked for last stay, whatever their size.
MOST_ROWS = 300_000
Rows = Sequence[Mapping[str, Any]]


class Fold(Protocol):
    """What rows add up to. ``add``: whether it could; if not, everything is read anew."""

    def add(self, rows: Rows, files: Sequence[str], /) -> bool:
        """Add the rows of files that came later. ``files``: of each row its file."""
        ...

    def __len__(self) -> int:
        """What it takes in memory, in decisions."""
        ...


AnyFold = TypeVar("AnyFold", bound=Fold)
View = TypeVar("View")


@dataclass
class _Cached(Generic[AnyFold]):
    fold: AnyFold | None = None
    files: dict[str, Hashable] = field(default_factory=dict)
    lock: RLock = field(default_factory=RLock)


# By path, table, and what is made of the rows.
_cached: OrderedDict[tuple[str, str, Hashable], _Cached[Any]] = OrderedDict()
_lock = Lock()


def read_folded(
    path: str,
    table: str,
    columns: Sequence[str],
    make: Callable[[Rows, Sequence[str]], AnyFold],
    view: Callable[[AnyFold], View],
) -> View:
    """Return ``view`` of what a table's rows of a log add up to. ``make``: of all rows; the view must not share what changes.

    Files are compared as `read_log` does: one that is lost, changed or compacted makes everything be read anew.
    """
    if not delta.exists(path):
        return view(make([], []))
    key = (path, table, make)
    with _lock:
        cached: _Cached[AnyFold] = _cached.setdefault(key, _Cached())
        _cached.move_to_end(key)
    with cached.lock:
        _update(cached, path, table, columns, make)
        assert cached.fold is not None  # noqa: S101 (`_update` has made it)
        result = view(cached.fold)
    _drop_oldest(path, table)
    return result


def _update(
    cached: _Cached[AnyFold],
    path: str,
    table: str,
    columns: Sequence[str],
    make: Callable[[Rows, Sequence[str]], AnyFold],
) -> None:
    log = TableLog(path, table)
    if cached.fold is not None and cached.files == log.files:
        return
    if cached.fold is not None and cached.files.items() <= log.files.items():
        rows, files = log.read([name for name in log.files if name not in cached.files], columns)
        if cached.fold.add(rows, files):
            cached.files = log.files
            return
    cached.fold, cached.files = None, {}  # if the read fails, nothing stays
    with paused_collector():
        rows, files = log.read([*log.files], columns)
        cached.fold, cached.files = make(rows, files), log.files


def _drop_oldest(path: str, table: str) -> None:
    """Drop what was not asked for lately, of other tables and lakes: a run reads all logs of its own again and again."""
    with _lock:
        lake = dirname(dirname(path))
        others = [(log, name, make) for log, name, make in _cached if (dirname(dirname(log)), name) != (lake, table)]
        while others and sum(len(each.fold) for each in _cached.values() if each.fold is not None) > MOST_ROWS:
            del _cached[others.pop(0)]


class TableLog:
    """The newest version of a log: one table's files with their identities, in its order."""

    def __init__(self, path: str, table: str) -> None:
        self.path, self.table, self.opened = path, table, delta.open_table(path)
        wanted = ["path", "partition.table"]
        actions = delta.files_of(self.opened)
        rows = actions.select([name for name in wanted if name in actions.column_names]).to_pylist()
        names = [unquote(row["path"]) for row in rows if row.get("partition.table", table) == table]
        filesystem = delta.filesystem_of(path)
        self.files: dict[str, Hashable] = dict(zip(names, identities_of(filesystem, names), strict=True))

    def read(self, names: Sequence[str], columns: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the rows of these files, in their order, and of each row its file. Columns that no file has are left out."""
        dataset, wanted = delta.dataset_of(self.opened, self.path), {name: index for index, name in enumerate(names)}
        fragments = sorted((f for f in dataset.get_fragments() if f.path in wanted), key=lambda f: wanted[f.path])
        present = [name for name in columns if name in dataset.schema.names]
        parts = [fragment.to_table(schema=dataset.schema, columns=present) for fragment in fragments]
        files = [fragment.path for fragment, part in zip(fragments, parts, strict=True) for _ in range(part.num_rows)]
        return (rows_of(pa.concat_tables(parts)) if parts else []), files
