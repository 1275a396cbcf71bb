"""A batch merged into a Delta table on a disk without a MERGE of Spark, where both fit into this process's memory.

Belongs here: which tables and rows may be merged so, and the commit. Does not: which rows replace which (merged_rows), rows of
new keys alone (small_writes), or other MERGEs (pipeline/silver_merge).

For Spark, a MERGE takes one or two seconds, however few rows there are, and two processor seconds for 100,000 rows.

The files are written by pyarrow; the commit is one of Delta in Spark, which looks for conflicts, and which a lease fences. A
MERGE of `deltalake` would leave texts that pyarrow cannot filter (Arrow's views), and makes no commit where no row is newer.
"""

import json
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from lakehouse_assets.object_store import is_url
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.adopted_files import indexed_columns, statistics_of, takes_any_file
from lakehouse_assets.storage.delta_dataset import is_elsewhere, without_views
from lakehouse_assets.storage.footers import has_int96, has_julian_days, path_of, read_footer
from lakehouse_assets.storage.java import java_class
from lakehouse_assets.storage.merged_rows import as_booleans, compare_rows, rows_to_write
from lakehouse_assets.storage.opened_tables import open_to_change
from lakehouse_assets.storage.session_properties import set_session_property
from lakehouse_assets.storage.small_writes import MOST_ROWS, has_nan, leaves_columns
from lakehouse_assets.storage.staged_rows import StagedBatch

# What the driver holds: at most so many rows to merge, of staged files with so many bytes before they are packed; and of files
# that may have their keys, with so many rows and bytes together, so many bytes once they are unpacked.
MOST_MERGED, MOST_STAGED_BYTES = 100_000, 64 << 20
MOST_TABLE_ROWS, MOST_FILES, MOST_BYTES, MOST_UNPACKED_BYTES = 1_000_000, 100, 64 << 20, 128 << 20
# Types, as Delta names them, whose values Python compares as Spark does: of a float, 0.0 and -0.0, or NaN and NaN, are equal to
# Spark.
COMPARABLE = frozenset({"byte", "short", "integer", "long", "string", "date", "timestamp"})
# Those that are copied unchanged from one file to the next.
COPIED = COMPARABLE | {"boolean", "float", "double", "binary"}
FEED, CHANGES = "delta.enableChangeDataFeed", "_change_data"
OF_DELTA = "org.apache.spark.sql.delta"
OPERATION_METRICS = "spark.databricks.delta.history.metricsEnabled"


class _TooLargeError(Exception):
    """Rows take more memory than they may."""


