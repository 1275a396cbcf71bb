"""Delta tables by path: reading logs without a JVM, appending, and what a commit is called.

Belongs here: the few operations that every table needs. Does not: what a table means.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def exists(path: str) -> bool:
    """Whether a Delta table stands there. No JVM."""
    return DeltaTable.is_deltatable(path)


def version(path: str) -> int:
    """The newest version of the table. No JVM."""
    return DeltaTable(path).version()


def read_arrow(path: str, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
    """A (bounded) log as Arrow, without a JVM; an empty table where nothing has been written."""
    if not exists(path):
        return pa.table({})
    # pyarrow's own file system: with the library's, threads outlive the interpreter and abort it at its end.
    return DeltaTable(path).to_pyarrow_table(
        columns=list(columns) if columns else None, filters=filters, filesystem=_files(path)
    )


def _files(path: str) -> fs.FileSystem:
    filesystem, place = fs.FileSystem.from_uri(path if "://" in path else f"file://{path}")
    return fs.SubTreeFileSystem(place, filesystem)


def row_counts(path: str) -> pa.Table:
    """One row per live data file, from the log alone: partition values, ``num_records`` and column extremes."""
    return pa.table(DeltaTable(path).get_add_actions(flatten=True))


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


def append(frame: DataFrame, path: str, *, partition_by: Sequence[str] = (), named: str | None = None) -> None:
    """Add rows in one commit; columns that the table lacks are added in this write only."""
    writer = frame.write.format("delta").mode("append").option("mergeSchema", "true")
    if named:
        writer = writer.option("userMetadata", named)
    (writer.partitionBy(*partition_by) if partition_by else writer).save(path)


def replace(frame: DataFrame, path: str, where: str, *, partition_by: Sequence[str] = (), named: str | None = None) -> None:
    """Put rows in the place of those that ``where`` (SQL over literals built by sqlglot) selects, in one commit."""
    if not exists(path):
        append(frame, path, partition_by=partition_by, named=named)
        return
    writer = frame.write.format("delta").mode("overwrite").option("replaceWhere", where).option("mergeSchema", "true")
    (writer.option("userMetadata", named) if named else writer).save(path)


def remove_folder(path: str) -> None:
    """Delete a scratch folder, if it is there."""
    filesystem, place = fs.FileSystem.from_uri(path if "://" in path else f"file://{path}")
    if filesystem.get_file_info(place).type is fs.FileType.Directory:
        filesystem.delete_dir(place)
