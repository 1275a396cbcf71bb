"""Seeded readings of stated size: the same rows on every machine and in every run, as bronze or as CSV files.

Belongs here: the rows, the table's promise over them, writing them where a benchmark begins. Does not: timing.
"""

import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Cadence, Window, next_start, window_at
from lakehouse_assets.measures.typed import typed_columns
from lakehouse_assets.pipeline.extract import bronze_properties
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta_writes

SEED = 2013
# A month of 30 days that begins on no Monday: one monthly window, 30 daily or 720 hourly ones.
FIRST = datetime(2023, 6, 1, tzinfo=UTC)
COLUMNS = {
    "reading_id": "bigint",
    "read_at": "timestamp",
    "sensor": "string",
    "temperature": "double",
    "pressure": "double",
    "humidity": "double",
    "battery": "int",
    "status": "string",
    "cost": "decimal(10,2)",
}
# Twelve rules beside the built-in ones; what fails them is one row in some thousands, as it should be.
CHECKS = [
    {"check": "not_empty"},
    {"check": "not_null", "column": "sensor"},
    {"check": "not_null", "column": "read_at"},
    {"check": "not_null", "column": "cost", "severity": "warning"},
    {"check": "in_range", "column": "temperature", "min": -40, "max": 60},
    {"check": "in_range", "column": "pressure", "min": 90, "max": 110},
    {"check": "in_range", "column": "humidity", "min": 0, "max": 100},
    {"check": "in_range", "column": "battery", "min": 0, "max": 100},
    {"check": "in_range", "column": "cost", "min": 0, "max": 10000, "severity": "warning"},
    {"check": "in_set", "column": "status", "values": ["ok", "late", "check"]},
    {"check": "length", "column": "sensor", "min": 6, "max": 6},
    {"check": "matches", "column": "sensor", "pattern": "^s[0-9]{5}$"},
]
# Twelve again, all of which count something: eleven of rows, and a uniqueness of columns that are not the key.
RULES = [*CHECKS[1:], {"check": "unique", "columns": ["sensor", "read_at"]}]


def table(cadence: Cadence, path: str, checks: Sequence[Mapping[str, Any]] = CHECKS) -> TableSpec:
    """The table `readings`: nine columns of six types, twelve checks, the drift of three columns, one key."""
    return TableSpec.model_validate(
        {
            "name": "readings",
            "source": {"kind": "files", "path": path, "format": "csv", "nulls": ["NA"]},
            "extraction": {"cadence": cadence, "start": FIRST, "mode": "upsert"},
            "key": ["reading_id"],
            "last_modified": "read_at",
            "columns": COLUMNS,
            "checks": list(checks),
            "drift": {"features": ["temperature", "pressure", "humidity"]},
        }
    )


def windows(count: int, cadence: Cadence) -> list[Window]:
    """So many windows, the first of which starts at FIRST."""
    results, start = [], FIRST
    for _ in range(count):
        results.append(window_at(start, cadence))
        start = next_start(start, cadence)
    return results


def rows(spark: SparkSession, count: int, count_windows: int, cadence: Cadence, slices: int = 8) -> DataFrame:
    """`p_extracted_at` and the nine columns as strings. Every value is a hash of the seed, the column and the row's number."""
    length = int((next_start(FIRST, cadence) - FIRST).total_seconds())
    number = F.col("id")
    nth = (number * count_windows / count).cast("bigint")  # windows of equal size, one after the other
    start = F.timestamp_seconds(F.lit(int(FIRST.timestamp())) + nth * length)
    read_at = F.timestamp_seconds(F.lit(int(FIRST.timestamp())) + nth * length + _below("read_at", length))
    # One reading in 8192 is out of range, one in 8192 is no number: reasons, and rows to hold.
    wild = F.when(_below("wild", 8192) == 0, F.lit(500.0)).otherwise(F.lit(0.0))
    temperature = F.format_string("%.3f", F.lit(12.0) + F.lit(9.0) * _bell("temperature") + wild)
    values = {
        "reading_id": number.cast("string"),
        "read_at": F.date_format(read_at, "yyyy-MM-dd'T'HH:mm:ss'Z'"),
        "sensor": F.format_string("s%05d", _below("sensor", 5000)),
        "temperature": F.when(_below("text", 8192) == 0, F.lit("n/a")).otherwise(temperature),
        "pressure": F.format_string("%.3f", F.lit(101.3) + F.lit(0.8) * _bell("pressure")),
        "humidity": F.format_string("%.2f", F.lit(60.0) + F.lit(9.0) * _bell("humidity")),
        "battery": _below("battery", 101).cast("string"),
        "status": F.element_at(F.array(*map(F.lit, ("ok", "late", "check"))), (_below("status", 3) + 1).cast("int")),
        "cost": F.when(_below("free", 50) == 0, F.lit("NA")).otherwise(F.format_string("%.2f", _below("cost", 10**6) / 100)),
    }
    frame = spark.range(0, count, 1, slices)
    return frame.select(start.alias("p_extracted_at"), *[value.alias(name) for name, value in values.items()])


def _hash(name: str) -> Column:
    return F.xxhash64(F.lit(SEED), F.lit(name), F.col("id"))


def _below(name: str, end: int) -> Column:
    return F.pmod(_hash(name), F.lit(end))


