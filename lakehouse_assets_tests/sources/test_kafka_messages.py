"""Parsed messages: whether their keys can be columns, and what is left of each."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import product

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.sources.base import MAX_COLUMNS
from lakehouse_assets.sources.json_files import parse_objects
from lakehouse_assets.sources.kafka_messages import select_usable

AT = datetime(2024, 1, 1, tzinfo=UTC)
LINES = "partition int, offset long, timestamp timestamp, p_extracted_at timestamp, _key string, _line string"
# Greek and Turkish letters, and a sharp s: their small forms depend on what is around them, or are longer.
GREEK = ["\u0391\u03a3", "\u03b1\u03c2", "\u03b1\u03c3"]
NAMES = ["", "a", "A", "b c", *GREEK, "\u0130", "i\u0307", "I", "\u0131", "x\u0000", "\ufffd", "\u00df", "\u1e9e"]


def parsed(spark: SparkSession, lines: Iterable[str | None]) -> DataFrame:
    rows = [(0, offset, AT, AT, None, line) for offset, line in enumerate(lines)]
    return parse_objects(spark.createDataFrame(rows, LINES).withColumn("_tombstone", F.col("_line").isNull()))


def line_of(names):
    keys = (name.replace("\u0000", "\\u0000") for name in names)
    return "{" + ", ".join(f'"{key}": {number}' for number, key in enumerate(keys)) + "}"


def is_usable(names):
    """As the rules have it, one by one."""
    small = [name.lower() for name in names]
    return all(name and "\u0000" not in name and "\ufffd" not in name for name in names) and len({*small}) == len(small)


def test_objects_with_keys_that_cannot_be_columns_are_bad(spark):
    pairs = [[one, other] for one, other in product(NAMES, NAMES) if one < other]
    cases = [*pairs, *([name] for name in NAMES), ["a", "b", "c"], ["a", "b", "C", "c"]]
    rows = select_usable(parsed(spark, map(line_of, cases)), ()).orderBy("offset").collect()
    assert [row["_object"] is not None for row in rows] == [is_usable(names) for names in cases]
    assert [row["_bad_text"] is None for row in rows] == [is_usable(names) for names in cases]


def test_what_is_left_of_a_message(spark):
    many = line_of([f"k{number}" for number in range(MAX_COLUMNS + 1)])
    lines = ['{"a": 1}', None, "no object", "{}", many, many[:-1]]
    rows = select_usable(parsed(spark, lines), ()).select("*", F.map_keys("_object").alias("names")).orderBy("offset").collect()
    assert [(row["names"], row["_tombstone"], row["_bad_text"]) for row in rows] == [
        (["a"], False, None),
        (None, True, None),
        (None, False, "no object"),
        ([], False, None),
        (None, False, many),
        (None, False, many[:-1]),
    ]
    assert "timestamp" not in rows[0].asDict()
    assert "timestamp" in select_usable(parsed(spark, lines), ("kafka_timestamp",)).columns
