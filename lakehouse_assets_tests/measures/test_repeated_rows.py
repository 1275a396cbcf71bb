"""A uniqueness that reads only rows with repeated hashes finds what it finds among all rows."""

import random
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pydantic import TypeAdapter
from pyspark.sql import functions as F

from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.contracts.check_context import gold_context
from lakehouse_assets.measures import batch_numbers, repeated_rows
from lakehouse_assets.measures.batch_numbers import query_failures
from lakehouse_assets.measures.repeated_rows import select_repeated

STARTS = [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
SCHEMA = (
    "p_extracted_at timestamp, extraction_seq int, _clean boolean, d double, f float, n bigint, t string, price decimal(9,2),"
    " day date, at timestamp, local timestamp_ntz, yes boolean, raw binary, list array<double>"
)
VALUES = {
    "d": [0.0, -0.0, float("nan"), 1.5, None],
    "f": [0.0, -0.0, float("nan"), 2.5],
    "n": [1, -1, 2**63 - 1],
    "t": ["a", "A", "ä", "", None],
    "price": [Decimal("1.10"), Decimal("1.1"), Decimal("-3.00")],
    "day": [date(2024, 1, 1), date(1500, 1, 1)],
    "at": [datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)],
    "local": [datetime.fromisoformat(text) for text in ("2024-01-01T05:00", "2024-01-01T06:00")],
    "yes": [True, False],
    "raw": [b"", b"\x00", b"\xff"],
    "list": [[0.0], [-0.0], [float("nan")]],
}


def rows_of(seed, count):
    drawn = random.Random(seed)
    return [
        (drawn.choice(STARTS), 1, drawn.random() < 0.9, *[drawn.choice(values) for values in VALUES.values()])
        for _ in range(count)
    ]


def measure(staged, columns, where=None):
    check = TypeAdapter(AnyCheck).validate_python({"check": "unique", "columns": columns} | ({"where": where} if where else {}))
    batches, errors = [(start, 1) for start in STARTS], {}
    counts = dict.fromkeys(batches, 50)
    metrics = query_failures(staged, [check], gold_context(()), batches, errors, counts=counts, personal=False)
    assert errors == {}
    return {batch: values[check.id] for batch, values in metrics.items()}


@pytest.mark.parametrize("seed", range(3))
def test_the_same_values_are_repeated(spark, monkeypatch, seed):
    staged = spark.createDataFrame(rows_of(seed, 50), SCHEMA).persist()
    drawn, chosen = random.Random(seed), []
    select = repeated_rows.select_repeated

    def count_chosen(rows, columns, count):
        chosen.append(select(rows, columns, count))
        return chosen[-1]

    monkeypatch.setattr(batch_numbers, "select_repeated", count_chosen)
    subsets = [
        ["d"],
        ["f", "t"],
        ["list", "n"],
        [*VALUES][:-1],
        *(drawn.sample([*VALUES], drawn.randrange(2, 5)) for _ in range(4)),
    ]
    for columns in subsets:
        where = drawn.choice([None, "yes", "n > 0"]) if len(columns) < 9 else None
        monkeypatch.setattr(repeated_rows, "LEAST_ROWS", 10**9)
        expected = measure(staged, columns, where)
        monkeypatch.setattr(repeated_rows, "LEAST_ROWS", 0)
        assert measure(staged, columns, where) == expected, (columns, where)
    staged.unpersist()
    assert any(each is None for each in chosen)


def test_only_rows_that_share_their_values_are_read(spark, monkeypatch):
    monkeypatch.setattr(repeated_rows, "LEAST_ROWS", 1)
    rows = spark.range(1000).selectExpr("id", "id DIV 2 AS pair", "if(id < 3, 1, id) AS few", f"timestamp'{STARTS[0]}' AS w")
    rows = (
        rows.withColumnRenamed("w", "p_extracted_at").withColumn("none", F.lit(None).cast("int")).withColumn("_again", F.lit(0))
    )
    assert select_repeated(rows, ["id"], 1000) is None
    assert select_repeated(rows, ["none"], 1000) is None
    few = select_repeated(rows, ["few"], 1000)
    assert few is not None and sorted(row["id"] for row in few.collect()) == [0, 1, 2]
    assert select_repeated(rows, ["pair"], 1000) is not rows
    monkeypatch.setattr(repeated_rows, "MOST_REPEATED", 499)
    assert select_repeated(rows, ["pair"], 1000) is rows, "nearly all rows would be sent to all others"
    for count in (0, repeated_rows.MOST_HASHES + 1):
        assert select_repeated(rows, ["id"], count) is rows
    collated = rows.selectExpr("*", "CAST(id AS STRING) COLLATE UTF8_LCASE AS c", "array(id) AS a")
    for columns in (["c"], ["a"], ["id", "c"], ["ID"]):
        assert select_repeated(collated, columns, 1000) is collated


def test_a_condition_that_fails_on_a_row_is_an_error_though_no_row_is_repeated(spark, monkeypatch):
    monkeypatch.setattr(repeated_rows, "LEAST_ROWS", 0)
    rows = spark.range(100).selectExpr("id AS u", "id AS n", f"timestamp'{STARTS[0]}' AS p_extracted_at", "1 AS extraction_seq")
    check = TypeAdapter(AnyCheck).validate_python({"check": "unique", "columns": ["u"], "where": "1 / n > 0"})
    batch, errors = (STARTS[0], 1), {}
    staged = rows.withColumn("_clean", F.lit(True))
    query_failures(staged, [check], gold_context(()), [batch], errors, counts={batch: 100}, personal=False)
    assert "DIVIDE_BY_ZERO" in errors[batch][check.id]
