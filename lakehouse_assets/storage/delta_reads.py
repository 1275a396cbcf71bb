"""Rows of a few files of a Delta table, for Spark, without letting Spark read the table's log.

Belongs here: which files, and their rows. Does not: reading without a JVM (delta), or writing (delta_writes).

`deltalake` reads a log in a hundredth of a second. Spark takes half a second to a second, most of the time of a small window.
"""

import json
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.contracts.batch import WINDOW
from lakehouse_assets.object_store import is_url
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.delta_dataset import is_elsewhere
from lakehouse_assets.storage.session_properties import set_session_property
from lakehouse_assets.storage.window_files import select_files

# Above it, Spark lists files in a job of its own, unless it is told to list them one by one.
MOST_FILES = 32
LISTED_AT_ONCE = "spark.sql.sources.parallelPartitionDiscovery.threshold"
MOST_LOCAL_FILES = 256
# Of more windows, Spark reads the log.
MOST_WINDOWS = 1_000
PATTERN = re.compile(r"[\[\]{}*?\\]")


def read_windows(spark: SparkSession, path: str, starts: Collection[datetime]) -> DataFrame:
    """Return the rows of these windows in the newest version, and perhaps some of other windows: the caller selects those that
    it wants.
    """
    rows = _by_files(spark, path, starts) if len(starts) <= MOST_WINDOWS else None
    if rows is not None:
        return rows
    moments = ", ".join(map(literal, sorted(starts)))
    table = spark.read.format("delta").load(path)
    return table.where(f"{WINDOW} IN ({moments})" if moments else "false")


def read_version(spark: SparkSession, path: str, version: int) -> DataFrame:
    """Return the rows of one version of a table."""
    with suppress(DeltaError, OSError):  # where Spark cannot read it either, it says so
        table = delta.open_table(path, version)
        files = delta.files_of(table)
        # Of more rows, Spark reads the log: it has the bounds by which files are left out.
        if not table.metadata().partition_columns and delta.are_few(files, delta.FEW_ROWS):
            rows = _by_names(spark, path, table, files["path"].to_pylist())
            if rows is not None:
                return rows
    return spark.read.format("delta").option("versionAsOf", version).load(path)


def _by_files(spark: SparkSession, path: str, starts: Collection[datetime]) -> DataFrame | None:
    """Return the rows of the files that may have these windows; None for a large or an unusual table."""
    table = delta.open_table(path)
    files = delta.files_of(table)
    chosen = zip(files["path"].to_pylist(), select_files(files, starts), strict=True)
    return _by_names(spark, path, table, [name for name, is_chosen in chosen if is_chosen])


def _by_names(spark: SparkSession, path: str, table: DeltaTable, names: Sequence[str]) -> DataFrame | None:
    """Return the rows of these files; None if they are many, or if the table's log says more of their rows."""
    paths, most = [f"{path}/{unquote(name)}" for name in names], MOST_FILES if is_url(path) else MOST_LOCAL_FILES
    is_plain = table.protocol().min_reader_version == 1 and not any(map(is_elsewhere, names))
    if not 0 < len(paths) <= most or not is_plain or PATTERN.search("".join(paths)):
        return None
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    with set_session_property(spark, LISTED_AT_ONCE, str(most)):
        rows = spark.read.schema(schema).option("basePath", path).parquet(*paths)
    return rows.select(*map(identifier, schema.names))
