"""What a layout means for a MERGE, and for a reader without Spark: `python -m benchmarks.layout`.

A table of 100 days, in three layouts: none, partitioned by day, clustered by day. The files are made as small as makes a
hundred of them, as a large table has them. Measured once each: the seconds of a MERGE by key (half of its rows are new, half
change rows of the last day), the data files that it rewrites, and the bytes that `deltalake` reads of the files of one day.
"""

import shutil
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from benchmarks.lab import Lab
from lakehouse_assets.contracts.layout import LayoutSpec
from lakehouse_assets.pipeline.silver_write import SILVER_PROPERTIES
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.layout import create

ROWS, DAYS, FIRST = 1_000_000, 100, date(2024, 1, 1)
LAYOUTS = {
    "none": None,
    "partition_by: [day]": LayoutSpec(partition_by=("day",)),
    "cluster_by: [day]": LayoutSpec(cluster_by=("day",)),
}
FILE_SIZE = "spark.databricks.delta.optimize.maxFileSize"


def readings(spark: SparkSession, first: int, rows: int) -> DataFrame:
    """Rows with a key that says nothing of the day, in no order."""
    ids = spark.range(first, first + rows).repartition(8, F.hash("id"))
    days = F.least(F.lit(DAYS - 1), (F.col("id") * DAYS / ROWS).cast("int"))
    return ids.select(
        F.md5(F.col("id").cast("string")).alias("key"), F.date_add(F.lit(FIRST), days).alias("day"), F.rand(1).alias("value")
    )


def measure(spark: SparkSession, path: str, layout: LayoutSpec | None) -> dict[str, object]:
    """Make the table, MERGE a day, read a day."""
    rows = readings(spark, 0, ROWS)
    create(rows.limit(0), path, SILVER_PROPERTIES, layout)
    delta.append(rows, path)
    spark.conf.set(FILE_SIZE, str(max(1, sum(delta.row_counts(path)["size_bytes"].to_pylist()) // DAYS)))
    DeltaTable.forPath(spark, path).optimize().executeCompaction()
    files = delta.row_counts(path).num_rows
    per_day = ROWS // DAYS
    batch = readings(spark, ROWS - per_day // 2, per_day).cache()
    batch.count()
    began = time.monotonic()
    merge = DeltaTable.forPath(spark, path).alias("t").merge(batch.alias("s"), "t.key = s.key")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    seconds = time.monotonic() - began
    metrics = DeltaTable.forPath(spark, path).history(1).first()["operationMetrics"]
    day = FIRST + timedelta(days=DAYS // 2)
    read = _bytes_of_day(path, day)
    return {
        "files": files, "MERGE s": round(seconds, 1), "rewritten files": metrics["numTargetFilesRemoved"],
        "rows copied": metrics["numTargetRowsCopied"], "MB read of one day": round(read / 1e6, 2),
    }  # fmt: skip


def _bytes_of_day(path: str, day: date) -> int:
    """Return the bytes of the files that a reader cannot skip, by partitions or by Delta's statistics."""
    files = delta.row_counts(path).to_pylist()

    def may_have(file: dict) -> bool:
        if "partition.day" in file:
            return file["partition.day"] == day
        return file["min.day"] <= day <= file["max.day"]

    return sum(file["size_bytes"] for file in files if may_have(file))


out = Console(width=240, highlight=False)


def main() -> int:
    """Measure every layout and print a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), memory="2g")
        for name, layout in LAYOUTS.items():
            path = str(Path(folder) / "table")
            out.print(name, measure(lab.spark, path, layout))
            shutil.rmtree(path)
        lab.spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
