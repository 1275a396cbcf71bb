"""Parquet files made a table's own: every reader finds what Spark would have written, and nothing of the staged columns."""

import json
import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import parquet
from pyspark.sql import functions as F

from lakehouse_assets.storage import delta, delta_reads
from lakehouse_assets.storage.adopted_files import adopt_files, statistics_of
from lakehouse_assets.storage.session_properties import set_session_property
from lakehouse_assets_tests.storage.test_small_writes import AT, COLUMNS, ROWS, make_table, rows_of

SMALL = "n bigint, t string"
METADATA = '{"step": "x"}'


def staged_files(frame, folder: Path) -> list[str]:
    """Files of these rows as a staging has them, with columns that no table has."""
    flagged = frame.withColumns({"_reasons": F.array(F.lit("secret")), "_clean": F.lit(True)})
    flagged.write.mode("overwrite").parquet(str(folder))
    return sorted(map(str, folder.glob("*.parquet")))


def adopt(frame, folder: Path, path: str, rows: int | None = None) -> bool:
    files = staged_files(frame, folder)
    return adopt_files(files, frame.schema.jsonValue()["fields"], path, frame.count() if rows is None else rows, METADATA)


@pytest.fixture
def table(spark, tmp_path: Path) -> str:
    return make_table(spark, tmp_path / "table", SMALL)


def test_gives_the_rows_that_spark_would_write(spark, tmp_path: Path) -> None:
    frame = spark.createDataFrame(ROWS, COLUMNS).repartition(2)
    ours, theirs = (make_table(spark, tmp_path / name, **{"delta.enableChangeDataFeed": "true"}) for name in "ab")
    for number in range(2):
        folder = tmp_path / f"staged {number}"
        assert adopt(frame, folder, ours)
        for file in folder.glob("*.parquet"):
            file.unlink()
        frame.write.format("delta").mode("append").save(theirs)
        assert rows_of(spark, ours) == rows_of(spark, theirs)
    assert spark.read.format("delta").load(ours).columns == frame.columns
    assert delta.snapshot(ours).rows == 6
    assert delta.properties(ours) == delta.properties(theirs) and delta.schema_types(ours) == delta.schema_types(theirs)
    entry = DeltaTable(ours).history(1)[0]
    assert (entry["operation"], entry["userMetadata"]) == ("WRITE", METADATA)
    feeds = [
        spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path)
        for path in (ours, theirs)
    ]
    changes = [sorted(str(tuple(row)) for row in feed.drop("_commit_timestamp").collect()) for feed in feeds]
    assert changes[0] == changes[1]
    for read in (delta.read_arrow, lambda path: delta_reads.read_version(spark, path, 2).toArrow()):
        tables = [read(path).sort_by([("i", "ascending"), ("n", "ascending")]) for path in (ours, theirs)]
        assert tables[0].to_pylist() == tables[1].to_pylist()


def test_statistics_are_those_of_spark_or_wider(spark, tmp_path: Path) -> None:
    frame = spark.createDataFrame(ROWS, COLUMNS).coalesce(1)
    ours, theirs = make_table(spark, tmp_path / "a"), make_table(spark, tmp_path / "b")
    assert adopt(frame, tmp_path / "staged", ours)
    frame.write.format("delta").mode("append").save(theirs)
    (mine,), (sparks,) = (delta.row_counts(path).to_pylist() for path in (ours, theirs))
    for name in ("n", "i", "s", "b", "price", "day", "at", "text"):
        assert mine[f"null_count.{name}"] == sparks[f"null_count.{name}"] == 1
        assert mine[f"min.{name}"] == sparks[f"min.{name}"], name
        step = timedelta(milliseconds=1) if name == "at" else None
        most, expected = mine[f"max.{name}"], sparks[f"max.{name}"]
        assert most in ((expected, expected + step) if step else (expected,)), name
    assert mine.get("max.d") is None and mine.get("max.f") is None, "of NaN, Parquet's bounds say nothing"


