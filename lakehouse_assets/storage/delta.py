"""Delta tables by path without a JVM: reading, appending the rows of logs, and commit metadata.

Belongs here: the few operations that every table needs. Does not: what a table means, what Spark does (delta_writes).
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from lakehouse_assets.contracts.spark_types import sql_type, type_of_json
from lakehouse_assets.storage.commit_metadata import decode_step
from lakehouse_assets.storage.delta_dataset import make_dataset, read_first_rows, read_rows
from lakehouse_assets.storage.file_systems import delete_folder, is_folder, open_filesystem
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.opened_tables import is_open, open_table, open_to_change
from lakehouse_assets.storage.table_options import table_options

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

# A hash of the contract by which silver was made.
MEANING = "lakehouse.meaning"
COMMIT = re.compile(r"(\d{20})\.json")
COMMITS_READ = 500
# Up to these, Spark takes longer to plan a query than to run it.
FEW_ROWS = 100_000
# A reader opens every commit since the last checkpoint, one request each on an object store. Delta's default is 100.
LOG_PROPERTIES = {"delta.checkpointInterval": "10"}


def exists(path: str) -> bool:
    """Whether there is a Delta table at this path. No JVM."""
    return is_open(path) or DeltaTable.is_deltatable(path, table_options(path))


@dataclass(frozen=True)
class Snapshot:
    """A version of a table, from its log. ``rows``: None if a file lacks statistics. ``partitions``: the partition columns."""

    version: int
    rows: int | None
    partitions: tuple[str, ...]


def snapshot(path: str, number: int | None = None) -> Snapshot:
    """Return one version, or the newest. No JVM. Raises deltalake's errors if the log cannot be read."""
    table = open_table(path, number)
    return Snapshot(table.version(), _count_rows(files_of(table)), tuple(table.metadata().partition_columns))


def has_few_rows(path: str, number: int | None = None) -> bool:
    """Whether a table has at most ``FEW_ROWS`` rows, by the statistics of its files. No JVM."""
    return exists(path) and are_few(files_of(open_table(path, number)), FEW_ROWS)


def are_few(files: pa.Table, most: int) -> bool:
    """Whether these files of a log have at most so many rows, by their statistics."""
    rows = _count_rows(files)
    return rows is not None and rows <= most


def version(path: str) -> int:
    """Return the newest version of the table. No JVM."""
    return open_table(path).version()


def content_id(path: str) -> str:
    """Return an id of the table's content, whatever table is at this path; empty if there is none. No JVM."""
    if not exists(path):
        return ""
    table = open_table(path)
    return f"{table.metadata().id}@{table.version()}"


def table_id(path: str) -> str:
    """Return the id that a table was made with; empty if there is none. No JVM."""
    return str(open_table(path).metadata().id) if exists(path) else ""


@dataclass(frozen=True)
class Commit:
    """One commit of a table: Delta's operation, and the decisions that it names if this project made it."""

    operation: str
    step: str | None = None
    decisions: tuple[str, ...] = ()


def read_commit(path: str, number: int) -> Commit | None:
    """Return the commit that made a version; None if its log entry was cleaned up. No JVM."""
    table = open_table(path)
    for entry in table.history(table.version() - number + 1):
        if entry.get("version") == number:
            return Commit(entry.get("operation", "unknown"), *decode_step(entry.get("userMetadata")))
    return None


def was_restored_after(path: str, number: int) -> bool:
    """Whether a commit after this version brought back an earlier one. Only commits that are still in the log count. No JVM."""
    table = open_table(path)
    later = table.version() - number
    return later > 0 and any(entry.get("operation") == "RESTORE" for entry in table.history(later))


def read_arrow(path: str, columns: Sequence[str] | None = None, filters: Any = None, version: int | None = None) -> pa.Table:
    """Return a (bounded) log as Arrow, without a JVM; an empty table if nothing was written. ``version``: not the newest."""
    if not exists(path):
        return pa.table({})
    dataset = open_dataset(path, version, _compared(filters))
    return read_rows(dataset, columns or None, as_expression(filters))


