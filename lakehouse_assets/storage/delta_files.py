"""One Delta table's files on disk: its state, its live data files, and its log's history. No JVM.

Belongs here: reading them. Does not: what the counts mean for a table's evidence (evidence).
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from pyarrow import fs

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.decisions.evidence.findings import TableState
from lakehouse_assets.object_store import is_url
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.delta_dataset import is_elsewhere, without_views
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.file_totals import File, Total, add_up
from lakehouse_assets.storage.leases.guards import commit_properties
from lakehouse_assets.storage.newest_values import NewestValues
from lakehouse_assets.storage.opened_tables import open_to_change
from lakehouse_assets.storage.window_files import PARTITION, may_have, window_bounds

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

FILE = "__filename"
# A log's file never changes, and a run reads it several times: rows of at most so many files are cached.
CACHED_FILES = 20_000
# Of files of bronze with several windows: so many extractions in all.
_EXTRACTIONS = NewestValues[dict[Batch, int]](500_000, len)
# The same of rows by the values of some columns.
_VALUES = NewestValues[dict[tuple[Any, ...], int]](500_000, len)
# The same of values in several files.
_SETS = NewestValues[set[Any]](500_000, len)
_CACHE: dict[tuple[tuple[str, ...], str], list[dict[str, Any]]] = {}
# deltalake's messages about a log whose content is damaged.
CORRUPT = re.compile(
    r"Json error|Parquet error|Arrow error|Invalid Checkpoint|Expected contiguous commit files|No table metadata or protocol"
    r"|Invalid JSON|Invalid table version|missing (metadata|protocol)|Corrupt|Not a Delta table|No files in log segment",
    re.IGNORECASE,
)
# Its messages about files or a store that could not be read this time: a retry may work.
TRANSIENT = re.compile(r"Generic \w+ error|Object at location|os error \d+", re.IGNORECASE)


def is_corrupt_log(error: Exception) -> bool:
    """Whether an error of deltalake means damaged content; any other (a throttled store, credentials) may pass."""
    text = str(error)
    return not TRANSIENT.search(text) and (isinstance(error, ValueError) or bool(CORRUPT.search(text)))


class TableFiles:
    """One Delta table: its state, and its live data files by its log. ``of_table``: only its partition of a log. ``version``:
    the table as it was then; without it the newest.

    Files are compared by name and size: one by one on a disk, by listing the folder on an object store. ``absent``: rows of
    files that are missing or of another size. Raises whatever keeps the log from being read this time.
    """

    def __init__(self, path: str, of_table: str | None = None, version: int | None = None) -> None:
        self.path = path
        self.table: DeltaTable | None = None
        self.files: list[dict[str, Any]] = []
        self.absent: list[dict[str, Any]] = []
        self.state = TableState()
        try:
            if not delta.exists(path):
                return
            self.table = delta.open_table(path, version)
            actions = pa.table(self.table.get_add_actions(flatten=True))
            wanted = ("path", "size_bytes", "num_records", "modification_time", "partition.table", "partition.p_extracted_at")
            wanted += ("min.extraction_seq", "max.extraction_seq", "min.decision_id", "max.decision_id")
            wanted += ("min.p_extracted_at", "max.p_extracted_at", "min.number", "max.number")
            rows = actions.select([name for name in wanted if name in actions.column_names]).to_pylist()
        except (DeltaError, ValueError) as error:
            if not is_corrupt_log(error):
                raise
            self.state = TableState(None, None, (), f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")
            return
        self.files = [row for row in rows if of_table is None or row.get("partition.table") == of_table]
        counts = [row["num_records"] for row in self.files]
        total = None if any(count is None for count in counts) else sum(counts)
        absent = self._find_absent()
        self.absent = [row for row in self.files if row["path"] in absent]
        self.files = [row for row in self.files if row["path"] not in absent]
        # Names as on the disk: the log escapes them once more.
        self.state = TableState(self.table.version(), total, tuple(sorted(map(unquote, absent))))

    @cached_property
    def folder(self) -> tuple[fs.FileSystem, str]:
        """The table's folder: pyarrow's file system, and the path within it."""
        return open_filesystem(self.path)

    def _dataset(self, names: Sequence[str], schema: pa.Schema | None = None) -> "Dataset":
        from pyarrow.dataset import dataset  # noqa: PLC0415 (it loads pandas)

        filesystem, base = self.folder
        return dataset([f"{base}/{name}" for name in names], schema=schema, filesystem=filesystem, format="parquet")

    def _find_absent(self) -> set[str]:
        filesystem, base = self.folder
        sizes_logged = {row["path"]: row["size_bytes"] for row in self.files if not is_elsewhere(row["path"])}
        selected: Any = [f"{base}/{unquote(name)}" for name in sizes_logged]
        if is_url(self.path) and sizes_logged:
            selected = fs.FileSelector(base, recursive=True, allow_not_found=True)
        sizes = {info.path: info.size for info in filesystem.get_file_info(selected) if info.type is fs.FileType.File}
        return {name for name, size in sizes_logged.items() if sizes.get(f"{base}/{unquote(name)}") != size}

    def extractions(self, starts: Collection[datetime] | None = None) -> Mapping[Batch, tuple[int, datetime]]:
        """Return each extraction's rows in bronze, and when its newest file was written.

        A file is read only if its statistics name several extractions, as after another program's OPTIMIZE.
        """
        if starts is None:
            total = add_up(self.path, "extractions", self.files, self._count_extractions)
        else:
            wanted, total = {delta.utc(start) for start in starts}, Total()
            self._count_extractions([row for row in self.files if may_have(row, wanted)], total)
        return {batch: (rows, total.more[batch]) for batch, rows in total.counts.items()}

    def rows_by_extraction(self) -> Mapping[Batch, int]:
        """Return each extraction's rows in bronze. Where no file has changed, this is the same mapping as before."""
        return add_up(self.path, "extractions", self.files, self._count_extractions).counts

    def _count_extractions(self, files: Sequence[File], total: Total) -> None:
        for row in files:
            if row["num_records"] == 0:
                continue
            written = datetime.fromtimestamp(row["modification_time"] / 1000, UTC)
            for batch, rows in self._extractions_of(row).items():
                total.counts[batch] = total.counts.get(batch, 0) + rows
                total.more[batch] = max(total.more.get(batch, written), written)

    def _extractions_of(self, row: Mapping[str, Any]) -> dict[Batch, int]:
        """Return rows by extraction of one file of bronze."""
        if row.get(PARTITION, row) is None:
            return {}  # another program's rows without a window
        bounds, seq, count = window_bounds(row), row.get("min.extraction_seq"), row["num_records"]
        is_alone = bounds is not None and bounds[0] == bounds[1]
        if bounds and is_alone and seq is not None and seq == row.get("max.extraction_seq") and count is not None:
            return {(bounds[0], seq): count}
        key = (self.path, row["path"], row["size_bytes"])
        by_batch = _EXTRACTIONS.get(key)
        if by_batch is None:
            kinds = {"p_extracted_at": pa.timestamp("us", "UTC"), "extraction_seq": pa.int32()}
            columns = ["extraction_seq"] if row.get(PARTITION) is not None else [*kinds]
            schema = pa.schema([(name, kinds[name]) for name in columns])
            read = self._dataset([unquote(row["path"])]).to_table(columns=columns).cast(schema)
            counts = read.group_by(columns).aggregate([([], "count_all")]).to_pylist()
            start = bounds[0] if bounds else None
            named = [(each.get("p_extracted_at", start), each["extraction_seq"], each["count_all"]) for each in counts]
            by_batch = dict[Batch, int]()
            by_batch |= {(delta.utc(at), number): rows for at, number, rows in named if at is not None}
            _EXTRACTIONS.put(key, by_batch)
        return by_batch

    def column_counts(self, columns: Sequence[str]) -> Mapping[tuple[Any, ...], int]:
        """Return rows by the values of these columns: from statistics, or by reading files with several values."""
        return add_up(self.path, " ".join(columns), self.files, partial(self._count_columns, columns)).counts

    def rows_by_decision(self) -> Mapping[str, int]:
        """Return how many rows each decision has; the same mapping where no file has changed."""
        return add_up(self.path, "decisions", self.files, partial(self._count_columns, ["decision_id"])).more

    def windows_by_source(self) -> Mapping[str, int]:
        """Return how many windows of a baseline each decision, or seed, has; the same mapping where no file has changed."""
        return add_up(self.path, "windows", self.files, self._count_windows).more

    def _count_windows(self, files: Sequence[File], total: Total) -> None:
        self._count_columns(("decision_id", "p_extracted_at"), files, total)

    def _count_columns(self, columns: Sequence[str], files: Sequence[File], total: Total) -> None:
        """Add rows by these columns. By the first one also: of one column the rows, of two the values of the second."""
        for row in files:
            values = tuple(row.get(f"min.{name}") for name in columns)
            is_single = None not in values and values == tuple(row.get(f"max.{name}") for name in columns)
            is_known = is_single and row["num_records"] is not None
            counts = {values: row["num_records"]} if is_known else self._count_values(row, columns)
            for each, rows in counts.items():
                if each[0] is not None and not (each[1:] and each in total.counts):
                    total.more[each[0]] = total.more.get(each[0], 0) + (1 if each[1:] else rows)
                total.counts[each] = total.counts.get(each, 0) + rows

    def _count_values(self, file: Mapping[str, Any], columns: Sequence[str]) -> Mapping[tuple[Any, ...], int]:
        key = (self.path, file["path"], file["size_bytes"], *columns)
        counts = _VALUES.get(key)
        if counts is None:
            read = without_views(self._dataset([unquote(file["path"])]).to_table(columns=list(columns)))
            rows = read.group_by(list(columns)).aggregate([([], "count_all")]).to_pylist()
            counts = {tuple(row[name] for name in columns): row["count_all"] for row in rows}
            _VALUES.put(key, counts)
        return counts

    def find_doubled(self, columns: Sequence[str]) -> set[Any]:
        """Return values of the first column that are in rows which another row equals in all these columns.

        A file that alone has its one value is not read: one commit wrote its rows.
        """
        first, names_of = columns[0], dict[Any, list[str]]()
        for row in self.files:
            low, high = row.get(f"min.{first}"), row.get(f"max.{first}")
            names_of.setdefault(low if low == high else None, []).append(unquote(row["path"]))
        unread = names_of.pop(None, [])
        shared = self._read_values(unread, (first,)) if unread else set()
        unread += [name for value, names in names_of.items() if names[1:] or value in shared for name in names]
        return self._read_values(unread, columns, doubled=True) if unread else set()

    def _read_values(self, names: Sequence[str], columns: Sequence[str], *, doubled: bool = False) -> set[Any]:
        """Return the first column's values in these files. ``doubled``: only of rows that another equals in all columns."""
        wanted = set(names)
        files = frozenset((row["path"], row["size_bytes"]) for row in self.files if unquote(row["path"]) in wanted)
        key = (self.path, files, tuple(columns), doubled)
        values = _SETS.get(key)
        if values is None:
            rows = without_views(self._dataset(names).to_table(columns=list(columns)))
            if doubled:
                from pyarrow.dataset import field  # noqa: PLC0415 (it loads pandas)

                counted = rows.group_by(list(columns)).aggregate([([], "count_all")])
                rows = counted.filter(field("count_all") > 1)
            values = set(rows[columns[0]].unique().to_pylist())
            _SETS.put(key, values)
        return values

    def entries(self, schema: pa.Schema, table: str, without: Collection[str] = ()) -> list[dict[str, Any]]:
        """Return a log's rows of one table, read as plain files: Delta's reader takes ten times as long for many small ones."""
        names = [field.name for field in schema if field.name not in {"table", *without}]
        key = (self.path, *names)
        files = [unquote(row["path"]) for row in self.files]
        rows_by_file = {name: rows for name in files if (rows := _CACHE.get((key, name))) is not None}
        if unread := [name for name in files if name not in rows_by_file]:
            read = self._dataset(unread, pa.schema([schema.field(name) for name in names]))
            read_rows: dict[str, list[dict[str, Any]]] = {name: [] for name in unread}
            for row in read.to_table(columns=[*names, FILE]).to_pylist():
                read_rows[row.pop(FILE).removeprefix(f"{self.folder[1]}/")].append({"table": table, **row})
            if len(_CACHE) + len(read_rows) > CACHED_FILES:
                _CACHE.clear()
            _CACHE.update({(key, name): rows for name, rows in read_rows.items()})
            rows_by_file |= read_rows
        return [row for name in files for row in rows_by_file[name]]

    def changes_rows(self, version: int) -> bool:
        """Whether a commit that is still in the log added or removed rows; a compaction or a change of the schema did not."""
        actions = self._actions(version)
        changed = [action[kind] for action in actions for kind in ("add", "remove") if kind in action]
        return any(action.get("dataChange", True) for action in changed)

    def rows_added(self, version: int) -> int | None:
        """Return by how many rows a commit which is still in the log made the table larger, by its files' statistics. None if a
        file lacks them.
        """
        actions = self._actions(version)
        signs = {"add": 1, "remove": -1}
        counts = [(sign, _count_of(action[kind])) for action in actions for kind, sign in signs.items() if kind in action]
        return None if any(count is None for _, count in counts) else sum(sign * (count or 0) for sign, count in counts)

    def _actions(self, version: int) -> list[dict[str, Any]]:
        filesystem, base = self.folder
        with filesystem.open_input_stream(f"{base}/_delta_log/{version:020d}.json") as file:
            return [json.loads(line) for line in file.read().decode().splitlines() if line.strip()]

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return the newest commits that are still in the log, newest first."""
        return self.table.history(limit) if self.table is not None else []


def _count_of(action: Mapping[str, Any]) -> int | None:
    return json.loads(action.get("stats") or "{}").get("numRecords")


def forget_lost_files(files: TableFiles, transactions: Sequence[Transaction] = ()) -> None:
    """Remove missing data files from a table's Delta log; a later write would read them. A file of another size is moved to
    `<name>.damaged` first.

    Only for files whose rows can be restored or are given up: afterwards the lost file itself no longer helps.
    ``transactions``: of a log (`guards.log_transactions`). Raises LeaseLostError after a takeover.
    """
    opened = open_to_change(files.path, transactions=transactions)
    filesystem, base = files.folder
    for row in files.absent:
        path = f"{base}/{unquote(row['path'])}"
        if filesystem.get_file_info(path).type is fs.FileType.File:
            filesystem.move(path, f"{path}.damaged")
    opened.repair(commit_properties=commit_properties(files.path, transactions=transactions))
