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

from lakehouse_assets.storage import delta
from lakehouse_assets.storage.window_files import select_files

# Above it, Spark lists files in a job of its own.
MOST_FILES = 32
PATTERN = re.compile(r"[\[\]{}*?\\]")


def read_windows(spark: SparkSession, path: str, starts: Collection[datetime]) -> DataFrame:
    """Return the rows of the newest version of these windows; where files have several windows, or of a large or an unusual
    table, perhaps more: the caller selects the rows that it wants.
    """
    table = delta.open_table(path)
    files = delta.files_of(table)
    chosen = zip(files["path"].to_pylist(), select_files(files, starts), strict=True)
    names = [f"{path}/{unquote(name)}" for name, is_chosen in chosen if is_chosen]
    if not 0 < len(names) <= MOST_FILES or table.protocol().min_reader_version > 1 or PATTERN.search("".join(names)):
        return spark.read.format("delta").load(path)
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    rows = spark.read.schema(schema).option("basePath", path).parquet(*names)
    return rows.select(*schema.names)
