"""Rows of a few windows, read without Delta's log in Spark: the rows that Delta gives."""

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta, delta_reads, delta_writes
from lakehouse_assets.storage.delta_reads import read_version, read_windows

START = datetime(2024, 1, 1, tzinfo=UTC)
COLUMNS = "text string, p_extracted_at timestamp, n bigint"


@pytest.mark.parametrize("partitions", [["p_extracted_at"], []])
@pytest.mark.parametrize("folder", ["plain", "a b c=é", "with [some] {of} them*"])
def test_gives_what_delta_gives(spark, tmp_path, folder, partitions, monkeypatch):
    path, hours = str(tmp_path / folder), [START + timedelta(hours=hour, microseconds=hour) for hour in range(3)]
    for hour, moment in enumerate(hours):
        rows = [("x", moment, hour)] if hour else [("it's", moment, 1), (None, moment, 2)]
        schema = COLUMNS if hour < 2 else f"{COLUMNS}, late string"
        cells = [(*row, "z") for row in rows] if hour == 2 else rows
        delta_writes.append(spark.createDataFrame(cells, schema), path, partition_by=partitions)
    delta_writes.append(spark.createDataFrame([("again", hours[0], 3)], COLUMNS), path)
    by_delta = spark.read.format("delta").load(path)

    def rows_of(frame, *moments):
        return sorted((tuple(row) for row in frame.where(frame["p_extracted_at"].isin(list(moments))).collect()), key=repr)

    for moments in (hours[:1], hours[:2], hours[1:], hours):
        read = read_windows(spark, path, moments)
        assert read.schema == by_delta.schema
        assert rows_of(read, *moments) == rows_of(by_delta, *moments)
    assert rows_of(read_windows(spark, path, [START + timedelta(days=9)]), *hours) == []
    assert read_windows(spark, path, []).count() == 0
    for limit in ("MOST_FILES", "MOST_WINDOWS"):
        with monkeypatch.context() as patched:
            patched.setattr(delta_reads, limit, 1)
            assert rows_of(read_windows(spark, path, hours), *hours) == rows_of(by_delta, *hours)
    if folder == "plain":
        spark.sql(f"DELETE FROM delta.`{path}` WHERE text = 'again'")
        assert len(rows_of(read_windows(spark, path, hours[:1]), hours[0])) == 2


def test_names_that_sql_would_read_otherwise_are_columns(spark, tmp_path):
    """A file's header is anybody's text: where it lacks one, its first values are the names."""
    path, schema = str(tmp_path / "t"), "`ann@example.com` string, `a``b` string, `1+1` string, p_extracted_at timestamp"
    delta_writes.append(spark.createDataFrame([("x", "y", "z", START)], schema), path)
    read = read_windows(spark, path, [START])
    assert read.columns == ["ann@example.com", "a`b", "1+1", "p_extracted_at"]
    assert [tuple(row)[:3] for row in read.collect()] == [("x", "y", "z")]


def test_a_shallow_clone_has_the_rows_of_its_source(spark, tmp_path):
    source, clone = str(tmp_path / "source"), str(tmp_path / "clone")
    delta_writes.append(spark.createDataFrame([("x", START, 1)], COLUMNS), source)
    spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{source}`")
    delta_writes.append(spark.createDataFrame([("y", START, 2)], COLUMNS), clone)
    for rows in (read_version(spark, clone, 1), read_windows(spark, clone, [START])):
        assert sorted(row["n"] for row in rows.collect()) == [1, 2]
    assert sorted(delta.read_arrow(clone)["n"].to_pylist()) == [1, 2]


def test_a_version_is_what_delta_gives(spark, tmp_path, monkeypatch):
    path, other = str(tmp_path / "t"), str(tmp_path / "by text")
    for number in range(3):
        delta_writes.append(spark.createDataFrame([("x", START, number)], COLUMNS), path)
        delta_writes.append(spark.createDataFrame([("x", START, number)], COLUMNS), other, partition_by=["text"])
    delta_writes.append(spark.createDataFrame([("x", START, 3, "z")], f"{COLUMNS}, late string"), path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE n = 0")
    by_files = []
    monkeypatch.setattr(delta_reads, "_by_names", recorded(delta_reads._by_names, by_files))
    for limit in (delta.FEW_ROWS, 1):
        monkeypatch.setattr(delta, "FEW_ROWS", limit)
        for table, version in [(path, 0), (path, 2), (path, 3), (path, 4), (other, 2)]:
            expected = spark.read.format("delta").option("versionAsOf", version).load(table)
            read = read_version(spark, table, version)
            assert read.schema == expected.schema
            assert sorted(map(str, read.collect())) == sorted(map(str, expected.collect()))
    assert len(by_files) == 5  # four by their files, and the one row of the first version again


def recorded(function, calls):
    def call(*arguments):
        calls.append(arguments)
        return function(*arguments)

    return call


def test_a_version_that_is_gone_is_an_error_of_spark(spark, tmp_path):
    path = str(tmp_path / "t")
    delta_writes.append(spark.createDataFrame([("x", START, 1)], COLUMNS), path)
    for number, table in [(7, path), (0, str(tmp_path / "none"))]:
        with pytest.raises(SCAN_ERRORS):
            read_version(spark, table, number).collect()
    for file in tmp_path.glob("t/*.parquet"):
        file.unlink()
    with pytest.raises(SCAN_ERRORS):
        read_version(spark, path, 0).collect()
