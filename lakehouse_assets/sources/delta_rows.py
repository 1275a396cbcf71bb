"""Rows of a foreign Delta table's versions, read by Spark: the files that commits added, the change data feed, a whole version.

Belongs here: versions → typed rows with their version and change. Does not: windows, or the log (storage/foreign_delta).
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.errors import SourceError
from lakehouse_assets.object_store import spark_location
from lakehouse_assets.sources.base import small_frame
from lakehouse_assets.sources.file_scans import SCAN_OPTIONS, SCHEME, file_key_column, list_files_on_driver
from lakehouse_assets.storage.foreign_commit import AddedFile, Schema
from lakehouse_assets.storage.foreign_delta import ForeignTable
from lakehouse_assets.storage.session_properties import set_session_property

# Beside a table's own columns.
VERSION, CHANGE = "_lakehouse_version", "_lakehouse_change"
KIND, KEY = "_lakehouse_kind", "_lakehouse_key"
END_VERSION = "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable"
PHYSICAL = "delta.columnMapping.physicalName"
# As Delta reads its own files: dates before 1582 as they stand there.
SCAN = SCAN_OPTIONS | {"mergeSchema": "false", "datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}


def whole_rows(spark: SparkSession, table: ForeignTable, version: int) -> DataFrame:
    """Return all rows of a version, each as an insert of it."""
    rows = spark.read.format("delta").option("versionAsOf", version).load(spark_path(table.path))
    return rows.select("*", F.lit(version).cast("bigint").alias(VERSION), F.lit("insert").alias(CHANGE))


def added_rows(spark: SparkSession, table: ForeignTable, files: Mapping[int, Sequence[AddedFile]], schema: Schema) -> DataFrame:
    """Return the rows of these files by version, with the columns of ``schema``, each as an insert. It reads no other file.

    A file with a deletion vector must not be among them. Raises SourceError if a file is gone.
    """
    located = {_whole_path(table, file.path): (version, file) for version, some in files.items() for file in some}
    if missing := table.missing_files([file.path for _, file in located.values()]):
        versions = sorted({version for version, file in located.values() if file.path in missing})
        raise SourceError(
            f"{table.label}: {len(missing)} data files that version {versions[0]} added are gone: VACUUM removed them before"
            " they were read"
        )
    kinds = T.StructType.fromJson({"type": "struct", "fields": [dict(field) for field in schema.fields]})
    physical = {field.name: _physical_name(field) for field in kinds}
    stored = T.StructType([_physical(field) for field in kinds if field.name not in schema.partitions])
    with list_files_on_driver(spark):
        raw = spark.read.options(**SCAN).schema(stored).parquet(*located)
    rows = raw.withColumn(KEY, file_key_column(raw.metadataColumn("_metadata").getField("file_path")))
    types = {
        KEY: pa.string(),
        VERSION: pa.int64(),
        **{f"_lakehouse_p{i}": pa.string() for i, _ in enumerate(schema.partitions)},
    }
    # Spark reports a path without `.` and empty names in it.
    keys = {path: posixpath.normpath(re.sub(SCHEME, "", path)) for path in located}
    cells = [
        (keys[path], version, *[file.partition.get(physical[name]) or None for name in schema.partitions])
        for path, (version, file) in located.items()
    ]
    joined = rows.join(F.broadcast(small_frame(spark, types, cells)), KEY, "left")
    stray = F.raise_error(F.concat(F.lit("a row of a file that was not asked for: "), F.col(KEY))).cast("bigint")
    logical = [_logical(field, physical[field.name], schema.partitions) for field in kinds]
    return joined.select(*logical, F.coalesce(VERSION, stray).alias(VERSION), F.lit("insert").alias(CHANGE))


def changed_rows(
    spark: SparkSession, table: ForeignTable, first: int, last: int, schema: Schema, key: Sequence[Sequence[str]]
) -> DataFrame:
    """Return the rows that these versions inserted, updated (their new values) and deleted, by the change data feed. ``key``:
    the names that each of its columns has or had, the newest first.

    An update that changes the key is a deletion of the old one as well.
    """
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    with set_session_property(spark, END_VERSION, "endVersion"):
        feed = reader.option("startingVersion", first).option("endingVersion", last).load(spark_path(table.path))
    columns = [F.col(identifier(field["name"])) for field in schema.fields]
    version, kind = F.col("_commit_version").alias(VERSION), F.col("_change_type")
    change = F.when(kind.isin("update_preimage", "delete"), "delete").when(kind == "insert", "insert").otherwise("update")
    rows = feed.select(*columns, version, change.alias(CHANGE), kind.alias(KIND))
    new = rows.where(F.col(KIND) != "update_preimage").drop(KIND)
    names = {name.lower(): name for name in (field["name"] for field in schema.fields)}
    present_names = [[names[name.lower()] for name in spellings if name.lower() in names] for spellings in key]
    if not key or not all(present_names):
        return new
    own = [spellings[0] for spellings in present_names]
    present = rows.where(F.col(KIND).isin("update_postimage", "insert"))
    present = present.select(
        F.col(VERSION).alias("_lakehouse_v"), *[F.col(identifier(n)).alias(f"_lakehouse_k{i}") for i, n in enumerate(own)]
    )
    before = rows.where(F.col(KIND) == "update_preimage").drop(KIND)
    same: Column = F.col(VERSION) == F.col("_lakehouse_v")
    for index, name in enumerate(own):
        same = same & F.col(identifier(name)).eqNullSafe(F.col(f"_lakehouse_k{index}"))
    return new.unionByName(before.join(present.distinct(), same, "left_anti"))


def spark_path(path: str) -> str:
    """Return the table's path for Spark, which knows S3 by one scheme."""
    return spark_location(path)


def _whole_path(table: ForeignTable, path: str) -> str:
    is_whole = re.match(r"[a-z][a-z0-9+.-]*:/|/", path, re.IGNORECASE)
    return spark_path(path) if is_whole else f"{spark_path(table.path)}/{path}"


def _physical_name(field: T.StructField) -> str:
    return str((field.metadata or {}).get(PHYSICAL, field.name))


def _physical(field: T.StructField) -> T.StructField:
    """Return the field as the files name it."""
    return T.StructField(_physical_name(field), _physical_type(field.dataType), True)


def _physical_type(kind: Any) -> Any:
    if isinstance(kind, T.StructType):
        return T.StructType([_physical(field) for field in kind])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_physical_type(kind.elementType), True)
    if isinstance(kind, T.MapType):
        return T.MapType(_physical_type(kind.keyType), _physical_type(kind.valueType), True)
    return kind


def _logical(field: T.StructField, physical: str, partitions: Sequence[str]) -> Column:
    """Return the column under its own name; the names within a structure follow from their order."""
    if field.name in partitions:
        return F.col(f"_lakehouse_p{list(partitions).index(field.name)}").cast(field.dataType).alias(field.name)
    value = F.col(identifier(physical))
    nested = isinstance(field.dataType, T.StructType | T.ArrayType | T.MapType)
    return (value.cast(_nullable(field.dataType)) if nested else value).alias(field.name)


def _nullable(kind: Any) -> Any:
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(field.name, _nullable(field.dataType), True) for field in kind])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, T.MapType):
        return T.MapType(_nullable(kind.keyType), _nullable(kind.valueType), True)
    return kind
