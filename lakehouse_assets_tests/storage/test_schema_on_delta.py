"""What Delta itself does with schemas, asked of the pinned version: what the decisions rest on, and why silver is rewritten.

Belongs here: enforcement, evolution, type widening, ALTER TABLE, on real tables. Does not: the project's own steps (layers).
"""

import pytest
from delta.tables import DeltaTable
from deltalake import DeltaTable as LightTable
from deltalake.exceptions import DeltaProtocolError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.spark_types import parse_type
from lakehouse_assets.decisions.schema.comparison import delta_widens
from lakehouse_assets.storage import delta, delta_writes
from lakehouse_assets_tests.decisions.schema.cases import ATOMS


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "table")


def write(spark, path, sql: str, mode: str = "append", **options: str) -> None:
    spark.sql(sql).write.format("delta").mode(mode).options(**options).save(path)


def alter(spark, path, what: str) -> None:
    spark.sql(f"ALTER TABLE delta.{identifier(path)} {what}")


def read(spark, path, version: int | None = None) -> list[dict]:
    reader = spark.read.format("delta")
    reader = reader.option("versionAsOf", version) if version is not None else reader
    return [row.asDict(recursive=True) for row in reader.load(path).collect()]


@pytest.mark.exhaustive(seconds=60)
def test_the_widenings_are_those_that_delta_does(spark, tmp_path):
    """Every pair of types: one table for each old type, with a column for each new one."""
    widened, wanted = set(), set()
    for index, old in enumerate(ATOMS):
        path = str(tmp_path / f"t{index}")
        columns = ", ".join(f"c{n} {old}" for n, _ in enumerate(ATOMS))
        features = {"delta.enableTypeWidening": "true", "delta.feature.timestampNtz": "supported"}
        spark.createDataFrame([], columns).write.format("delta").options(**features).save(path)
        for n, new in enumerate(ATOMS):
            if new == old:
                continue
            if delta_widens(parse_type(old), parse_type(new)):
                wanted.add((old, new))
            try:
                alter(spark, path, f"CHANGE COLUMN c{n} TYPE {new}")
                widened.add((old, new))
            except PySparkException:
                pass
    assert widened == wanted
    assert len(widened) >= 20


def test_a_schema_is_enforced_unless_a_write_overrides_it(spark, path):
    write(spark, path, "SELECT CAST(1 AS BIGINT) AS id, 'a' AS name, named_struct('x', 1) AS s")
    for wrong in (
        "SELECT CAST(2 AS BIGINT) AS id, 'b' AS name, named_struct('x', 2) AS s, 1.0D AS amount",
        "SELECT CAST(2 AS BIGINT) AS id, 'b' AS name, 'no struct' AS s",
        "SELECT CAST(2 AS BIGINT) AS id, 'b' AS name, 'B' AS Name",
    ):
        with pytest.raises(PySparkException):
            write(spark, path, wrong)
    assert delta.version(path) == 0
    write(spark, path, "SELECT CAST(2 AS BIGINT) AS id")
    assert {row["id"]: row["name"] for row in read(spark, path)} == {1: "a", 2: None}
    # New columns at the end, nested ones at the end of their struct; nothing but this write is evolved.
    more = "SELECT CAST(3 AS BIGINT) AS id, 'c' AS name, 2.5D AS amount, named_struct('y', 'n', 'x', 3) AS s"
    write(spark, path, more, mergeSchema="true")
    assert delta.schema_types(path) == [
        ("id", "bigint"), ("name", "string"), ("s", "struct<x: int, y: string>"), ("amount", "double")
    ]  # fmt: skip
    assert {row["id"]: row["s"] for row in read(spark, path)}[3] == {"x": 3, "y": "n"}
    with pytest.raises(PySparkException):
        write(spark, path, "SELECT CAST(4 AS BIGINT) AS id, 1 AS another")