def head_arrow(path: str, rows: int, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
    """Return at most ``rows`` rows without a JVM, reading no more of the files than needed; none if there is no table."""
    if not exists(path) or rows <= 0:
        return pa.table({})
    dataset = open_dataset(path, bounds=_compared(filters))
    return read_first_rows(dataset, rows, columns or None, as_expression(filters))


def open_dataset(path: str, version: int | None = None, bounds: Collection[str] = ()) -> "Dataset":
    """Return one version, or the newest, for several reads of the same rows. No JVM. ``bounds``: as `make_dataset` has them."""
    return dataset_of(open_table(path, version), path, bounds)


def dataset_of(table: DeltaTable, path: str, bounds: Collection[str] = (), only: Sequence[int] | None = None) -> "Dataset":
    """Return the same of a table that is open. ``path``: its own. ``only``: as `make_dataset` has it."""
    return make_dataset(table, filesystem_of(path), bounds, only)


def filesystem_of(path: str) -> fs.FileSystem:
    """Return a file system whose root is the table's folder."""
    # pyarrow's own file system: with the library's, threads outlive the interpreter and abort it at its end.
    filesystem, base = open_filesystem(path)
    return fs.SubTreeFileSystem(base, filesystem)


def partition_files(path: str, column: str) -> tuple[int, list[tuple[str, str]]]:
    """Return the newest version, and partition value and path of each of its data files, from the log alone. No JVM."""
    table = open_table(path)
    actions = pa.table(table.get_add_actions(flatten=True)).select([f"partition.{column}", "path"]).to_pydict()
    return table.version(), list(zip(*actions.values(), strict=True))


def _compared(filters: Any) -> list[str]:
    return [name for name, _, _ in filters] if isinstance(filters, list | tuple) else []


def as_expression(filters: Any) -> Any:
    """Return Arrow's expression of a list of `(column, operator, value)`, all of which hold; an expression as it is."""
    if not isinstance(filters, list | tuple):
        return filters  # an expression, or None
    from pyarrow.parquet import filters_to_expression  # noqa: PLC0415 (it loads pandas)

    return filters_to_expression(filters) if filters else None


def row_counts(path: str) -> pa.Table:
    """Return one row per live data file, from the log alone: partition values, ``num_records``, column extremes."""
    return files_of(open_table(path))


def files_of(table: DeltaTable) -> pa.Table:
    """Return the same of a table that is open."""
    return pa.table(table.get_add_actions(flatten=True))


def _count_rows(files: pa.Table) -> int | None:
    """Return the rows of these files of a log; None if one lacks statistics."""
    counts = files["num_records"].to_pylist()
    return None if any(count is None for count in counts) else sum(counts)


def utc(moment: datetime) -> datetime:
    """Return a partition's time in UTC; the log may leave out its zone."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def commit_metadata_of(decision_ids: Sequence[str], step: str) -> str:
    """Return a commit's user metadata: the step, and the ids of the decisions that it applies."""
    return json.dumps({"step": step, "decisions": sorted(decision_ids)})


def properties(path: str) -> dict[str, str]:
    """Return the table's properties. No JVM."""
    return {name: value for name, value in open_table(path).metadata().configuration.items() if value}


def append_arrow(
    rows: pa.Table,
    path: str,
    *,
    partition_by: Sequence[str] = (),
    user_metadata: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    after: DeltaTable | None = None,
    transactions: Sequence[Transaction] = (),
) -> None:
    """Add a (bounded) log's rows in one commit, without a JVM: hundredths of a second, where Spark takes half a second.

    ``configuration``: table properties at creation, besides those of every log. ``transactions``: a concurrent commit with one
    of these applications refuses this one. ``after``: the table as the caller has read it (default: as it is now).
    Raises LeaseLostError, and CommitFailedError where a concurrent commit had its way.
    """
    properties_of_commit = guards.commit_properties(path, user_metadata, transactions)
    transactions = transactions or guards.table_transactions(path)
    properties_of_table = {**LOG_PROPERTIES, **(configuration or {})}
    if transactions and after is None:
        try:
            after = open_to_change(path)
        except TableNotFoundError:
            from lakehouse_assets.storage.leases.creation import create_once  # noqa: PLC0415 (a client of stores, as in lock)

            create_once(path, rows.schema, partition_by, properties_of_table, transactions)
            after = open_to_change(path)
    if after is not None:
        guards.require_unfenced(after, path, transactions)
    write_deltalake(
        after or path,
        rows,
        mode="append",
        partition_by=list(partition_by) or None,
        schema_mode="merge",
        configuration=properties_of_table,
        storage_options=table_options(path),
        commit_properties=properties_of_commit,
    )


def remove_folder(path: str) -> bool:
    """Delete a scratch folder if it exists; return whether it did."""
    filesystem, base = open_filesystem(path)
    if not is_folder(filesystem, base):
        return False
    delete_folder(filesystem, base)
    return True


def schema_types(path: str, number: int | None = None) -> list[tuple[str, str]]:
    """Return the columns of a version (or of the newest) with Spark's types, in order. No JVM."""
    schema = json.loads(open_table(path, number).schema().to_json())
    return [(field["name"], sql_type(type_of_json(field["type"]))) for field in schema["fields"]]


def column_comments(path: str) -> dict[str, str]:
    """Return the comments of the table's columns that have one. No JVM."""
    fields = json.loads(open_table(path).schema().to_json())["fields"]
    return {field["name"]: text for field in fields if (text := (field.get("metadata") or {}).get("comment"))}


def schema_changes(path: str) -> list[tuple[int, datetime, str, list[tuple[str, str]]]]:
    """Return version, time, operation and columns of each commit that states the table's schema, oldest first. No JVM.

    Only the newest commits that are still in the log; Delta keeps them for 30 days, or as the table's properties say.
    """
    filesystem, base = open_filesystem(f"{path}/_delta_log")
    infos = filesystem.get_file_info(fs.FileSelector(base, allow_not_found=True))
    entries = sorted(e.path for e in infos if COMMIT.fullmatch(e.base_name))[-COMMITS_READ:]

    def read_schema(entry: str) -> tuple[int, datetime, str, list[tuple[str, str]]] | None:
        with filesystem.open_input_stream(entry) as file:
            lines = file.read().decode().splitlines()
        actions = [json.loads(line) for line in lines if line.startswith(('{"metaData"', '{"commitInfo"'))]
        metadata = next((a["metaData"] for a in actions if "metaData" in a), None)
        if metadata is None:
            return None
        info = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        columns = [(f["name"], sql_type(type_of_json(f["type"]))) for f in json.loads(metadata["schemaString"])["fields"]]
        at = datetime.fromtimestamp(info.get("timestamp", 0) / 1000, UTC)
        return int(COMMIT.findall(entry)[-1]), at, info.get("operation", "unknown"), columns

    with ThreadPoolExecutor(8) as pool:
        return [change for change in pool.map(read_schema, entries) if change is not None]