def merge_few(
    frame: DataFrame,
    path: str,
    rows: int,
    key: Sequence[str],
    order: Sequence[str | None],
    deletion_column: str | None = None,
    staged: StagedBatch | None = None,
    near: Callable[[pa.Table], Sequence[bool]] | None = None,
) -> bool:
    """Merge the frame's rows in one commit, and return whether that was done; if not, nothing was. A row of a new key is added,
    that of another replaces or deletes the table's row if it is newer.

    ``frame``: one row per key. ``rows``: how many there are at most. ``key``: columns without NULL. ``order``: columns that say
    which of two rows is newer, the first one first; NULL is older than any value, and None a column of NULLs.
    ``deletion_column``: one that the table does not have, which says whether a row deletes its key. ``staged``: where the
    rows are; None: in the files that the frame is read from. ``near``: the table's files, as `delta.row_counts` has them →
    which may have a key of these rows; None: all. The others may be of any number and size. Raises Delta's error if another
    program has changed the table meanwhile.
    """
    if rows > MOST_MERGED or is_url(path) or not delta.exists(path):
        return False
    staged = StagedBatch(frame.inputFiles()) if staged is None else staged
    if not _fit_into_memory(staged.files, rows):
        return False
    table, by_order = open_to_change(path), [name for name in order if name is not None]
    files = delta.files_of(table)
    numbers = [*range(files.num_rows)] if near is None else np.flatnonzero(near(files)).tolist()
    files = files.take(pa.array(numbers, pa.int64()))
    own_columns = [column for column in frame.schema.jsonValue()["fields"] if column["name"] != deletion_column]
    if not _is_small(files) or not _takes_merge(table, own_columns, [*key, *by_order]):
        return False
    dataset = delta.dataset_of(table, path, only=numbers)
    fragments = list(dataset.get_fragments())
    if any(has_julian_days(file.metadata) or has_int96(file.metadata) for file in fragments):
        return False
    try:
        stored = _read(fragments, dataset.schema, list(dict.fromkeys([*key, *by_order])))
        collected = staged.read_newest(frame.columns)
        collected = frame.toArrow() if collected is None else collected
        own = collected.select(dataset.schema.names).cast(dataset.schema)
        is_deletion = as_booleans(collected[deletion_column]) if deletion_column else np.zeros(own.num_rows, bool)
        merged = compare_rows(own, is_deletion, stored, key, by_order)
        changed = _read([fragments[number] for number in merged.files], dataset.schema, dataset.schema.names)
    except (ValueError, OverflowError, pa.ArrowException, _TooLargeError):  # or as Arrow does not take them
        return False
    transaction = _begin(frame.sparkSession, path, table.version())
    if transaction is None:
        return False
    parts = rows_to_write(own, dict(zip(merged.files, changed, strict=True)), merged)
    _commit(frame.sparkSession, transaction, _write_files(path, table, files, merged.files, parts))
    del stored, collected, own, changed, merged, parts
    # A stream merges for days, and Arrow would keep the most memory that a merge has taken.
    pa.default_memory_pool().release_unused()
    return True


def _fit_into_memory(staged: Sequence[str], rows: int) -> bool:
    """Whether so many rows of these files fit into memory. Without files, only few rows are sure to."""
    if not staged:
        return rows <= MOST_ROWS
    try:
        footers = [read_footer(path_of(file)) for file in staged]
    except (OSError, pa.ArrowException):  # not on a disk
        return False
    parts = [footer.row_group(number) for footer in footers for number in range(footer.num_row_groups)]
    # A dictionary has a value once, however often it is repeated.
    packed = any(part.column(index).has_dictionary_page for part in parts for index in range(part.num_columns))
    return sum(part.total_byte_size for part in parts) <= MOST_STAGED_BYTES and (rows <= MOST_ROWS or not packed)


def _read(fragments: Sequence[Any], schema: pa.Schema, columns: Sequence[str]) -> list[pa.Table]:
    """Return these columns of some of a dataset's files. Raises _TooLargeError where they take too much memory."""
    tables, left = [], MOST_UNPACKED_BYTES
    if sum(_least_bytes(fragment.metadata, schema, columns) for fragment in fragments) > left:
        raise _TooLargeError
    for fragment in fragments:
        batches = []
        for batch in fragment.to_batches(schema=schema, columns=list(columns), batch_readahead=1, fragment_readahead=1):
            left -= batch.nbytes
            if left < 0:
                raise _TooLargeError
            batches.append(batch)
        tables.append(without_views(pa.Table.from_batches(batches, pa.schema([schema.field(name) for name in columns]))))
    return tables


def _least_bytes(footer: parquet.FileMetaData, schema: pa.Schema, columns: Collection[str]) -> int:
    """Return about how many bytes these columns of a file take at least, once they are unpacked: a dictionary may hide more."""
    least = 0
    for group in (footer.row_group(number) for number in range(footer.num_row_groups)):
        for part in (group.column(index) for index in range(group.num_columns)):
            if part.path_in_schema not in columns:
                continue
            kind = schema.field(part.path_in_schema).type
            if pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
                least += part.num_values * kind.bit_width // 8
            else:
                least += 4 * part.num_values if part.has_dictionary_page else part.total_uncompressed_size
    return least


def _is_small(files: pa.Table) -> bool:
    """Whether these files of a table have few rows, and are within its folder."""
    return (
        delta.are_few(files, MOST_TABLE_ROWS)
        and files.num_rows <= MOST_FILES
        and sum(files["size_bytes"].to_pylist()) <= MOST_BYTES
        and not any(map(is_elsewhere, files["path"].to_pylist()))
    )