def test_rows_are_found_by_the_bounds_of_their_files(spark, tmp_path: Path) -> None:
    schema, texts = "n bigint, d double, t string, at timestamp, yes boolean", ["\U0010ffff" * 40, "z" * 500, "", "a" * 40]
    rows = [(2**62 + n, [float("nan"), -float("inf"), -0.0, 1e-300][n], texts[n], AT, n == 1) for n in range(4)]
    path = make_table(spark, tmp_path / "t", schema)
    for number, row in enumerate(rows):
        assert adopt(spark.createDataFrame([row], schema), tmp_path / f"staged{number}", path)
    table = spark.read.format("delta").load(path)
    for index, row in enumerate(rows):
        for name, value in zip(["n", "d", "t", "at"], row[:4], strict=True):
            assert row[0] in [each["n"] for each in table.where(F.col(name) == F.lit(value)).collect()], (index, name)
            assert table.where(F.col(name) >= F.lit(value)).where(F.col("n") == row[0]).count() == 1
    spark.sql(f"MERGE INTO delta.`{path}` t USING (SELECT {2**62} AS n) s ON t.n = s.n WHEN MATCHED THEN DELETE")
    assert table.count() == 3


def test_bounds_of_long_texts_and_of_several_parts(tmp_path: Path) -> None:
    path, long = tmp_path / "f.parquet", "a" * 31
    texts = ["b", f"{long}zz", None, None, f"{long}é\U0010ffffx", "c" * 32]
    structs = [{"t": 900 + number} for number in range(6)]
    parquet.write_table(
        pa.table({"t": texts, "n": [3, 1, None, None, 2, 5], "s": structs, "s.t": [1] * 6}), path, row_group_size=2
    )
    kinds = {"t": "string", "n": "long", "s.t": "long", "absent": "long"}
    assert json.loads(statistics_of(parquet.read_metadata(path), kinds)) == {
        "numRecords": 6,
        "minValues": {"t": f"{long}z", "n": 1},
        "maxValues": {"t": "c" * 32, "n": 5},
        "nullCount": {"t": 2, "n": 2},
    }
    for greatest, bound in ((f"{long}zz", f"{long}z\U0010ffff"), (f"{long}z\U0010ffff", None)):
        parquet.write_table(pa.table({"t": [greatest]}), path)
        assert json.loads(statistics_of(parquet.read_metadata(path), kinds))["maxValues"].get("t") == bound


@pytest.mark.parametrize(("micros", "bound"), [(999_000, "9999-12-31T23:59:59.999Z"), (999_999, None)])
def test_the_end_of_time_has_no_bound_after_it(tmp_path: Path, micros, bound) -> None:
    path, end = tmp_path / "f.parquet", datetime(9999, 12, 31, 23, 59, 59, micros, tzinfo=UTC)
    parquet.write_table(pa.table({"t": pa.array([end], pa.timestamp("us", "UTC"))}), path)
    assert json.loads(statistics_of(parquet.read_metadata(path), {"t": "timestamp"}))["maxValues"].get("t") == bound


@pytest.mark.parametrize("text", ["\U00020000", "\U0010ffff", "\U0001f600", '\u00e9"\\'])
def test_bounds_of_any_text_are_read_as_they_are(spark, tmp_path: Path, table: str, text: str) -> None:
    assert adopt(spark.createDataFrame([(1, text)], SMALL), tmp_path / "staged", table)
    for _ in range(2):
        (row,) = delta.row_counts(table).to_pylist()
        assert row["min.t"] == row["max.t"] == text
        DeltaTable(table).create_checkpoint()


def test_days_of_the_julian_calendar_are_left_to_spark(spark, tmp_path: Path) -> None:
    path, schema = make_table(spark, tmp_path / "t", "day date"), "day date"
    frame = spark.createDataFrame([(date(1500, 1, 1),)], schema)
    with set_session_property(spark, "spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY"):
        assert not adopt(frame, tmp_path / "staged", path)
    assert adopt(frame, tmp_path / "staged again", path)


def test_files_of_another_group_are_left_to_spark(spark, tmp_path: Path, table: str, monkeypatch) -> None:
    Path(table).chmod(0o2755)
    frame = spark.createDataFrame([(1, "x")], SMALL)
    original = Path.stat

    def of_another_group(path: Path, **options: bool) -> os.stat_result:
        values = list(original(path, **options))
        values[5] += path.suffix == ".parquet"
        return os.stat_result(values)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", of_another_group)
        assert not adopt(frame, tmp_path / "staged", table)
    assert adopt(frame, tmp_path / "staged", table)


