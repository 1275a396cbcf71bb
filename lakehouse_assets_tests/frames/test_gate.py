"""A gate on frames: verdicts, rows by what becomes of them, one reading, and what is refused before anything is read."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from lakehouse_assets import Gate
from lakehouse_assets.errors import ConfigError, EnvironmentMissing, RefusedError, SourceError
from lakehouse_assets.frames import session, staging_folder

RULES = {
    "name": "orders",
    "key": ["id"],
    "last_modified": "at",
    "columns": {"id": "bigint", "amount": "double", "at": "timestamp"},
    "checks": [
        {"check": "in_range", "column": "amount", "min": 0},
        {"check": "row_count", "min": 2, "max": 1000, "severity": "warning"},
        {"check": "sql", "name": "no_torn_order", "sql": "select id from batch group by id having count(*) > 3"},
    ],
}
ROWS = "id bigint, amount double, at timestamp, _id string, p_extracted_at string"


@pytest.fixture
def orders(spark):
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    rows = [(1, 5.0, noon, "a", "x"), (1, 6.0, noon.replace(hour=13), "b", "x"), (2, -1.0, noon, "c", "x")]
    return spark.createDataFrame([*rows, (None, 1.0, noon, "d", "x"), (3, 7.0, noon, "e", "x")], ROWS)


def test_rows_are_divided_and_counted_by_their_flags(spark, orders):
    spark.createDataFrame([(9,)], "x int").createOrReplaceTempView("batch")
    before = spark.conf.get("spark.sql.session.timeZone")
    with Gate.from_dict(RULES).check(orders, window="2024-05-01") as result:
        counts = result.counts
        assert (counts.rows_in, counts.rows_published, counts.rows_superseded, counts.rows_quarantined) == (5, 2, 1, 2)
        assert result.verdict == "published_with_warnings"
        assert not result.blocked
        assert [reason.check for reason in result.reasons] == ["key_not_null", "in_range_amount"]
        assert sorted(map(tuple, result.clean.select("id", "amount", "_id").collect())) == [(1, 6.0, "b"), (3, 7.0, "e")]
        assert result.clean.dtypes == orders.dtypes
        assert [row["_id"] for row in result.superseded.collect()] == ["a"]
        bad = {row["_id"]: [each["check"] for each in row["_reasons"]] for row in result.quarantined.collect()}
        assert bad == {"c": ["in_range_amount"], "d": ["key_not_null"]}
        assert "in\\_range\\_amount" in result.markdown
        # The caller's views and settings are as they were.
        assert spark.table("batch").columns == ["x"]
        assert spark.conf.get("spark.sql.session.timeZone") == before
        assert len(staging_folder._KEPT) == 1
    assert staging_folder._KEPT == []
    with pytest.raises(RefusedError, match="closed"):
        _ = result.clean
