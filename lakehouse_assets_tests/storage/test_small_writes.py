"""Few rows written without Spark: the table is what Spark would have made of it, or Spark writes."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from lakehouse_assets.storage import delta, delta_writes, small_writes
from lakehouse_assets.storage.small_writes import write_few

COLUMNS = (
    "text string, n bigint, i int, s smallint, b byte, f float, d double, yes boolean, price decimal(15,4), day date,"
    " at timestamp, raw binary, list array<struct<x:int,y:string>>, map map<string,array<double>>, st struct<a:struct<b:date>>"
)
AT = datetime(2024, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
ROWS = [
    ("it's \U0001f600", 2**62, 1, 2, 3, 0.1, 2.5e300, True, Decimal("12345678.1234"), date(1, 1, 1), AT, b"\x00\xff",
     [{"x": None, "y": ""}], {"k": [1.5, None]}, {"a": {"b": date(9999, 12, 31)}}),
    (None,) * 15,
    ("", -1, 0, 0, 0, float("inf"), -0.0, False, Decimal("-0.0001"), date(2024, 2, 29), datetime(1700, 1, 1, tzinfo=UTC), b"",
     [], {}, {"a": None}),
]  # fmt: skip


def rows_of(spark, path: str) -> list[str]:
    return sorted(str(tuple(row)) for row in spark.read.format("delta").load(path).collect())


def make_table(spark, path: Path, schema: str = COLUMNS, **options: str) -> str:
    spark.createDataFrame([], schema).write.format("delta").options(**options).save(str(path))
    return str(path)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_gives_the_rows_that_spark_would_write(spark, tmp_path: Path, mode) -> None:
    frame = spark.createDataFrame(ROWS, COLUMNS)
    ours, theirs = (make_table(spark, tmp_path / name, **{"delta.enableChangeDataFeed": "true"}) for name in "ab")
    for _ in range(2):
        assert write_few(frame, ours, 3, mode, '{"step": "x"}')
        frame.write.format("delta").mode(mode).save(theirs)
        assert rows_of(spark, ours) == rows_of(spark, theirs)
    assert delta.snapshot(ours).rows == (6 if mode == "append" else 3)
    assert delta.properties(ours) == delta.properties(theirs) and delta.schema_types(ours) == delta.schema_types(theirs)
    entry = DeltaTable(ours).history(1)[0]
    assert entry["operation"] == "WRITE" and entry["userMetadata"] == '{"step": "x"}'
    changes = [
        spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path)
        for path in (ours, theirs)
    ]
    kinds = [sorted(row["_change_type"] for row in feed.collect()) for feed in changes]
    assert kinds[0] == kinds[1]


def test_no_rows_empty_the_table_or_leave_it(spark, tmp_path: Path) -> None:
    path, none = make_table(spark, tmp_path / "t"), spark.createDataFrame([], COLUMNS)
    assert write_few(spark.createDataFrame(ROWS, COLUMNS), path, 3, "append", None)
    assert write_few(none, path, 0, "append", None) and len(rows_of(spark, path)) == 3
    assert write_few(none, path, 0, "overwrite", None) and rows_of(spark, path) == []


def test_spark_writes_what_may_be_another_table_then(spark, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, "x")], "n bigint, t string")
    plain = make_table(spark, tmp_path / "plain", "n bigint, t string")
    partitioned = str(tmp_path / "partitioned")
    frame.write.format("delta").partitionBy("t").save(partitioned)
    constrained = make_table(spark, tmp_path / "constrained", "n bigint, t string")
    spark.sql(f"ALTER TABLE delta.`{constrained}` ADD CONSTRAINT positive CHECK (n > 0)")
    varchar = str(tmp_path / "varchar")
    spark.sql(f"CREATE TABLE delta.`{varchar}` (n BIGINT, t VARCHAR(3)) USING delta")
    mapped = make_table(spark, tmp_path / "mapped", "n bigint, t string", **{"delta.columnMapping.mode": "name"})
    vectors = make_table(spark, tmp_path / "vectors", "n bigint, t string", **{"delta.enableDeletionVectors": "true"})
    cases = {
        "many": (frame, plain, small_writes.MOST_ROWS + 1),
        "unknown": (frame, plain, None),
        "absent": (frame, str(tmp_path / "absent"), 1),
        "another column": (frame.withColumn("more", F.lit(1)), plain, 1),
        "fewer columns": (frame.select("n"), plain, 1),
        "another order": (frame.select("t", "n"), plain, 1),
        "another case": (frame.withColumnRenamed("t", "T"), plain, 1),
        "another type": (frame.withColumn("n", F.col("n").cast("int")), plain, 1),
        **{Path(path).name: (frame, path, 1) for path in (partitioned, constrained, varchar, mapped, vectors)},
    }
    before = {path: delta.version(path) for path in (plain, partitioned, constrained, varchar, mapped, vectors)}
    assert [name for name, (rows, path, count) in cases.items() if write_few(rows, path, count, "append", None)] == []
    assert {path: delta.version(path) for path in before} == before and not delta.exists(str(tmp_path / "absent"))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("v double", float("nan")),
        ("v float", float("nan")),
        ("v struct<x:struct<y:double>>", {"x": {"y": float("nan")}}),
        ("v decimal(20,4)", Decimal("1234567890123456.7891")),
    ],
)
def test_spark_writes_values_whose_bounds_deltalake_notes_otherwise(spark, tmp_path: Path, schema, value) -> None:
    frame, path = spark.createDataFrame([(None,), (value,)], schema), make_table(spark, tmp_path / "t", schema)
    assert not write_few(frame, path, 2, "append", None)
    assert write_few(frame.where("v IS NULL"), path, 1, "append", None) or "decimal" in schema


def test_rows_are_found_by_the_bounds_of_their_files(spark, tmp_path: Path) -> None:
    """As Spark's own: extremes, texts beyond what the log has of them, and moments between two milliseconds."""
    schema, texts = "n bigint, d double, t string, at timestamp", ["\U0010ffff" * 40, "z" * 500, "", "a"]
    rows = [(2**62 + n, [float("inf"), -float("inf"), -0.0, 1e-300][n], texts[n], AT) for n in range(4)]
    path = make_table(spark, tmp_path / "t", schema)
    for row in rows:
        assert write_few(spark.createDataFrame([row], schema), path, 1, "append", None)
    table = spark.read.format("delta").load(path)
    for index, row in enumerate(rows):
        for name, value in zip(["n", "d", "t", "at"], row, strict=True):
            rows_with_it = table.where(F.col(name) == F.lit(value)).collect()
            assert row[0] in [each["n"] for each in rows_with_it], (index, name)
            assert table.where(F.col(name) >= F.lit(value)).where(F.col("n") == row[0]).count() == 1


