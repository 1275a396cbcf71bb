"""Rows of a few windows of bronze, for Spark, without letting Spark read the table's log.

Belongs here: which files, and their rows. Does not: reading without a JVM (delta), or writing (delta_writes).

`deltalake` reads a log in a hundredth of a second, Spark in half a second to a second: most of the time of a small window.
"""

import json
import re
from collections.abc import Collection
from datetime import datetime
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.contracts.batch import WINDOW
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.window_files import select_files

# Above it, Spark lists files in a job of its own.
MOST_FILES = 32
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


def _by_files(spark: SparkSession, path: str, starts: Collection[datetime]) -> DataFrame | None:
    """Return the rows of the files that may have these windows; None for a large or an unusual table."""
    table = delta.open_table(path)
    files = delta.files_of(table)
    chosen = zip(files["path"].to_pylist(), select_files(files, starts), strict=True)
    names = [f"{path}/{unquote(name)}" for name, is_chosen in chosen if is_chosen]
    if not 0 < len(names) <= MOST_FILES or table.protocol().min_reader_version > 1 or PATTERN.search("".join(names)):
        return None
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    rows = spark.read.schema(schema).option("basePath", path).parquet(*names)
    return rows.select(*map(identifier, schema.names))
