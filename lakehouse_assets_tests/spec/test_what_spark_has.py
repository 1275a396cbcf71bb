"""What is said of Spark before it is started, against Spark itself: its functions, and the types that it compares or casts.

Belongs here: knowledge that is kept as data, and must be Spark's own. Does not: how a mistake is shown (test_bad_expressions).
"""

import re
from importlib.resources import files

import pytest
from pydantic import TypeAdapter
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import RowCheck
from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.checks.sql.functions import SYNTAX, functions
from lakehouse_assets.checks.types import ATOMIC

# As for users: what is tested here depends on what Spark compiles.
pytestmark = pytest.mark.usefixtures("compiled")

ANY = TypeAdapter(AnyCheck)
CONTEXT = CheckContext(("id",), "p_extracted_at", "(p_extracted_at + INTERVAL 1 DAY)", "batch")
TYPES = [*sorted(ATOMIC), "decimal(10,2)"]
OF_ONE_COLUMN = [
    {"check": "in_range", "min": 0},
    {"check": "in_range", "max": 1.5},
    {"check": "in_range", "max": "2024-01-01"},
    {"check": "in_range", "min": "2024-01-01T00:00:00Z"},
    {"check": "in_set", "values": ["1"]},
    {"check": "in_set", "values": [1]},
    {"check": "in_set", "values": [1.5]},
    {"check": "in_set", "values": [True]},
    {"check": "latitude"},
    {"check": "longitude"},
    {"check": "in_past"},
    {"check": "in_future"},
    {"check": "freshness", "max_age": "1h"},
    {"check": "no_gaps", "step": 1},
    {"check": "no_gaps", "step": "1h"},
    {"check": "statistic", "of": "mean", "min": 0},
    {"check": "statistic", "of": "median", "min": 0},
    {"check": "castable", "type": "int"},
    {"check": "castable", "type": "date"},
    {"check": "castable", "type": "timestamp"},
    {"check": "castable", "type": "boolean"},
    {"check": "castable", "type": "binary"},
    {"check": "castable", "type": "string"},
    {"check": "matches", "pattern": "a"},
    {"check": "length", "min": 1},
    {"check": "decimals", "max": 1},
    {"check": "not_blank"},
    {"check": "not_null"},
    {"check": "null_share", "max": 0.5},
    {"check": "url"},
    {"check": "json"},
    {"check": "country_code"},
]

# Spark takes these, since it casts: a date is never "1", and a number never a country's code.
POINTLESS = {
    str({"check": "in_set", "values": ["1"]}): ["date", "timestamp", "timestamp_ntz"],
    str({"check": "country_code"}): [kind for kind in TYPES if kind != "string"],
}


def test_the_functions_are_those_of_spark(spark):
    """Where Spark has others: they are the first column of `SHOW SYSTEM FUNCTIONS`, names only, one a line."""
    listed = {row[0] for row in spark.sql("show system functions").collect()}
    assert functions() == {name for name in listed if re.fullmatch(r"[a-z_]\w*", name)}
    assert not functions() & SYNTAX
    text = files("lakehouse_assets.checks.sql").joinpath("spark_functions.txt").read_text("utf-8")
    assert text.split() == sorted(text.split())


def analyzed(spark, check, frame) -> bool:
    """Whether Spark finds the check's SQL right for these columns; no row is looked at."""
    try:
        if isinstance(check, RowCheck):
            _ = frame.select(F.expr(check.failing(CONTEXT))).schema
        elif query := check.query_by_window(CONTEXT):
            frame.createOrReplaceTempView(CONTEXT.batch_view)
            _ = spark.sql(query).schema
        else:
            _ = frame.groupBy("p_extracted_at").agg(*[F.expr(sql) for sql in check.metrics(CONTEXT).values()]).schema
    except AnalysisException:
        return False
    return True


@pytest.mark.parametrize("parameters", OF_ONE_COLUMN, ids=str)
def test_a_column_is_refused_where_spark_refuses_it(parameters, spark):
    """And besides only where the check could never be met, or never missed: `POINTLESS`."""
    check = ANY.validate_python({"column": "v", **parameters})
    expected, actual = {}, {}
    for kind in TYPES:
        frame = spark.createDataFrame([], f"v {kind}, p_extracted_at timestamp, _clean boolean")
        expected[kind] = not check.type_problem({"v": kind})
        actual[kind] = analyzed(spark, check, frame) and kind not in POINTLESS.get(str(parameters), ())
    assert expected == actual


@pytest.mark.exhaustive(seconds=15)
def test_two_columns_are_compared_where_spark_compares_them(spark):
    check = ANY.validate_python({"check": "compare", "column": "v", "operator": "<", "other": "w"})
    wrong = []
    for one in TYPES:
        for two in TYPES:
            frame = spark.createDataFrame([], f"v {one}, w {two}")
            if (not check.type_problem({"v": one, "w": two})) != analyzed(spark, check, frame):
                wrong.append((one, two))
    assert not wrong
