"""Delta tables by path: reading logs without a JVM, appending, and what a commit is called.

Belongs here: the few operations that every table needs. Does not: what a table means.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyarrow import fs
from pyarrow.dataset import Dataset, Expression
from pyarrow.parquet import filters_to_expression
from pyspark.sql import DataFrame, SparkSession

from lakehouse_assets.checks.sql_text import identifier, literal
from lakehouse_assets.contracts.spark_types import sql_type, type_of_json
from lakehouse_assets.settings import ObjectStore

# A hash of the contract by which silver was made.
MEANING = "lakehouse.meaning"
COMMIT, COMMIT_NUMBER = re.compile(r"\d{20}\.json"), re.compile(r"(\d{20})\.json")
COMMITS_READ = 500
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# A log's reader opens every commit since the last checkpoint, one request each on an object store. The library's own is 100.
OF_A_LOG = {"delta.checkpointInterval": "10"}


def exists(path: str) -> bool:
    """Whether a Delta table stands there. No JVM."""
    return DeltaTable.is_deltatable(path, ObjectStore.from_environment().options(path))


def _table(path: str, number: int | None = None) -> DeltaTable:
    return DeltaTable(path, version=number, storage_options=ObjectStore.from_environment().options(path))


@dataclass(frozen=True)
class Snapshot:
    """A version of a table, from its log: ``rows`` (None where a file does not say), ``partitions``: its partition columns."""

    version: int
    rows: int | None
    partitions: tuple[str, ...]


def snapshot(path: str, number: int | None = None) -> Snapshot:
    """One version, or the newest. No JVM. Raises deltalake's errors where the log cannot be read."""
    table = _table(path, number)
    counts = pa.table(table.get_add_actions(flatten=True))["num_records"].to_pylist()
    rows = None if any(count is None for count in counts) else sum(counts)
    return Snapshot(table.version(), rows, tuple(table.metadata().partition_columns))


def version(path: str) -> int:
    """The newest version of the table. No JVM."""
    return _table(path).version()


def state(path: str) -> str:
    """What tells one content of a table from another, whatever table is at this place; empty where there is none. No JVM."""
    if not exists(path):
        return ""
    table = _table(path)
    return f"{table.metadata().id}@{table.version()}"


@dataclass(frozen=True)
class Commit:
    """One commit of a table: what Delta calls it, and the decisions that it names, if it is one of ours."""

    operation: str
    step: str | None = None
    decisions: tuple[str, ...] = ()


def commit(path: str, number: int) -> Commit | None:
    """The commit that made a version, from its entry in the Delta log; None where that was cleaned up. No JVM."""
    table = _table(path)
    for entry in table.history(table.version() - number + 1):
        if entry.get("version") == number:
            step, named = _named(entry.get("userMetadata"))
            return Commit(entry.get("operation", "unknown"), step, named)
    return None


def _named(text: str | None) -> tuple[str | None, tuple[str, ...]]:
    """What `metadata_of` wrote; nothing for another program's text."""
    try:
        given = json.loads(text or "{}")
        return given["step"], tuple(given["decisions"])
    except (ValueError, KeyError, TypeError):
        return None, ()