def _takes_merge(table: DeltaTable, columns: Any, compared: Collection[str]) -> bool:
    """Whether a plain table has these columns and no others, and its values are compared and copied as Spark does it."""
    fields = json.loads(table.schema().to_json())["fields"]
    kinds = {field["name"]: field["type"] for field in fields}
    return (
        takes_any_file(table)
        and leaves_columns("append", columns, fields)
        and all(kinds.get(name) in COMPARABLE for name in compared)
        and all(isinstance(kind, str) and (kind in COPIED or kind.startswith("decimal")) for kind in kinds.values())
    )


def _write_files(
    path: str, table: DeltaTable, files: pa.Table, removed: Sequence[int], parts: tuple[pa.Table, pa.Table]
) -> list[dict[str, Any]]:
    """Write the files; return what a commit has to state, as Delta's log does. ``removed``: numbers of the files to remove.
    ``parts``: the rows to add, and the changes.
    """
    added, changes = parts
    at = time.time_ns() // 1_000_000
    actions: list[dict[str, Any]] = []
    if added.num_rows:
        name = f"part-{uuid4()}.snappy.parquet"
        size = _write(added, Path(path, name))
        statistics = statistics_of(parquet.read_metadata(f"{path}/{name}"), indexed_columns(table))
        actions.append({"add": {"path": name, "modificationTime": at, "stats": statistics, **_described(size)}})
    for number in removed:
        row = {column: files[column][number].as_py() for column in ("path", "size_bytes", "num_records")}
        remove = {"path": row["path"], "deletionTimestamp": at, "extendedFileMetadata": True, **_described(row["size_bytes"])}
        actions.append({"remove": remove | {"stats": json.dumps({"numRecords": row["num_records"]})}})
    # Without rows that are replaced, the feed is the added rows.
    if removed and table.metadata().configuration.get(FEED) == "true":
        name = f"{CHANGES}/cdc-{uuid4()}.snappy.parquet"
        Path(path, CHANGES).mkdir(exist_ok=True)
        size = _write(changes, Path(path, name))
        actions.append({"cdc": {"path": name, **_described(size), "dataChange": False}})
    return actions


def _described(size: int) -> dict[str, Any]:
    return {"size": size, "partitionValues": {}, "dataChange": True}


def _write(rows: pa.Table, file: Path) -> int:
    """Write a Parquet file; return its size in bytes. Its statistics leave NaN out, which Spark has as the largest number: it
    would not look for it there.
    """
    exact: Any = [name for name in rows.column_names if not has_nan(rows[name])]
    parquet.write_table(rows, file, store_schema=False, write_statistics=exact)
    return file.stat().st_size


def _begin(spark: SparkSession, path: str, version: int) -> Any | None:
    """Return a transaction of Delta in Spark that has read all of this version of the table; None if that is not the newest."""
    log: Any = java_class(spark.sparkContext._jvm, f"{OF_DELTA}.DeltaLog")
    transaction = log.forTable(spark._jsparkSession, path).startTransaction()
    if transaction.readVersion() != version:
        return None
    transaction.readWholeTable()
    return transaction


def _commit(spark: SparkSession, transaction: Any, actions: Sequence[dict[str, Any]]) -> None:
    """Commit with the session's metadata."""
    jvm: Any = spark.sparkContext._jvm
    to_seq = java_class(jvm, "org.apache.spark.api.python.PythonUtils").toSeq
    from_json = java_class(jvm, f"{OF_DELTA}.actions.Action").fromJson
    none, no_predicates = java_class(jvm, "scala.Option").empty(), to_seq([])
    operation = java_class(jvm, f"{OF_DELTA}.DeltaOperations$Merge")(none, none, none, none, *[no_predicates] * 3)
    # Those of a MERGE are counted by its jobs.
    with set_session_property(spark, OPERATION_METRICS, "false"):
        transaction.commit(to_seq([from_json(json.dumps(each)) for each in actions]), operation)