def test_the_tables_own_choice_of_columns_has_statistics(spark, tmp_path: Path) -> None:
    path = make_table(spark, tmp_path / "t", SMALL, **{"delta.dataSkippingStatsColumns": "t"})
    assert adopt(spark.createDataFrame([(1, "x")], SMALL), tmp_path / "staged", path)
    (add,) = [
        json.loads(line)["add"]
        for line in Path(path, "_delta_log", f"{1:020d}.json").read_text().splitlines()
        if line.startswith('{"add"')
    ]
    assert json.loads(add["stats"]) == {
        "numRecords": 1, "minValues": {"t": "x"}, "maxValues": {"t": "x"}, "nullCount": {"t": 0},
    }  # fmt: skip


def test_other_rows_and_other_tables_are_left_to_spark(spark, tmp_path: Path, table: str) -> None:
    frame = spark.createDataFrame([(1, "x")], SMALL)
    partitioned = str(tmp_path / "partitioned")
    frame.write.format("delta").partitionBy("t").save(partitioned)
    constrained = make_table(spark, tmp_path / "constrained", SMALL)
    spark.sql(f"ALTER TABLE delta.`{constrained}` ADD CONSTRAINT positive CHECK (n > 0)")
    clustered = make_table(spark, tmp_path / "clustered", SMALL)
    spark.sql(f"ALTER TABLE delta.`{clustered}` CLUSTER BY (n)")
    mapped = make_table(spark, tmp_path / "mapped", SMALL, **{"delta.columnMapping.mode": "name"})
    required = str(tmp_path / "required")
    spark.sql(f"CREATE TABLE delta.`{required}` (n BIGINT NOT NULL, t STRING) USING delta")
    sized = make_table(spark, tmp_path / "sized", SMALL, **{"delta.autoOptimize.autoCompact": "true"})
    others = (partitioned, constrained, clustered, mapped, required, sized)
    cases = {
        "absent": (frame, str(tmp_path / "absent"), 1),
        "more rows": (frame, table, 2),
        "another column": (frame.withColumn("more", F.lit(1)), table, 1),
        "fewer columns": (frame.select("n"), table, 1),
        "another type": (frame.withColumn("n", F.col("n").cast("int")), table, 1),
        **{Path(path).name: (frame, path, 1) for path in others},
    }
    before = {path: (delta.version(path), names(path)) for path in (table, *others)}
    assert [name for name, (rows, path, count) in cases.items() if adopt(rows, tmp_path / "staged", path, count)] == []
    assert not adopt_files([], frame.schema.jsonValue()["fields"], table, 0, None)
    assert {path: (delta.version(path), names(path)) for path in before} == before


def names(path: str) -> list[str]:
    return sorted(each.name for each in Path(path).iterdir())


def test_a_disk_without_second_names_is_left_to_spark(spark, tmp_path: Path, table: str, monkeypatch) -> None:
    before, link, calls = names(table), os.link, []

    def refuse(source: str, target: str) -> None:
        calls.append(target)
        if len(calls) > 1:
            raise OSError("EXDEV")
        link(source, target)

    monkeypatch.setattr(os, "link", refuse)
    frame = spark.createDataFrame([(1, "x"), (2, "y")], SMALL).repartitionByRange(2, "n")
    assert not adopt(frame, tmp_path / "staged", table)
    assert len(calls) == 2 and names(table) == before and delta.version(table) == 0


def test_a_column_that_the_table_may_get_later_is_not_brought_in(spark, tmp_path: Path, table: str) -> None:
    files = staged_files(spark.createDataFrame([(1, "x", 2)], f"{SMALL}, later int"), tmp_path / "staged")
    columns = spark.createDataFrame([], SMALL).schema.jsonValue()["fields"]
    assert not adopt_files(files, columns, table, 1, None)
    assert delta.version(table) == 0


def test_a_damaged_file_is_left_to_spark(spark, tmp_path: Path, table: str) -> None:
    frame = spark.createDataFrame([(1, "x")], SMALL)
    files = staged_files(frame, tmp_path / "staged")
    Path(files[0]).write_bytes(b"PAR1")
    before = names(table)
    assert not adopt_files(files, frame.schema.jsonValue()["fields"], table, 1, None)
    assert names(table) == before