def read_arrow(path: str, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
    """A (bounded) log as Arrow, without a JVM; an empty table where nothing has been written."""
    if not exists(path):
        return pa.table({})
    dataset = _dataset(path)
    if columns:
        # A log of before lacks what was added to it since.
        columns = [name for name in columns if name in dataset.schema.names]
    return dataset.to_table(columns=list(columns) if columns else None, filter=_chosen(filters))


def head_arrow(path: str, rows: int, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
    """So many rows at most, without a JVM, of files that are read no further than that takes; none where there is no table."""
    if not exists(path) or rows <= 0:
        return pa.table({})
    # By small batches, one after another: a table may be far larger than what is asked for.
    reading = {"batch_size": min(rows, 4096), "batch_readahead": 1, "fragment_readahead": 1}
    scanner = _dataset(path).scanner(columns=list(columns) if columns else None, filter=_chosen(filters), **reading)
    return scanner.head(rows)


def _dataset(path: str) -> Dataset:
    # pyarrow's own file system: with the library's, threads outlive the interpreter and abort it at its end.
    filesystem, base = place(path)
    return _table(path).to_pyarrow_dataset(filesystem=fs.SubTreeFileSystem(base, filesystem))


def _chosen(filters: Any) -> Any:
    if isinstance(filters, Expression):
        return filters
    return filters_to_expression(filters) if filters else None


def place(path: str) -> tuple[fs.FileSystem, str]:
    """pyarrow's file system, and the path within it."""
    return fs.FileSystem.from_uri(ObjectStore.from_environment().arrow_uri(path))


def row_counts(path: str) -> pa.Table:
    """One row per live data file, from the log alone: partition values, ``num_records`` and column extremes."""
    return pa.table(_table(path).get_add_actions(flatten=True))


def utc(moment: datetime) -> datetime:
    """A partition's time as the log tells it, which may lack its zone."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def metadata_of(decision_ids: Sequence[str], step: str) -> str:
    """A commit's user metadata: which decisions it applies, and in which step."""
    return json.dumps({"step": step, "decisions": sorted(decision_ids)})


@contextmanager
def commit_named(spark: SparkSession, text: str) -> Iterator[None]:
    """MERGE takes its user metadata from the session only: set it for one commit, and never leave it behind."""
    spark.conf.set(USER_METADATA, text)
    try:
        yield
    finally:
        spark.conf.unset(USER_METADATA)


def create(frame: DataFrame, path: str, properties: Mapping[str, str]) -> None:
    """A table of these rows. ``properties``: its Delta table properties."""
    frame.write.format("delta").options(**properties).mode("error").save(path)


def properties(path: str) -> dict[str, str]:
    """The table's properties. No JVM."""
    return {name: value for name, value in _table(path).metadata().configuration.items() if value}


def set_property(spark: SparkSession, path: str, name: str, value: str) -> None:
    """Set a table property, where it is another one. ``name`` and ``value`` are the project's own."""
    if properties(path).get(name) != value:
        spark.sql(f"ALTER TABLE delta.{identifier(path)} SET TBLPROPERTIES ({literal(name)} = {literal(value)})")


def append(frame: DataFrame, path: str, *, partition_by: Sequence[str] = (), named: str | None = None) -> None:
    """Add rows in one commit; columns that the table lacks are added in this write only."""
    writer = frame.write.format("delta").mode("append").option("mergeSchema", "true")
    if named:
        writer = writer.option("userMetadata", named)
    (writer.partitionBy(*partition_by) if partition_by else writer).save(path)


def append_arrow(
    rows: pa.Table,
    path: str,
    *,
    partition_by: Sequence[str] = (),
    named: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
) -> None:
    """Add a (bounded) log's rows in one commit, without a JVM: some hundredths of a second where Spark takes half a one.

    ``configuration``: properties that the table is made with, if it is not there yet, beside those of a log.
    """
    write_deltalake(
        path,
        rows,
        mode="append",
        partition_by=list(partition_by) or None,
        schema_mode="merge",
        configuration={**OF_A_LOG, **(configuration or {})},
        storage_options=ObjectStore.from_environment().options(path),
        commit_properties=CommitProperties(custom_metadata={"userMetadata": named}) if named else None,
    )


def replace(frame: DataFrame, path: str, where: str, *, partition_by: Sequence[str] = (), named: str | None = None) -> None:
    """Put rows in the place of those that ``where`` (SQL over literals built by sqlglot) selects, in one commit."""
    if not exists(path):
        append(frame, path, partition_by=partition_by, named=named)
        return
    writer = frame.write.format("delta").mode("overwrite").option("replaceWhere", where).option("mergeSchema", "true")
    (writer.option("userMetadata", named) if named else writer).save(path)


def remove_folder(path: str) -> bool:
    """Delete a scratch folder, if it is there. Returns whether it was."""
    filesystem, base = place(path)
    if filesystem.get_file_info(base).type is not fs.FileType.Directory:
        return False
    filesystem.delete_dir(base)
    return True


def schema_types(path: str, number: int | None = None) -> list[tuple[str, str]]:
    """The columns of a version (or of the newest), with Spark's types, in their order. No JVM."""
    given = json.loads(_table(path, number).schema().to_json())
    return [(field["name"], sql_type(type_of_json(field["type"]))) for field in given["fields"]]


def schema_changes(path: str) -> list[tuple[int, datetime, str, list[tuple[str, str]]]]:
    """Of each commit that states the table's schema: version, time, operation and columns, oldest first. No JVM.

    Only the newest commits whose entries are still in the log; Delta keeps them for 30 days, or as the table's properties say.
    """
    filesystem, base = place(f"{path}/_delta_log")
    found = filesystem.get_file_info(fs.FileSelector(base, allow_not_found=True))
    entries = sorted(e.path for e in found if COMMIT.fullmatch(e.base_name))[-COMMITS_READ:]

    def stated(entry: str) -> tuple[int, datetime, str, list[tuple[str, str]]] | None:
        with filesystem.open_input_stream(entry) as file:
            lines = file.read().decode().splitlines()
        actions = [json.loads(line) for line in lines if line.startswith(('{"metaData"', '{"commitInfo"'))]
        said = next((a["metaData"] for a in actions if "metaData" in a), None)
        if said is None:
            return None
        info = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        columns = [(f["name"], sql_type(type_of_json(f["type"]))) for f in json.loads(said["schemaString"])["fields"]]
        at = datetime.fromtimestamp(info.get("timestamp", 0) / 1000, UTC)
        return int(COMMIT_NUMBER.findall(entry)[-1]), at, info.get("operation", "unknown"), columns

    with ThreadPoolExecutor(8) as pool:
        return [each for each in pool.map(stated, entries) if each is not None]


def add_columns(spark: SparkSession, path: str, columns: Mapping[str, str]) -> None:
    """Add columns (name → type) at the table's end, in one commit that touches no row."""
    told = ", ".join(f"{identifier(name)} {kind}" for name, kind in columns.items())
    spark.sql(f"ALTER TABLE delta.{identifier(path)} ADD COLUMNS ({told})")


def allow_types(spark: SparkSession, path: str, kinds: Iterable[str]) -> None:
    """Let a table that stands take columns of these types: times without a zone are a feature that Delta wants named first."""
    if not any("timestamp_ntz" in kind for kind in kinds) or not exists(path):
        return
    if "timestampNtz" not in (_table(path).protocol().writer_features or ()):
        spark.sql(f"ALTER TABLE delta.{identifier(path)} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
