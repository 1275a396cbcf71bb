"""Few rows merged without Spark: the table, its changes and its statistics are what Spark's MERGE makes, or Spark merges."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable
from pyspark.sql import functions as F

from lakehouse_assets.contracts.total_order import total_order
from lakehouse_assets.storage import delta, delta_writes, small_merges
from lakehouse_assets.storage.small_merges import merge_few
from lakehouse_assets_tests.storage.test_small_writes import make_table, rows_of

SCHEMA = (
    "id bigint, `Ky.z-ä` string, at timestamp, f float, d double, yes boolean, price decimal(20,4), day date, raw binary,"
    " p_extracted_at timestamp, extraction_seq int, _content_hash string"
)
KEY, ORDER = ("id", "Ky.z-ä"), total_order("at")
AT = datetime(2024, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
TEXTS = ["", "a", "it's `x`", "\U0001f600" * 40, "\U0010ffff" * 40, "z" * 500, "ä", "A"]
MOMENTS = [
    None, AT, AT + timedelta(microseconds=1), datetime(2, 1, 1, tzinfo=UTC), datetime(1700, 1, 1, tzinfo=UTC),
    datetime(9998, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]  # fmt: skip
CDF = {"delta.enableChangeDataFeed": "true"}


def random_rows(rng: Random, count: int, seq: int) -> list[tuple]:
    """Rows of distinct keys, with NULLs, ties of the order, and values at the ends of their types."""
    keys = [(n, text) for n in (-(2**63), 0, 1, 2**63 - 1) for text in TEXTS]
    return [
        (
            *key,
            rng.choice(MOMENTS),
            rng.choice([None, 0.1, float("inf"), -0.0]),
            rng.choice([None, 2.5e300, float("nan"), -float("inf"), 0.0]),
            rng.choice([None, True, False]),
            rng.choice([None, Decimal("1234567890123456.7891"), Decimal("-0.0001")]),
            rng.choice([None, date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)]),
            rng.choice([None, b"", b"\x00\xff"]),
            AT + timedelta(hours=rng.randrange(3)),
            seq,
            rng.choice(["0a", "0b", "ff"]),
        )
        for key in rng.sample(keys, count)
    ]


def merge_by_spark(spark, frame, path: str, deleting: bool = False) -> None:
    def order(prefix: str):
        return F.struct(*[F.col(f"{prefix}.{name}") for name in ORDER])

    same = "t.id = s.id AND t.`Ky.z-ä` = s.`Ky.z-ä`"
    merge, is_newer = SparkTable.forPath(spark, path).alias("t").merge(frame.alias("s"), same), order("s") > order("t")
    if deleting:
        merge = merge.whenMatchedDelete(condition=is_newer & F.col("s._gone"))
    added = "NOT s._gone" if deleting else None
    merge.whenMatchedUpdateAll(condition=is_newer).whenNotMatchedInsertAll(condition=added).execute()


def literal_of(value):
    """As `lit`, which takes days before 1582 for those of another calendar."""
    if isinstance(value, date):
        kind, text = ("timestamp", f"{value.isoformat()}Z") if isinstance(value, datetime) else ("date", value.isoformat())
        return F.lit(text).cast(kind)
    return F.lit(value)


def changes_of(spark, path: str, version: int) -> list[str]:
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version).load(path)
    return sorted(str(tuple(row)) for row in feed.drop("_commit_version", "_commit_timestamp").collect())


@pytest.mark.parametrize("deleting", [False, True], ids=["upserts", "deletions"])
def test_gives_what_a_merge_of_spark_gives(spark, tmp_path: Path, deleting) -> None:
    """Rows, changes and properties, over merges in turn; and Spark finds each row by the statistics of its files."""
    rng, deletes = Random(0), "_gone" if deleting else None
    ours, theirs = (make_table(spark, tmp_path / name, SCHEMA, **CDF) for name in "ab")
    first = spark.createDataFrame(random_rows(rng, 20, 0), SCHEMA)
    for path in (ours, theirs):
        first.write.format("delta").mode("append").save(path)
    for seq in range(3):
        frame = spark.createDataFrame(random_rows(rng, 12, seq), SCHEMA)
        if deleting:
            frame = frame.withColumn("_gone", F.expr("coalesce(yes, false)"))
        with delta_writes.tag_commits(spark, '{"step": "x"}'):
            assert merge_few(frame, ours, 12, KEY, ORDER, deletes)
        merge_by_spark(spark, frame, theirs, deleting)
        assert rows_of(spark, ours) == rows_of(spark, theirs)
        assert changes_of(spark, ours, seq + 2) == changes_of(spark, theirs, seq + 2)
    assert delta.properties(ours) == delta.properties(theirs) and delta.schema_types(ours) == delta.schema_types(theirs)
    entry = DeltaTable(ours).history(1)[0]
    assert entry["operation"] == "MERGE" and entry["userMetadata"] == '{"step": "x"}'
    table = spark.read.format("delta").load(ours)
    rows = table.collect()
    by_hash = DeltaTable(ours).to_pyarrow_table(filters=[("_content_hash", "=", "ff")])
    assert 0 < by_hash.num_rows == [row["_content_hash"] for row in rows].count("ff")
    assert delta.snapshot(ours).rows == len(rows)
    for name in ("id", "Ky.z-ä", "at", "d", "day", "_content_hash"):
        texts = [str(row[name]) for row in rows]
        for value in {str(row[name]): row[name] for row in rows if row[name] is not None}.values():
            expected = texts.count(str(value))
            assert table.where(F.col(f"`{name}`") == literal_of(value)).count() == expected, (name, value)


def test_keys_and_orders_that_are_equal_change_nothing(spark, tmp_path: Path) -> None:
    path = make_table(spark, tmp_path / "t", SCHEMA, **CDF)
    frame = spark.createDataFrame(random_rows(Random(5), 10, 0), SCHEMA)
    for number in range(2):
        with delta_writes.tag_commits(spark, f"{number}"):
            assert merge_few(frame, path, 10, KEY, ORDER)
        assert DeltaTable(path).history(1)[0]["userMetadata"] == f"{number}", "a commit names what it applies"
    before = rows_of(spark, path)
    assert len(before) == 10
    older = frame.withColumn("at", F.lit(None).cast("timestamp")).withColumn("yes", F.lit(True))
    assert merge_few(older.where("at IS NOT NULL"), path, 10, KEY, ORDER)
    assert rows_of(spark, path) == before


def test_files_from_before_a_column_have_it_as_null(spark, tmp_path: Path) -> None:
    path = make_table(spark, tmp_path / "t", "id bigint, at timestamp", **CDF)
    spark.createDataFrame([(1, AT), (2, AT)], "id bigint, at timestamp").write.format("delta").mode("append").save(path)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (more string)")
    frame = spark.createDataFrame([(2, AT + timedelta(1), "x")], "id bigint, at timestamp, more string")
    assert merge_few(frame, path, 1, ["id"], ["at"])
    assert [row.more for row in spark.read.format("delta").load(path).orderBy("id").collect()] == [None, "x"]


@pytest.mark.parametrize(
    ("schema", "stored", "key", "order"),
    [
        ("id double, at timestamp", (1.0, AT), ["id"], ["at"]),
        ("id decimal(10,2), at timestamp", (Decimal("1.00"), AT), ["id"], ["at"]),
        ("id bigint, at double", (1, 1.0), ["id"], ["at"]),
        ("id bigint, at timestamp", (1, AT), ["ID"], ["at"]),
        ("id bigint, at timestamp", (1, AT), ["id"], ["absent"]),
        ("id bigint, at timestamp, v array<string>", (1, AT, ["x"]), ["id"], ["at"]),
        ("id bigint, at timestamp, v struct<x:int>", (1, AT, {"x": 1}), ["id"], ["at"]),
        ("id bigint, at timestamp_ntz", (1, AT.replace(tzinfo=None)), ["id"], ["at"]),
    ],
)
def test_spark_merges_what_the_two_may_read_otherwise(spark, tmp_path: Path, schema, stored, key, order) -> None:
    """Of the rows to merge, and of those that the table has already."""
    path = make_table(spark, tmp_path / "t", schema, **CDF)
    frame = spark.createDataFrame([stored], schema)
    frame.write.format("delta").mode("append").save(path)
    columns = [F.lit(None).cast(kind).alias(name) for name, kind in frame.dtypes if name not in ("id", "at")]
    assert not merge_few(frame.select("id", "at", *columns), path, 1, key, order)
    assert not merge_few(frame, path, 1, key, order)
    assert delta.version(path) == 1


def test_spark_merges_into_tables_that_are_not_plain_or_large(spark, tmp_path: Path, monkeypatch) -> None:
    frame = spark.createDataFrame([(1, AT, "x")], "id bigint, at timestamp, t string")
    schema = "id bigint, at timestamp, t string"
    plain = make_table(spark, tmp_path / "plain", schema)
    frame.write.format("delta").mode("append").save(plain)
    partitioned = str(tmp_path / "partitioned")
    frame.write.format("delta").partitionBy("t").save(partitioned)
    constrained = make_table(spark, tmp_path / "constrained", schema)
    spark.sql(f"ALTER TABLE delta.`{constrained}` ADD CONSTRAINT positive CHECK (id > 0)")
    vectors = make_table(spark, tmp_path / "vectors", schema, **{"delta.enableDeletionVectors": "true"})

    def merged(path: str, rows=frame, count: int = 1) -> bool:
        return merge_few(rows, path, count, ["id"], ["at"])

    assert not merged(plain, count=small_merges.MOST_MERGED + 1) and not merged(str(tmp_path / "absent"))
    assert not merged(plain, frame.withColumn("more", F.lit(1))) and not merged(plain, frame.select("id", "at"))
    assert not any(map(merged, (partitioned, constrained, vectors)))
    clone = str(tmp_path / "clone")
    spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{plain}`")
    assert not merged(clone)
    staged = str(tmp_path / "staged")
    frame.write.parquet(staged)
    for name in ("MOST_TABLE_ROWS", "MOST_FILES", "MOST_BYTES", "MOST_UNPACKED_BYTES", "MOST_STAGED_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(small_merges, name, 0)
            assert not merged(plain, spark.read.parquet(staged)), name
    assert merged(plain)


def test_files_that_cannot_have_a_key_are_neither_counted_nor_read(spark, tmp_path: Path, monkeypatch) -> None:
    """The table may be of any size: what is near the keys has to be small."""
    schema = "id bigint, at timestamp, t string"
    ours, theirs = (make_table(spark, tmp_path / name, schema, **CDF) for name in "ab")
    for first in (0, 10, 20):
        rows = spark.createDataFrame([(first + n, AT, "old") for n in range(3)], schema).coalesce(1)
        for path in (ours, theirs):
            rows.write.format("delta").mode("append").save(path)
    before = {Path(file).name: Path(file).stat().st_mtime_ns for file in DeltaTable(ours).file_uris()}
    frame = spark.createDataFrame([(n, AT + timedelta(1), "new") for n in (9, 10, 12)], schema)
    for name in ("MOST_TABLE_ROWS", "MOST_FILES"):
        monkeypatch.setattr(small_merges, name, 3 if name == "MOST_TABLE_ROWS" else 1)
    assert not merge_few(frame, ours, 3, ["id"], ["at"])

    def near(files) -> list[bool]:
        return [
            most >= 9 and least <= 12
            for least, most in zip(*(files[f"{end}.id"].to_pylist() for end in ("min", "max")), strict=True)
        ]

    assert merge_few(frame, ours, 3, ["id"], ["at"], near=near)
    merge = SparkTable.forPath(spark, theirs).alias("t").merge(frame.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert rows_of(spark, ours) == rows_of(spark, theirs) and changes_of(spark, ours, 4) == changes_of(spark, theirs, 4)
    assert len({Path(file).name for file in DeltaTable(ours).file_uris()} & before.keys()) == 2


def test_rows_are_not_collected_for_a_table_whose_keys_are_too_large(spark, tmp_path: Path, monkeypatch) -> None:
    path = make_table(spark, tmp_path / "t", "id bigint, t string, at timestamp")
    rows = spark.range(1000).selectExpr("id", "repeat(md5(string(id)), 10) AS t", "timestamp_seconds(id) AS at")
    rows.coalesce(1).write.format("delta").mode("append").save(path)
    frame = rows.where("id = 1").limit(1)
    monkeypatch.setattr(type(frame), "toArrow", lambda _: pytest.fail("collected"))
    for key, most in ((["id"], 16_000), (["t"], 300_000)):
        monkeypatch.setattr(small_merges, "MOST_UNPACKED_BYTES", most - 1)
        assert not merge_few(frame, path, 1, key, ["at"])
    monkeypatch.undo()
    assert merge_few(frame, path, 1, ["t"], ["at"])


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.sql.parquet.outputTimestampType": "INT96"},
        {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"},
    ],
)
def test_spark_merges_into_files_that_only_spark_reads_right(spark, tmp_path: Path, conf) -> None:
    path = make_table(spark, tmp_path / "t", "id bigint, at timestamp")
    frame = spark.createDataFrame([(1, datetime(1500, 1, 1, tzinfo=UTC))], "id bigint, at timestamp")
    before = {name: spark.conf.get(name) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        frame.write.format("delta").mode("append").save(path)
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert not merge_few(frame, path, 1, ["id"], ["at"])


def test_a_table_that_another_program_changes_meanwhile_is_left_to_spark_or_stops_the_commit(spark, tmp_path, monkeypatch):
    """Before the transaction begins, and after it."""
    path, begin = make_table(spark, tmp_path / "t", "id bigint, at timestamp"), small_merges._begin
    frame = spark.createDataFrame([(1, AT)], "id bigint, at timestamp")

    def change() -> None:
        spark.sql(f"UPDATE delta.`{path}` SET id = id + 1")

    frame.write.format("delta").mode("append").save(path)
    with monkeypatch.context() as patch:
        patch.setattr(small_merges, "_begin", lambda *arguments: [change(), begin(*arguments)][1])
        assert not merge_few(frame, path, 1, ["id"], ["at"])
    with monkeypatch.context() as patch:
        patch.setattr(small_merges, "_begin", lambda *arguments: [begin(*arguments), change()][0])
        with pytest.raises(Exception, match="DELTA_CONCURRENT"):
            merge_few(frame, path, 1, ["id"], ["at"])
    assert [row["id"] for row in spark.read.format("delta").load(path).collect()] == [3]


def test_bytes_that_are_no_text_are_copied_and_compared_as_spark_does(spark, tmp_path):
    """By their bytes: in a key, in the order, and elsewhere."""
    path = make_table(spark, tmp_path / "t", "id string, at timestamp, t string", **CDF)

    def row(key: str, text: str):
        columns = [F.expr(f"cast(x'{value}' as string)").alias(name) for name, value in (("id", key), ("t", text))]
        return spark.range(1).select(columns[0], F.lit(AT).alias("at"), columns[1])

    row("e9", "e9").union(row("ff", "80")).write.format("delta").mode("append").save(path)
    for key, text in (("e9", "ff"), ("ff", "7f"), ("fe", "c3")):
        assert merge_few(row(key, text), path, 1, ["id"], ["t"])
    rows = spark.read.format("delta").load(path).selectExpr("hex(id)", "hex(t)").collect()
    assert sorted(map(tuple, rows)) == [("E9", "FF"), ("FE", "C3"), ("FF", "80")]
    first, second = "cast(x'ff' as string) > cast(x'e9' as string)", "cast(x'7f' as string) > cast(x'80' as string)"
    assert tuple(spark.sql(f"SELECT {first}, {second}").first()) == (True, False)


def test_moments_that_python_does_not_have_are_merged_or_left_to_spark(spark, tmp_path):
    """As keys, in the order, and as values."""
    far = "timestamp_micros(300000000000000000 + {})"
    for number, (key, at) in enumerate(((far, far), (far, "timestamp_micros({})"), ("timestamp_micros({})", far))):
        path = make_table(spark, tmp_path / f"{number}", "id timestamp, at timestamp", **CDF)
        rows = [
            spark.range(1).selectExpr(f"{key.format(each)} AS id", f"{at.format(each + more)} AS at")
            for each, more in ((1, 0), (2, 5))
        ]
        rows[0].union(rows[1]).write.format("delta").mode("append").save(path)
        newer = spark.range(1).selectExpr(f"{key.format(1)} AS id", f"{at.format(9)} AS at")
        before = delta.version(path)
        if not merge_few(newer, path, 1, ["id"], ["at"]):
            assert delta.version(path) == before
            continue
        table = spark.read.format("delta").load(path)
        assert table.where(f"at = {at.format(9)}").count() == 1 == table.where(f"at = {at.format(7)}").count()
        assert table.count() == 2
