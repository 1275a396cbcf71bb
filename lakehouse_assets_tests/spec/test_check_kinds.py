"""What each check kind says of small batches, as tables, run on real Spark: also its reference."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import TypeAdapter
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import CheckContext, RowCheck
from lakehouse_assets.checks.registry import AnyCheck, kinds

ANY = TypeAdapter(AnyCheck)
START = datetime(2024, 1, 1, tzinfo=UTC)
CONTEXT = CheckContext(("id",), "p_extracted_at", "(p_extracted_at + INTERVAL 1 DAY)", "batch", None)
NAN = float("nan")

# kind and parameters | column type | values that pass | values that fail
ROWS = [
    ({"check": "not_null"}, "string", ["a", ""], [None]),
    ({"check": "not_null"}, "double", [0.0, NAN], [None]),
    ({"check": "in_range", "min": 0, "max": 10}, "double", [0.0, 10.0, None], [-0.1, 10.1, NAN, float("inf"), float("-inf")]),
    ({"check": "in_range", "min": 0}, "double", [0.0, float("inf")], [-1.0, NAN]),
    ({"check": "in_range", "max": 5}, "int", [5, -9, None], [6]),
    ({"check": "in_range", "min": "2024-01-02T00:00:00Z"}, "timestamp", [START + timedelta(days=1), None], [START]),
    ({"check": "in_set", "values": ["a", "it's"]}, "string", ["a", "it's", None], ["A", "", "a "]),
    ({"check": "in_set", "values": [1, 2]}, "int", [1, None], [3]),
    ({"check": "matches", "pattern": "^[A-Z]{3}$"}, "string", ["JFK", None], ["jfk", "JFKX", "", "JFK\n1"]),
    ({"check": "matches", "pattern": "^a+$"}, "string", ["a" * 4096], ["a" * 4097]),
    ({"check": "length", "min": 1, "max": 3}, "string", ["a", "äöü", None], ["", "abcd"]),
    ({"check": "sql", "name": "s", "sql": "select * from batch where v > 3"}, "int", [3, None], [4]),
    (
        {"check": "sql", "name": "s", "sql": "select v from batch where v >= :window_end"},
        "timestamp",
        [START, None],
        [START + timedelta(days=1)],
    ),
    ({"check": "not_null", "where": "v2 = 1"}, "string", ["a"], [None]),
]


@pytest.mark.parametrize(("given", "kind", "passing", "failing"), ROWS, ids=lambda v: str(v)[:60])
def test_rows(given, kind, passing, failing, spark):
    check = ANY.validate_python(given if given["check"] == "sql" else {"column": "v", **given})
    assert isinstance(check, RowCheck)
    rows = [(i, value, START, 1) for i, value in enumerate([*passing, *failing])]
    frame = spark.createDataFrame(rows, f"i int, v {kind}, p_extracted_at timestamp, v2 int")
    found = frame.select("i", F.expr(check.failing(CONTEXT)).alias("bad")).orderBy("i").collect()
    assert [row["bad"] for row in found] == [False] * len(passing) + [True] * len(failing)


@pytest.mark.parametrize(
    ("given", "values", "status"),
    [
        ({"check": "not_empty"}, {"rows": 1}, "passed"),
        ({"check": "not_empty"}, {}, "failed"),
        ({"check": "row_count", "min": 2, "max": 3}, {"rows": 2}, "passed"),
        ({"check": "row_count", "min": 2, "max": 3}, {"rows": 4}, "failed"),
        ({"check": "row_count", "min": 1}, {}, "failed"),
        ({"check": "row_count", "max": 3}, {}, "passed"),
        ({"check": "unique", "columns": ["id"]}, {"duplicates": 0}, "passed"),
        ({"check": "unique", "columns": ["id"]}, {"duplicates": 2}, "failed"),
        ({"check": "freshness", "column": "t", "max_age": "6h"}, {"age_seconds": 21600.0, "newest": "x"}, "passed"),
        ({"check": "freshness", "column": "t", "max_age": "6h"}, {"age_seconds": 21601.0, "newest": "x"}, "failed"),
        ({"check": "freshness", "column": "t", "max_age": "6h"}, {}, "failed"),
    ],
    ids=str,
)
def test_batches(given, values, status):
    assert ANY.validate_python(given).judge(values, CONTEXT).status == status


def test_metrics_are_sql_that_spark_runs(spark):
    frame = spark.createDataFrame([(START + timedelta(hours=20), START)], "t timestamp, p_extracted_at timestamp")
    fresh = ANY.validate_python({"check": "freshness", "column": "t", "max_age": "6h"})
    row = frame.agg(*[F.expr(sql).alias(name) for name, sql in fresh.metrics(CONTEXT).items()]).first()
    assert row["age_seconds"] == 4 * 3600


def test_uniqueness_of_other_columns_ignores_nulls_and_does_not_look_across_windows(spark):
    rows = [(1, START), (1, START), (2, START), (None, START), (None, START), (2, START + timedelta(days=1))]
    spark.createDataFrame(rows, "v int, p_extracted_at timestamp").createOrReplaceTempView("batch")
    unique = ANY.validate_python({"check": "unique", "columns": ["v"]})
    assert [row["duplicates"] for row in spark.sql(unique.query_by_window(CONTEXT)).collect()] == [1]


def test_the_inventory():
    """Pinned, so that discovery hides nothing."""
    assert list(kinds()) == [
        "foreign_key", "freshness", "in_range", "in_set", "length", "matches", "not_empty", "not_null", "reconcile",
        "row_count", "sql", "unique",
    ]  # fmt: skip
    for kind in kinds().values():
        assert kind.summary
        assert kind.__doc__
