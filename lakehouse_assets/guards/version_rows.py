"""The rows of one version's batch, as a frame that reads no other file of the table.

Belongs here: batch → frame. Does not: which rows these are (decisions/guard), or judging them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.decisions.guard import VersionBatch
from lakehouse_assets.errors import SourceError
from lakehouse_assets.guards.catalog import quoted_name
from lakehouse_assets.object_store import is_url
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.foreign_commit import FEED
from lakehouse_assets.storage.foreign_iceberg import IcebergTable

FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
# Properties that say how a log is written: the one that is made here has a single commit.
OF_WRITERS = (FEED, "delta.enableInCommitTimestamps", "delta.checkpointPolicy")


def read_batch(spark: SparkSession, guard: GuardSpec, path: str, batch: VersionBatch, folder: str) -> DataFrame:
    """Return the rows of a batch. ``folder``: takes a log of the added files, which stay where they are.

    Raises SourceError where the version's commit cannot be read.
    """
    if guard.format == "iceberg":
        return _read_snapshot(spark, guard, path, batch)
    if batch.rows == "changed":
        changes = read_feed(spark, path, batch.version)
        return changes.where(F.col("_change_type").isin("insert", "update_postimage")).drop(*FEED_COLUMNS)
    if batch.rows == "added":
        write_log_of_added_files(path, batch.version, folder)
        return spark.read.format("delta").load(folder)
    rows = spark.read.format("delta").option("versionAsOf", batch.version).load(path)
    if batch.rows in ("window", "outside"):
        return rows.where(batch.of_window)
    return rows.limit(0) if batch.rows == "none" else rows


def _read_snapshot(spark: SparkSession, guard: GuardSpec, path: str, batch: VersionBatch) -> DataFrame:
    snapshot, before = _iceberg(guard, path).snapshot(batch.version)
    reader = spark.read if guard.table else spark.read.format("iceberg")
    if batch.rows == "added" and before is not None:
        reader = reader.option("start-snapshot-id", before).option("end-snapshot-id", snapshot)
    else:
        reader = reader.option("versionAsOf", snapshot)
    try:
        rows = reader.table(quoted_name(guard.table)) if guard.table else reader.load(path)
    except SCAN_ERRORS as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        raise SourceError(
            f"{guard.name}: Spark cannot read Iceberg: name the jar iceberg-spark-runtime-4.1_2.13 in `spark.jars` of the file"
            " that LAKEHOUSE_SPARK_CONF names"
        ) from None
    return rows.limit(0) if batch.rows == "none" else rows


def _iceberg(guard: GuardSpec, path: str) -> IcebergTable:
    return IcebergTable(path, guard.label)


def removed_keys(spark: SparkSession, path: str, batch: VersionBatch, key: Sequence[str]) -> DataFrame:
    """Return the keys of the rows that a version deleted or replaced, by the change data feed."""
    changes = read_feed(spark, path, batch.version).where(F.col("_change_type").isin("delete", "update_preimage"))
    return changes.select(*map(identifier, key)).distinct()


def read_feed(spark: SparkSession, path: str, version: int) -> DataFrame:
    """Return the rows of a version's change data feed."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return reader.option("startingVersion", version).option("endingVersion", version).load(path)


def write_log_of_added_files(path: str, version: int, folder: str) -> None:
    """Write a Delta log into ``folder`` whose only files are those that one version added, each by its own address.

    So Spark reads these files and no other, with the table's own schema, column mapping and partition values.
    """
    write_log_of_files(path, version, changed_files(path, version)[0], folder)


def changed_files(path: str, version: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the actions by which a version added and removed files, without those that only move rows."""
    actions = [json.loads(line) for line in _read_commit(path, version).splitlines() if line.strip()]
    added, removed = (
        [action[kind] for action in actions if kind in action and action[kind].get("dataChange", True)]
        for kind in ("add", "remove")
    )
    return added, removed


def write_log_of_files(path: str, version: int, added: Sequence[Mapping[str, Any]], folder: str) -> None:
    """Write a Delta log into ``folder`` with these files of the table, and the columns of a version."""
    lines: list[dict[str, Any]] = [{"commitInfo": {"timestamp": 0, "operation": "WRITE", "operationParameters": {}}}]
    lines += _protocol_and_metadata(path, version)
    lines += [{"add": {**add, "path": _address(path, add["path"])}} for add in added]
    filesystem, base = open_filesystem(f"{folder}/_delta_log")
    filesystem.create_dir(base, recursive=True)
    with filesystem.open_output_stream(f"{base}/{0:020d}.json") as file:
        file.write(("\n".join(json.dumps(line) for line in lines) + "\n").encode())


def added_row_count(guard: GuardSpec, path: str, batch: VersionBatch) -> int:
    """Return the rows of a batch by the statistics of its files; 0 where they are not known. No JVM."""
    if guard.format == "iceberg":
        counts = batch.rows in ("table", "added")
        return _iceberg(guard, path).row_count(batch.version, added=batch.rows == "added") if counts else 0
    if batch.rows == "table":
        return delta.snapshot(path, batch.version).rows or 0
    if batch.rows in ("none", "window", "outside"):
        return 0
    actions = [json.loads(line) for line in _read_commit(path, batch.version).splitlines() if line.strip()]
    added = [action["add"] for action in actions if "add" in action]
    return sum(int(json.loads(add.get("stats") or "{}").get("numRecords") or 0) for add in added)


def _read_commit(path: str, version: int) -> str:
    filesystem, base = open_filesystem(f"{path}/_delta_log")
    try:
        with filesystem.open_input_stream(f"{base}/{version:020d}.json") as file:
            return file.read().decode()
    except OSError as error:
        raise SourceError(f"the commit of version {version} cannot be read: {type(error).__name__}") from None


def _protocol_and_metadata(path: str, version: int) -> list[dict[str, Any]]:
    table = delta.open_table(path, version)
    protocol, metadata = table.protocol(), table.metadata()
    own: dict[str, Any] = {"minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version}
    features = {"readerFeatures": protocol.reader_features, "writerFeatures": protocol.writer_features}
    own |= {name: list(values) for name, values in features.items() if values}
    configuration = {name: value for name, value in metadata.configuration.items() if value and name not in OF_WRITERS}
    described = {
        "id": str(metadata.id), "format": {"provider": "parquet", "options": {}}, "schemaString": table.schema().to_json(),
        "partitionColumns": list(metadata.partition_columns), "configuration": configuration, "createdTime": 0,
    }  # fmt: skip
    return [{"protocol": own}, {"metaData": described}]


def _address(path: str, file: str) -> str:
    """Return the whole address of a file, which the log has relative to the table and URL-encoded."""
    if "://" in file or file.startswith(("/", "file:")):
        return file
    return f"{path}/{file}" if is_url(path) else f"file://{quote(path)}/{file}"
