"""Few rows merged into a small Delta table on a disk without a MERGE of Spark, which takes one or two seconds.

Belongs here: which tables and rows may be merged so, the rows, and the commit. Does not: rows of new keys alone (small_writes),
or other MERGEs (pipeline/silver_merge).

The files are written by pyarrow; the commit is one of Delta in Spark, which looks for conflicts, and which a lease fences. A
MERGE of `deltalake` would leave texts that pyarrow cannot filter (Arrow's views), and makes no commit where no row is newer.
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from lakehouse_assets.object_store import is_url
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.adopted_files import indexed_columns, statistics_of, takes_any_file
from lakehouse_assets.storage.delta_dataset import is_elsewhere, read_file, without_views
from lakehouse_assets.storage.footers import has_julian_days, path_of
from lakehouse_assets.storage.opened_tables import open_to_change
from lakehouse_assets.storage.session_properties import set_session_property
from lakehouse_assets.storage.small_writes import MOST_ROWS, has_nan, leaves_columns

# What the driver reads: `MOST_ROWS` rows of files with so many bytes, and of a table with so many `delta.FEW_ROWS` rows.
MOST_BYTES, MOST_FILES = 16 << 20, 100
# Types, as Delta names them, whose values Python compares as Spark does: of a float, 0.0 and -0.0, or NaN and NaN, are equal to
# Spark.
COMPARABLE = frozenset({"byte", "short", "integer", "long", "string", "date", "timestamp"})
# Those that are copied unchanged from one file to the next.
COPIED = COMPARABLE | {"boolean", "float", "double", "binary"}
FEED, CHANGES = "delta.enableChangeDataFeed", "_change_data"
OPERATION_METRICS = "spark.databricks.delta.history.metricsEnabled"
CHANGE = pa.field("_change_type", pa.string())
ROW, MERGED = "_row", "_merged_row"


@dataclass(frozen=True)
class _Merged:
    """``replaced``: by file, numbers of its rows that are replaced. ``newer``: the rows that replace them, in the same order.
    ``added``: those whose key is new.
    """

    replaced: dict[int, list[int]]
    newer: list[int]
    added: list[int]


def merge_few(frame: DataFrame, path: str, rows: int, key: Sequence[str], order: Sequence[str | None]) -> bool:
    """Merge the frame's rows in one commit, and return whether that was done; if not, nothing was. A row of a new key is added,
    that of another replaces the table's row if it is newer.

    ``frame``: one row per key. ``rows``: how many there are at most. ``key``: columns without NULL. ``order``: columns that say
    which of two rows is newer, the first one first; NULL is older than any value, and None a column of NULLs. Raises Delta's
    error if another program has changed the table meanwhile.
    """
    if rows > MOST_ROWS or is_url(path) or not delta.exists(path) or not _is_of_small_files(frame):
        return False
    table, by_order = open_to_change(path), [name for name in order if name is not None]
    files = delta.files_of(table)
    if not _is_small(files) or not _takes_merge(table, frame.schema.jsonValue()["fields"], [*key, *by_order]):
        return False
    dataset = delta.dataset_of(table, path)
    fragments = list(dataset.get_fragments())
    if any(has_julian_days(file.metadata) or _has_int96(file.metadata) for file in fragments):
        return False

    def read(number: int, columns: Sequence[str]) -> pa.Table:
        return without_views(read_file(fragments[number], dataset.schema, columns, None))

    compared = list(dict.fromkeys([*key, *by_order]))
    try:
        own = frame.toArrow().select(dataset.schema.names).cast(dataset.schema)
        merged = _compare(own, [read(number, compared) for number in range(len(fragments))], key, by_order)
    except (ValueError, OverflowError):  # bytes that are no text, and years that Python does not have, as Spark has them
        return False
    transaction = _begin(frame.sparkSession, path, table.version())
    if transaction is None:
        return False
    replaced = {number: read(number, dataset.schema.names) for number in merged.replaced}
    actions = _write_files(path, table, files, _files_of(own, replaced, merged))
    _commit(frame.sparkSession, transaction, actions)
    return True


def _is_of_small_files(frame: DataFrame) -> bool:
    """Whether what the frame is read from, staged files, is as small as the table has to be."""
    try:
        return sum(Path(path_of(file)).stat().st_size for file in frame.inputFiles()) <= MOST_BYTES
    except OSError:  # not on a disk
        return False


def _is_small(files: pa.Table) -> bool:
    """Whether a table has few rows in few files within its folder."""
    return (
        delta.are_few(files)
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


def _has_int96(footer: parquet.FileMetaData) -> bool:
    """Whether a file has moments as Spark writes them by default: far ones are beyond what other programs make of them."""
    return any(footer.schema.column(index).physical_type == "INT96" for index in range(footer.num_columns))


def _compare(own: pa.Table, files: Sequence[pa.Table], key: Sequence[str], order: Sequence[str]) -> _Merged:
    """Return which rows replace which. Only rows with the same key as one to merge become values of Python."""
    wanted = own.select(key).append_column(MERGED, pa.array(range(own.num_rows), pa.int64()))
    replaced, newer, matches = dict[int, list[int]](), list[int](), set[int]()
    for number, rows in enumerate(files):
        numbered = rows.select(key).append_column(ROW, pa.array(range(rows.num_rows), pa.int64()))
        pairs = numbered.join(wanted, list(key), join_type="inner").sort_by(ROW)
        of_table, of_own = pairs[ROW].to_pylist(), pairs[MERGED].to_pylist()
        matches.update(of_own)
        before, after = (_orders(_take(each, chosen), order) for each, chosen in ((rows, of_table), (own, of_own)))
        for row, merged_row, was, is_now in zip(of_table, of_own, before, after, strict=True):
            if is_now > was:
                replaced.setdefault(number, []).append(row)
                newer.append(merged_row)
    return _Merged(replaced, newer, [row for row in range(own.num_rows) if row not in matches])


def _orders(rows: pa.Table, order: Sequence[str]) -> list[tuple[tuple[bool, Any], ...]]:
    """Return what orders these rows: NULL before any value."""
    columns = [[(value is not None, value) for value in rows[name].to_pylist()] for name in order]
    return list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows


def _files_of(own: pa.Table, files: Mapping[int, pa.Table], merged: _Merged) -> tuple[list[int], pa.Table, pa.Table]:
    """Return the numbers of the files to remove, the rows to add, and the changes as a reader of the feed has them. ``files``:
    those with rows that are replaced.
    """
    replaced_rows = [_take(files[number], rows) for number, rows in merged.replaced.items()]
    rest = [_without(files[number], rows) for number, rows in merged.replaced.items()]
    changes = [
        *(_changed(rows, "update_preimage") for rows in replaced_rows),
        _changed(_take(own, merged.newer), "update_postimage"),
        _changed(_take(own, merged.added), "insert"),
    ]
    added = pa.concat_tables([*rest, _take(own, merged.newer), _take(own, merged.added)])
    return list(merged.replaced), added, pa.concat_tables(changes)


def _take(rows: pa.Table, numbers: Sequence[int]) -> pa.Table:
    return rows.take(pa.array(numbers, pa.int64()))


def _without(rows: pa.Table, numbers: Collection[int]) -> pa.Table:
    absent = {*numbers}
    return rows.filter(pa.array([number not in absent for number in range(rows.num_rows)], pa.bool_()))


def _changed(rows: pa.Table, kind: str) -> pa.Table:
    return rows.append_column(CHANGE, pa.array([kind] * rows.num_rows, CHANGE.type))


def _write_files(
    path: str, table: DeltaTable, files: pa.Table, parts: tuple[list[int], pa.Table, pa.Table]
) -> list[dict[str, Any]]:
    """Write the files; return what a commit has to state, as Delta's log does."""
    removed, added, changes = parts
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
    jvm: Any = spark.sparkContext._jvm
    transaction = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path).startTransaction()
    if transaction.readVersion() != version:
        return None
    transaction.readWholeTable()
    return transaction


def _commit(spark: SparkSession, transaction: Any, actions: Sequence[dict[str, Any]]) -> None:
    """Commit with the session's metadata."""
    jvm: Any = spark.sparkContext._jvm
    of_delta, to_seq = jvm.org.apache.spark.sql.delta, jvm.org.apache.spark.api.python.PythonUtils.toSeq
    none, no_predicates = jvm.scala.Option.empty(), to_seq([])
    operation = getattr(of_delta, "DeltaOperations$Merge")(none, none, none, none, *[no_predicates] * 3)
    # Those of a MERGE are counted by its jobs.
    with set_session_property(spark, OPERATION_METRICS, "false"):
        transaction.commit(to_seq([of_delta.actions.Action.fromJson(json.dumps(each)) for each in actions]), operation)
