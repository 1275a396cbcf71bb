"""A guarded table by its name in Spark's catalog, and names that lead nowhere.

Belongs here: name → location. Does not: judging its versions (test_versions), or the sensor (orchestration/test_guards).
"""

import pytest
from pydantic import ValidationError

from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.errors import SourceError
from lakehouse_assets.guards.catalog import located_by_log, with_table_path
from lakehouse_assets.guards.observed_table import GuardState, observe
from lakehouse_assets_tests.guards.guarded_orders import ForeignOrders, judge, orders_guard, verdicts


@pytest.mark.exhaustive(seconds=40)
def test_a_table_of_a_catalog_is_judged_and_published_by_name(spark, settings, tmp_path):
    table = ForeignOrders(spark, tmp_path / "a b" / "theirs")
    table.append((1, 10.0, "DE"))
    spark.sql("CREATE SCHEMA shop")
    try:
        spark.sql(f"CREATE TABLE shop.orders USING delta LOCATION '{table.path}'")
        guard = orders_guard("", table="shop.orders", publish={"to": "shop.clean"})
        assert located_by_log(guard, GuardState.read(settings, guard)) is None
        assert verdicts(judge(spark, settings, guard)) == [(0, "published", 1)]
        table.append((2, 20.0, "DE"))
        state = GuardState.read(settings, guard)
        at_path = located_by_log(guard, state)
        assert at_path is not None and at_path.path == str(table.path)
        batch = observe(at_path, settings, state).batch
        assert batch is not None and batch.version == 1
        assert verdicts(judge(spark, settings, guard)) == [(1, "published", 1)]
        assert sorted(row.id for row in spark.table("shop.clean").collect()) == [1, 2]
        spark.sql("DROP TABLE shop.clean")
        assert [row[:2] for row in verdicts(judge(spark, settings, guard))] == [(1, "published")]
        assert sorted(row.id for row in spark.table("shop.clean").collect()) == [1, 2]
        spark.sql("CREATE TABLE shop.files (id bigint) USING parquet")
        with pytest.raises(SourceError, match="table of parquet, and not of Delta"):
            with_table_path(orders_guard("", table="shop.files"), spark)
    finally:
        spark.sql("DROP SCHEMA shop CASCADE")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere.orders", "Spark's catalog has no table of this name"),
        ("no_orders", "Spark's catalog has no table of this name"),
        ("far.shop.orders", "the catalog cannot be asked"),
    ],
)
def test_an_unknown_name_and_an_unreachable_catalog_are_errors_of_this_guard(name, text, spark):
    spark.conf.set("spark.sql.catalog.far", "org.example.NoSuchCatalog")
    try:
        with pytest.raises(SourceError, match=f"orders: table: {name}: {text}"):
            with_table_path(orders_guard("", table=name), spark)
    finally:
        spark.conf.unset("spark.sql.catalog.far")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere.orders", "Spark's catalog has no table of this name"),
        ("plain_orders", "the table of this name in Spark's catalog is not of Iceberg"),
        ("far.shop.orders", "the catalog cannot be asked"),
        ("o'r`ders", "Spark's catalog has no table of this name"),
    ],
)
def test_the_same_of_a_table_that_should_be_of_iceberg(name, text, spark):
    spark.conf.set("spark.sql.catalog.far", "org.example.NoSuchCatalog")
    spark.sql("CREATE TABLE plain_orders (id bigint) USING parquet")
    try:
        with pytest.raises(SourceError, match=f"orders: table: {name}: {text}"):
            with_table_path(orders_guard("", table=name, format="iceberg"), spark)
    finally:
        spark.conf.unset("spark.sql.catalog.far")
        spark.sql("DROP TABLE plain_orders")


@pytest.mark.parametrize("keys", [{}, {"path": "a", "table": "b.c"}])
def test_a_guard_has_a_path_or_a_name(keys):
    with pytest.raises(ValidationError, match="either `path`, a folder or URL, or `table`"):
        GuardSpec.model_validate({"name": "orders", **keys})
