"""Rows of a few partitions of a Delta table, for Spark, without letting Spark read the table's log.

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

# Above it, Spark lists files in a job of its own.
MOST_FILES = 32
PATTERN = re.compile(r"[\[\]{}*?\\]")


def read_windows(spark: SparkSession, path: str, column: str, starts: Collection[datetime]) -> DataFrame:
    """Return the rows of the newest version in which the partition ``column`` is one of these moments; of a large or an unusual
    table perhaps more: the caller selects the rows that it wants.
    """
    table = delta.open_table(path)
    files = delta.files_of(table)
    wanted = {delta.utc(start) for start in starts}
    names = [
        f"{path}/{unquote(name)}"
        for name, start in zip(files["path"].to_pylist(), files[f"partition.{column}"].to_pylist(), strict=True)
        if start is not None and delta.utc(start) in wanted
    ]
    if not 0 < len(names) <= MOST_FILES or table.protocol().min_reader_version > 1 or PATTERN.search("".join(names)):
        return spark.read.format("delta").load(path)
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    rows = spark.read.schema(schema).option("basePath", path).parquet(*names)
    return rows.select(*schema.names)
