"""Rows of a few windows, read without Delta's log in Spark: the rows that Delta gives."""

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse_assets.storage import delta_reads, delta_writes
from lakehouse_assets.storage.delta_reads import read_windows

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