@pytest.mark.exhaustive(seconds=8)
def test_merge_schema_changes_types_only_with_widening(spark, tmp_path):
    def after(name: str, old: str, new: str, widening: str) -> str:
        path = str(tmp_path / f"{name}-{widening}")
        features = {"delta.enableTypeWidening": widening, "delta.feature.timestampNtz": "supported"}
        write(spark, path, f"SELECT CAST(NULL AS {old}) AS c", **features)
        try:
            write(spark, path, f"SELECT CAST(NULL AS {new}) AS c", mergeSchema="true")
        except (PySparkException, Py4JJavaError):
            return "refused"
        return dict(delta.schema_types(path))["c"]

    assert after("a", "tinyint", "smallint", "false") == "smallint"
    assert after("b", "smallint", "int", "false") == "int"
    assert after("c", "int", "bigint", "false") == "refused"
    assert after("d", "int", "bigint", "true") == "bigint"
    assert after("e", "float", "double", "true") == "double"
    assert after("f", "decimal(10,2)", "decimal(12,4)", "true") == "decimal(12,4)"
    assert after("g", "bigint", "string", "true") == "refused"
    assert after("h", "date", "timestamp_ntz", "false") == "refused"


def test_a_table_accepts_timestamps_without_zone_after_the_feature_is_enabled(spark, path):
    write(spark, path, "SELECT 1 AS id")
    delta_writes.allow_types(spark, path, ["array<timestamp_ntz>"])
    version = delta.version(path)
    delta_writes.allow_types(spark, path, ["timestamp_ntz"])
    assert delta.version(path) == version == 1
    write(spark, path, "SELECT 2 AS id, TIMESTAMP_NTZ '2024-01-01 00:00:00' AS at", mergeSchema="true")
    assert LightTable(path).to_pyarrow_table().num_rows == 2


def test_a_column_of_nulls_fits_any_type(spark, path):
    write(spark, path, "SELECT 1 AS id, 'a' AS name")
    write(spark, path, "SELECT 2 AS id, NULL AS name")
    assert {row["id"]: row["name"] for row in read(spark, path)} == {1: "a", 2: None}


def test_overwrite_schema_drops_retypes_and_renames(spark, path):
    write(spark, path, "SELECT 1 AS id, '7' AS amount, 'x' AS note")
    with pytest.raises(PySparkException):
        write(spark, path, "SELECT 1 AS id, 7 AS Amount, DATE '2024-01-01' AS day", mode="overwrite")
    write(spark, path, "SELECT 1 AS id, 7 AS Amount, DATE '2024-01-01' AS day", mode="overwrite", overwriteSchema="true")
    assert delta.schema_types(path) == [("id", "int"), ("Amount", "int"), ("day", "date")]
    assert read(spark, path, 0) == [{"id": 1, "amount": "7", "note": "x"}]


def test_alter_table_adds_comments_reorders_and_sets_properties_without_touching_rows(spark, path):
    write(spark, path, "SELECT 1 AS id, named_struct('x', 1) AS s")
    delta_writes.add_columns(spark, path, {"odd`name": "struct<`a.b`: int>", "amount": "decimal(10,2)"})
    assert delta.version(path) == 1
    alter(spark, path, "ADD COLUMNS (s.y STRING, first INT FIRST)")
    alter(spark, path, "CHANGE COLUMN amount COMMENT 'in EUR'")
    delta_writes.set_property(spark, path, "delta.logRetentionDuration", "interval 40 days")
    assert [name for name, _ in delta.schema_types(path)] == ["first", "id", "s", "odd`name", "amount"]
    assert read(spark, path)[0]["s"] == {"x": 1, "y": None}
    assert DeltaTable.forPath(spark, path).toDF().schema["amount"].metadata == {"comment": "in EUR"}
    assert len(spark.read.format("delta").load(path).inputFiles()) == 1


@pytest.mark.exhaustive(seconds=8)
def test_readers_without_spark_lose_renamed_columns_and_cannot_open_widened_tables(spark, tmp_path):
    """Why a rename or a wider type rewrites silver: the light reader that listings and audits use."""
    mapped, widened = str(tmp_path / "mapped"), str(tmp_path / "widened")
    write(spark, mapped, "SELECT 1 AS old")
    alter(spark, mapped, "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    alter(spark, mapped, "RENAME COLUMN old TO new")
    assert read(spark, mapped) == [{"new": 1}]
    assert LightTable(mapped).to_pyarrow_table().to_pylist() == [{"new": None}]
    alter(spark, mapped, "ADD COLUMNS (gone INT)")
    alter(spark, mapped, "DROP COLUMN gone")
    write(spark, widened, "SELECT 1 AS c")
    alter(spark, widened, "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    alter(spark, widened, "CHANGE COLUMN c TYPE BIGINT")
    assert spark.read.format("delta").load(widened).select(F.max("c")).collect()[0][0] == 1
    with pytest.raises(DeltaProtocolError, match="typeWidening"):
        LightTable(widened).to_pyarrow_table()
