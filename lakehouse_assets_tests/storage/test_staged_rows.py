"""Staged rows that Arrow reads are those that Spark reads, whether they are staged apart or not; or it reads none."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as F

from lakehouse_assets.pipeline.staging import write_once
from lakehouse_assets.storage.staged_rows import StagedBatch

SCHEMA = (
    "id bigint, small smallint, t string, at timestamp, day date, price decimal(20,4), d double, yes boolean, raw binary,"
    " _clean boolean, _newest boolean"
)
COLUMNS = ["at", "id", "small", "t", "day", "price", "d", "yes", "raw"]
AT = datetime(2024, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)


def rows_of(seq: int, clean: bool, newest: bool) -> tuple:
    values = ("ä", AT, date(1, 1, 1), Decimal("1234567890123456.7891"), float("nan"), True, b"\x00\xff")
    return (seq, -seq, *(values if seq % 3 else [None] * len(values)), clean, newest)


@pytest.mark.parametrize("apart", [False, True])
def test_arrow_reads_what_spark_reads(spark, tmp_path, apart):
    flags = [(True, True), (True, False), (False, False)] * 3
    frame = spark.createDataFrame([rows_of(n, *each) for n, each in enumerate(flags)], SCHEMA)
    staged = write_once(spark, frame, str(tmp_path / "rows of a=b"), apart=apart)
    expected = staged.where("_clean AND _newest").select(*COLUMNS).toArrow()
    read = StagedBatch(staged.inputFiles(), 9).read_newest(COLUMNS)
    assert read is not None and read.column_names == COLUMNS
    assert str(sorted(read.cast(expected.schema).to_pylist(), key=lambda row: row["id"])) == str(
        sorted(expected.to_pylist(), key=lambda row: row["id"])
    )
    assert read.num_rows == 3
    assert StagedBatch(staged.inputFiles(), 8).read_newest(COLUMNS) is None, "rows of another batch lie beside them"


@pytest.mark.parametrize("apart", [False, True])
def test_no_row_is_the_newest(spark, tmp_path, apart):
    frame = spark.createDataFrame([rows_of(1, False, False)], SCHEMA)
    staged = write_once(spark, frame, str(tmp_path / "t"), apart=apart)
    read = StagedBatch(staged.inputFiles(), 1).read_newest(COLUMNS)
    assert read is None if apart else read is not None and read.num_rows == 0


def test_files_that_only_spark_reads_right_are_left_to_it(spark, tmp_path):
    frame = spark.range(1).select("id", F.lit(AT).alias("at"), F.lit(True).alias("_clean"), F.lit(True).alias("_newest"))
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        staged = write_once(spark, frame, str(tmp_path / "t"))
    finally:
        spark.conf.set("spark.sql.parquet.outputTimestampType", before)
    assert StagedBatch(staged.inputFiles(), 1).read_newest(["id", "at"]) is None