def _bell(name: str) -> Column:
    """Roughly normal, mean 0, deviation 1: twelve uniform numbers would be the textbook's, four are near enough."""
    total = sum((_below(f"{name} {i}", 65536) / 65536 for i in range(4)), F.lit(0.0))
    return (total - 2.0) * (3.0**0.5)


def write_bronze(spark: SparkSession, settings: Settings, count: int, all_windows: list[Window], cadence: Cadence) -> None:
    """Bronze as `pipeline.extract` leaves it: the same columns in the same order, partitioned by window, a hash per row."""
    names = sorted(COLUMNS)
    inputs = rows(spark, count, len(all_windows), cadence)
    cells = [F.concat(F.lit(f"{name}="), F.col(name)) for name in names]
    frame = inputs.select(
        "p_extracted_at",
        F.lit(1).alias("extraction_seq"),
        F.md5(F.concat_ws("\x1f", *cells)).alias("_content_hash"),
        F.concat(F.lit("readings/"), F.date_format("p_extracted_at", "yyyy-MM-dd"), F.lit(".csv")).alias("_source_file"),
        F.array(*map(F.lit, names)).alias("_columns"),
        F.lit(None).cast("string").alias("_corrupt_record"),
        *names,
    )
    if len(all_windows) > 1:
        frame = frame.repartition("p_extracted_at")
    partitions, path = ["p_extracted_at"], settings.path("bronze", "readings")
    delta_writes.append(frame, path, partition_by=partitions, properties=bronze_properties(partitions))


def write_typed(spark: SparkSession, path: str, count: int, spec: TableSpec) -> None:
    """The rows of one month with their types, as Parquet that any Spark reads; by which batch they are stands beside them."""
    inputs = rows(spark, count, 1, "monthly")
    cells = [F.expr(column.value).alias(column.name) for column in typed_columns(spec, set(inputs.columns))]
    inputs.select(*cells, "p_extracted_at", F.lit(1).alias("extraction_seq")).write.parquet(path)


def read_all(frame: DataFrame) -> None:
    """A plain scan: every value of the nine columns is read, and next to nothing done with it."""
    frame.agg(*[F.sum(F.hash(F.col(name)).cast("bigint")) for name in COLUMNS]).collect()


def write_month(spark: SparkSession, path: Path, window: Window, count: int, begin: int) -> None:
    """So many readings as one CSV file of a month, the first with this id."""
    frame = rows(spark, count, 1, "monthly").drop("p_extracted_at")
    read_at = F.concat(F.lit(f"{window.start:%Y-%m}"), F.substring("read_at", 8, 20))
    frame = frame.withColumns({"reading_id": (F.col("reading_id").cast("bigint") + begin).cast("string"), "read_at": read_at})
    scratch = path.parent / "scratch"
    frame.write.mode("overwrite").csv(str(scratch))
    with path.open("wb") as month:
        month.write((",".join(frame.columns) + "\n").encode())
        for part in sorted(scratch.glob("*.csv")):
            month.write(part.read_bytes())
    shutil.rmtree(scratch)


def write_wide(spark: SparkSession, path: str, count: int, each: int) -> None:
    """Three kinds of columns, so many of each: whole numbers `n0`, …, numbers `x0`, … and texts `t0`, …; all without NULL."""
    kinds = {
        "n": lambda name: _below(name, 1000).cast("int"),
        "x": _bell,
        "t": lambda name: F.format_string("t%03d", _below(name, 1000)),
    }
    cells = [make(f"{kind}{i}").alias(f"{kind}{i}") for kind, make in kinds.items() for i in range(each)]
    frame = spark.range(0, count, 1, 8)
    batch = F.timestamp_seconds(F.lit(int(FIRST.timestamp()))).alias("p_extracted_at")
    frame.select(*cells, batch, F.lit(1).alias("extraction_seq")).write.parquet(path)


def records(all_windows: list[Window], count: int, spec: TableSpec) -> list[ExtractionRecord]:
    """What the log of extractions would say of that bronze."""
    ends = [-(-nth * count // len(all_windows)) for nth in range(len(all_windows) + 1)]
    columns = tuple(sorted(COLUMNS))
    return [
        ExtractionRecord(spec.name, window.start, 1, "seeded", end - begin, columns, 0, "bench", window.end)
        for window, begin, end in zip(all_windows, ends, ends[1:], strict=False)
    ]


def write_csv(spark: SparkSession, hourly: Path, daily: Path, count: int, hours: int) -> None:
    """The same rows twice: a file an hour in ``hourly``, and all of them as the month's one file in ``whole``."""
    scratch = hourly.parent / "scratch"
    frame = rows(spark, count, hours, "hourly").withColumn("hour", F.date_format("p_extracted_at", "yyyy-MM-dd'T'HH"))
    frame = frame.drop("p_extracted_at").repartition("hour")
    frame.write.mode("overwrite").partitionBy("hour").option("header", True).csv(str(scratch))
    hourly.mkdir(parents=True, exist_ok=True)
    daily.mkdir(parents=True, exist_ok=True)
    with (daily / f"{FIRST:%Y-%m}.csv").open("wb") as month:
        for nth in range(hours):
            key = f"{FIRST + timedelta(hours=nth):%Y-%m-%dT%H}"
            (part,) = (scratch / f"hour={key}").glob("*.csv")
            header, _, body = part.read_bytes().partition(b"\n")
            month.write(header + b"\n" + body if nth == 0 else body)
            part.replace(hourly / f"{key}.csv")
    shutil.rmtree(scratch)