def test_an_append_keeps_comments_and_an_overwrite_with_others_is_sparks(spark, tmp_path: Path) -> None:
    frame, path = spark.createDataFrame([(1,)], "n bigint"), make_table(spark, tmp_path / "t", "n bigint")
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN n COMMENT 'kPa'")
    assert write_few(frame, path, 1, "append", None)
    assert delta.column_comments(path) == {"n": "kPa"}
    assert not write_few(frame, path, 1, "overwrite", None)
    commented = frame.select(F.col("n").alias("n", metadata={"comment": "kPa"}))
    assert write_few(commented, path, 1, "overwrite", None)
    assert delta.column_comments(path) == {"n": "kPa"} and rows_of(spark, path) == ["(1,)"]


def test_a_later_merge_of_spark_finds_the_rows_by_their_bounds(spark, tmp_path: Path) -> None:
    path = make_table(spark, tmp_path / "t", "n bigint, t string")
    assert write_few(spark.createDataFrame([(1, "a"), (2, "b")], "n bigint, t string"), path, 2, "append", None)
    stats = DeltaTable(path).get_add_actions(flatten=True)
    files = {name: stats[name].to_pylist() for name in ("num_records", "min.n", "max.n", "null_count.t")}
    assert files == {"num_records": [2], "min.n": [1], "max.n": [2], "null_count.t": [0]}
    spark.sql(f"MERGE INTO delta.`{path}` t USING (SELECT 2L AS n, 'c' AS t) s ON t.n = s.n WHEN MATCHED THEN UPDATE SET *")
    assert rows_of(spark, path) == ["(1, 'a')", "(2, 'c')"]
    delta_writes.append(spark.createDataFrame([(3, "d")], "n bigint, t string"), path)
    assert json.loads(DeltaTable(path).schema().to_json())["fields"][0]["name"] == "n" and len(rows_of(spark, path)) == 3
