"""What each check kind says of small batches, as tables, run on real Spark: also its reference."""

import ipaddress
import json
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.checks.families import RowCheck
from lakehouse_assets.checks.kinds.formats import ip_pattern
from lakehouse_assets.checks.registry import AnyCheck, kinds
from lakehouse_assets.testing import verify_batch_check, verify_check_kind, verify_row_check

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
    # Beside a double, 0.7 as a float is less, and 0.1 is more.
    ({"check": "in_range", "min": 0.7, "max": 0.9}, "float", [0.7, 0.9, None], [0.69, 0.91, NAN]),
    ({"check": "in_range", "min": -0.1, "max": 0.1}, "float", [-0.1, 0.1], [-0.11, 0.11]),
    ({"check": "in_range", "min": 0.7, "max": 0.9}, "decimal(3,2)", [Decimal("0.70"), Decimal("0.90")], [Decimal("0.69")]),
    ({"check": "in_range", "min": 1e-50, "max": 1e39}, "float", [1.0], [0.0, NAN]),
    ({"check": "in_set", "values": [0.1, 2.5]}, "float", [0.1, 2.5, None], [0.2]),
    ({"check": "in_set", "values": [0.1, 2.5]}, "double", [0.1, 2.5, None], [0.2]),
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
    ({"check": "not_blank"}, "string", ["a", " a ", None], ["", " ", "\t\n ", "\u00a0", "\u3000\u2003"]),
    (
        {"check": "decimals", "max": 1},
        "double",
        [1.0, 0.1, -2.5, 1e10, 1e300, 1.25e19, 0.0, -0.0, None],
        [0.12, NAN, float("inf"), float("-inf"), 1e-7, 1.5e-300],
    ),
    ({"check": "decimals", "max": 8}, "double", [1.5e-7, 1e-8, 123456.12345678], [1.25e-7, 1e-9]),
    (
        {"check": "decimals", "max": 0},
        "decimal(38,0)",
        [Decimal(10**19), Decimal(10**38 - 1), -Decimal(10**37), Decimal(0)],
        [],
    ),
    (
        {"check": "decimals", "max": 2},
        "decimal(38,10)",
        [Decimal(10**20) + Decimal("0.12"), Decimal("-7.10"), Decimal(0)],
        [Decimal(10**20) + Decimal("0.123"), Decimal("0.0000000001"), Decimal("1" + "0" * 27 + ".0000000001")],
    ),
    ({"check": "decimals", "max": 18}, "decimal(38,30)", [Decimal("1e-18"), Decimal(0)], [Decimal("1e-19"), Decimal("1e-30")]),
    ({"check": "decimals", "max": 1}, "bigint", [2**63 - 1, -(2**63), 0], []),
    ({"check": "decimals", "max": 1}, "float", [0.1, 1e30], [0.25]),
    (
        {"check": "decimals", "max": 1},
        "string",
        ["1.5", " 2 ", "1e3", "-.5", "+5."],
        ["", "a", "1.55", "1e-2", "E", ".", "1 2"],
    ),
    ({"check": "decimals", "max": 0}, "decimal(10,2)", [Decimal("3.00"), None], [Decimal("3.10")]),
    ({"check": "latitude"}, "double", [0.0, -90.0, 90.0, None], [90.1, -90.1, NAN, float("inf")]),
    ({"check": "longitude"}, "double", [180.0, -180.0, None], [180.5, NAN]),
    (
        {"check": "url"},
        "string",
        ["http://a.b", "HTTPS://example.com:8080/x?y#z", "http://[::1]/", "https://user@host/", None],
        ["", "a.b", "ftp://a.b", "http://", "http:///x", "http://a b", " http://a.b", "http://a:port", "javascript:alert(1)"],
    ),
    ({"check": "url", "schemes": ["ftp"]}, "string", ["ftp://a"], ["http://a", "http://a?" + "x" * 2048]),
    (
        {"check": "email"},
        "string",
        ["a@b.cd", "first.last+tag@sub.example.org", "o'neil@example.com", None],
        ["", "a", "a@b", "@b.cd", "a@", "a b@c.de", "a@-b.cd", "a@b..cd", ".a@b.cd", "a.@b.cd", "a@b.c", "a@b.cd\n", "a@@b.cd"],
    ),
    (
        {"check": "uuid"},
        "string",
        ["123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000", None],
        [
            "",
            "123e4567e89b12d3a456426614174000",
            "123e4567-e89b-12d3-a456-42661417400g",
            "{123e4567-e89b-12d3-a456-426614174000}",
        ],
    ),
    (
        {"check": "ip", "version": 4},
        "string",
        ["0.0.0.0", "255.255.255.255", None],
        ["", "256.1.1.1", "1.2.3", "01.2.3.4", "::1"],
    ),
    (
        {"check": "ip", "version": 6},
        "string",
        ["::", "::1", "1::", "fe80::1:2", "::ffff:1.2.3.4"],
        ["1.2.3.4", ":::", "1:2", "g::"],
    ),
    ({"check": "ip"}, "string", ["1.2.3.4", "2001:db8::8:800:200c:417a"], ["1.2.3.4/8", "fe80::1%eth0", "1::2::3"]),
    (
        {"check": "json"},
        "string",
        ['{"a": [1, 2.5, null]}', "[]", '"a"', "1", "true", "null", None],
        ["", "{", "{a: 1}", "[1,]", "'a'", "nul", '{"a": 1} x', "1, 2", "1] x", "1} x", '1, "b": 2', '{"a": 1, "a": 2}'],
    ),
    ({"check": "castable", "type": "int"}, "string", ["1", " -5 ", None], ["", "1.5e", "abc", "99999999999"]),
    ({"check": "castable", "type": "date"}, "string", ["2024-02-29", None], ["2023-02-29", "29.02.2024"]),
    ({"check": "country_code"}, "string", ["DE", "US", None], ["", "de", "UK", "DEU", "XX"]),
    ({"check": "country_code", "form": "alpha_3"}, "string", ["DEU", None], ["DE", "ZZZ"]),
    ({"check": "currency_code"}, "string", ["EUR", "USD", None], ["", "eur", "EURO", "XYZ"]),
    (
        {"check": "in_past"},
        "timestamp",
        [START, START + timedelta(hours=23), None],
        [START + timedelta(days=1), START + timedelta(days=400)],
    ),
    (
        {"check": "in_past", "tolerance": "1h"},
        "timestamp",
        [START + timedelta(days=1, minutes=59)],
        [START + timedelta(hours=25)],
    ),
    ({"check": "in_past"}, "date", [START.date()], [(START + timedelta(days=1)).date()]),
    ({"check": "in_future"}, "timestamp", [START + timedelta(days=1), None], [START, START + timedelta(hours=23)]),
    ({"check": "in_future", "tolerance": "2d"}, "timestamp", [START], [START - timedelta(days=2)]),
    ({"check": "compare", "operator": "<=", "other": "v2"}, "int", [1, 0, None], [2]),
    ({"check": "compare", "operator": "!=", "other": "v2"}, "int", [2, None], [1]),
    ({"check": "compare", "operator": "<", "other": "v2"}, "double", [0.5, None], [1.0, NAN]),
    ({"check": "conditional", "when": "v2 = 1", "then": "v > 3"}, "int", [4, None], [3]),
    ({"check": "conditional", "when": "v2 = 2", "then": "v > 3"}, "int", [4, 3, None], []),
    ({"check": "expression", "expr": "v % 2 = 0"}, "int", [2, None], [3]),
    ({"check": "at_least_one_of", "columns": ["v", "none"]}, "int", [1], [None]),
    ({"check": "exactly_one_of", "columns": ["v", "none"]}, "int", [1], [None]),
    ({"check": "exactly_one_of", "columns": ["v", "v2"]}, "int", [None], [1]),
]


@pytest.mark.parametrize(("parameters", "kind", "passing", "failing"), ROWS, ids=lambda v: str(v)[:60])
def test_rows(parameters, kind, passing, failing, spark):
    verify_row_check(spark, parameters, kind, passing, failing, {"v2": ("int", 1), "none": ("int", None)})


@pytest.mark.parametrize(
    ("parameters", "values", "status"),
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
def test_batches(parameters, values, status):
    assert ANY.validate_python(parameters).judge(values, CONTEXT).status == status


@pytest.mark.parametrize(
    ("parameters", "own", "source", "status"),
    [
        ({}, 24.0, 24.0, "passed"),
        ({}, 23.0, 24.0, "failed"),
        ({}, 25.0, 24.0, "failed"),
        ({}, None, 0.0, "passed"),  # a batch of no rows
        ({}, None, 24.0, "failed"),
        ({}, 24.0, None, "failed"),
        ({}, 10.0**12 + 1, 10.0**12, "failed"),  # a count is exact
        ({"tolerance": 0.1}, 22.0, 24.0, "passed"),
        ({"tolerance": 0.29}, 129.0, 100.0, "passed"),
        ({"tolerance": 0.29}, 129.5, 100.0, "failed"),
        ({"tolerance": 0.29}, 1.0, 0.0, "failed"),
        ({"tolerance": 0.1}, 21.0, 24.0, "failed"),
        ({"measure": "sum(v)"}, 0.1 + 0.2, 0.3, "passed"),
        ({"measure": "sum(v)"}, 1000.001, 1000.0, "failed"),
        ({"measure": "sum(v)"}, None, 0.0, "passed"),
        ({"measure": "sum(v)"}, 0.0, None, "passed"),
        ({"measure": "sum(v)"}, None, 1.0, "failed"),
        ({"measure": "sum(v)"}, NAN, 1.0, "failed"),
        ({"measure": "sum(v)"}, float("inf"), 1.0, "failed"),
        ({"measure": "sum(v)"}, NAN, NAN, "failed"),  # a database can say so
        ({"measure": "sum(v)"}, float("inf"), float("inf"), "failed"),
        ({"measure": "(sum(v) filter (where g = 1))"}, None, 0.0, "passed"),
        ({"measure": "(count(*) filter (where g = 1))"}, 10.0**12 + 1, 10.0**12, "failed"),
        ({"measure": "(count_if(v > 1))"}, 10.0**12 + 1, 10.0**12, "failed"),
        ({"measure": "max(v)"}, None, None, "passed"),
        ({"measure": "max(v)"}, None, 0.0, "failed"),
        ({"measure": "max(v)"}, -5.0, -5.0, "passed"),
    ],
    ids=str,
)
def test_control_totals(parameters, own, source, status):
    check = ANY.validate_python({"check": "control_total", "figure": "f", **parameters})
    context = replace(CONTEXT, control=ControlTotals({"f": source, "other": 1.0}))
    judged = check.judge({} if own is None and check.measure == "count(*)" else {"own": own}, context)
    assert judged.status == status
    assert bool(judged.message) == (status == "failed")
    json.dumps(judged.observed, allow_nan=False)


@pytest.mark.parametrize(
    ("measure", "source", "status"),
    [
        *[(count, *expected) for count in ("count(*)", "(count(*))", "count(*) filter (where v > 1)", "count_if(v > 1)")
          for expected in ((0.0, "passed"), (1.0, "failed"), (None, "failed"))],
        ("coalesce(sum(v), 0)", 0.0, "passed"),
        ("coalesce(sum(v), 1) - 1", 0.0, "passed"),
        ("coalesce(sum(v), max(v))", 0.0, "failed"),
        ("(sum(v) filter (where g = 1))", 0.0, "passed"),
        ("count(v) - count(*)", 0.0, "passed"),
        ("count(v) + 1", 0.0, "failed"),
        ("sum(v) * count(*)", 0.0, "failed"),
        ("approx_count_distinct(v)", 0.0, "passed"),
        ("approx_count_distinct(v) filter (where v > 1)", None, "failed"),
        ("regr_count(v, g)", 0.0, "passed"),
        ("cast(coalesce(sum(v), 0) as decimal(10, 2))", 0.0, "passed"),
        ("coalesce(sum(v), 0.0D)", 0.0, "passed"),
        ("cast(coalesce(sum(v), 0.5) as int)", 0.5, "failed"),
        ("cast(count(*) as string)", None, "passed"),
        ("round(coalesce(sum(v), 0), 2)", 0.0, "passed"),
        ("round(sum(v), 2)", None, "passed"),
        ("-count(*)", 0.0, "passed"),
        ("coalesce(sum(v), -1)", -1.0, "passed"),
        ("abs(coalesce(sum(v), -1))", 1.0, "passed"),
        ("count(*) / 2", 0.0, "passed"),
        ("count(v) / count(*)", None, "passed"),
        ("if(count(*) > 0, sum(v), 0)", 0.0, "passed"),
        ("if(sum(v) is not null, sum(v), 3)", 3.0, "passed"),
        ("if(sum(v) > 0, 1, 2)", 2.0, "passed"),
        ("if(count(*) = 0, null, 1)", None, "passed"),
        ("case when count(*) <> 0 then 1 when sum(v) is null then 2 else 3 end", 2.0, "passed"),
        ("case when count(*) <> 0 then 1 end", None, "passed"),
        ("nullif(count(*), 1)", None, "passed"),
        ("case when count(*) = 0 or sum(v) is null then 0 else 1 end", 0.0, "passed"),
        ("case when count(*) > 0 and sum(v) > 0 then 0 else 1 end", 1.0, "passed"),
        ("if(isnull(sum(v)), 0, 1)", 0.0, "passed"),
        ("if(isnotnull(sum(v)), 0, 1)", 1.0, "passed"),
        ("if(count(*) in (0), 0, 1)", 0.0, "passed"),
        ("if(count(*) in (2, sum(v)), 0, 1)", 1.0, "passed"),
        ("if(count(*) not in (1, sum(v)), 0, 1)", 1.0, "passed"),
        ("if(count(*) between 0 and 5, 0, 1)", 0.0, "passed"),
        ("round(15 + count(*), -1)", 20.0, "passed"),
        ("round(count(*) - 2.45, 1)", -2.5, "passed"),
        ("coalesce(sum(v), 0.0BD)", 0.0, "passed"),
        ("coalesce(sum(v), 12.34BD)", 12.34, "passed"),
        ("bigint(count(*)) + 3", 3.0, "passed"),
        ("cast(count(*) + 200 as tinyint)", None, "passed"),
        ("cast(count(*) + 12.5 as decimal(10))", None, "passed"),
        # What is not known is not taken for NULL.
        ("coalesce(greatest(count(*), 0), -1)", None, "passed"),
        ("if(greatest(count(*), 0) = 0, 0, 1)", None, "passed"),
        ("if(greatest(count(*), 0) is null, 0, 1)", None, "passed"),
        ("case when size(collect_set(v)) = 0 then 1 else 2 end", None, "passed"),
        ("case when count(*) = 0 or greatest(count(*), 0) > 0 then 1 else 2 end", 1.0, "passed"),
        ("case when count(*) = 1 and greatest(count(*), 0) > 0 then 1 else 2 end", 2.0, "passed"),
        ("case when count(*) = 0 and greatest(count(*), 0) > 0 then 1 else 2 end", None, "passed"),
        ("if(count(*) in (1, greatest(0, 0)), 1, 2)", None, "passed"),
        ("max(v)", None, "passed"),
        ("max(v)", 0.0, "failed"),
    ],
)  # fmt: skip
def test_a_control_total_of_a_batch_without_rows(measure, source, status):
    check = ANY.validate_python({"check": "control_total", "figure": "f", "measure": measure})
    assert check.judge({}, replace(CONTEXT, control=ControlTotals({"f": source}))).status == status


def test_a_batch_without_rows_has_the_control_total_that_spark_computes_over_none(spark):
    measures = [
        "count(*)", "count_if(v > 1)", "count(distinct v)", "approx_count_distinct(v)", "regr_count(v, g)", "sum(v)", "max(v)",
        "sum(v) filter (where g = 1)", "coalesce(sum(v), 0.0D) - 1", "coalesce(sum(v), max(v), -2)", "-count(*)",
        "abs(-3 + count(*))", "round(coalesce(sum(v), 0), 2)", "cast(count(*) as decimal(10, 2)) / 2", "count(v) + sum(v)",
        "if(count(*) > 0, sum(v), 4)", "if(sum(v) > 0, 1, 2)", "if(not count(*) = 0, 1, 2)", "if(sum(v) is not null, 1, 2)",
        "case when count(*) <> 0 then 1 when sum(v) is null then 2 else 3 end", "case when count(*) >= 1 then 1 end",
        "case when count(*) = 0 or sum(v) is null then 0 else 1 end", "case when sum(v) > 0 or count(*) > 0 then 1 else 2 end",
        "if(isnull(sum(v)), 0, 1)", "if(isnotnull(count(*)), 0, 1)", "if(count(*) in (0), 0, 1)",
        "if(count(*) not in (1, sum(v)), 0, 1)", "if(count(*) in (2, sum(v)), 0, 1)", "if(count(*) between 0 and 5, 0, 1)",
        "if(not (count(*) > 0 and sum(v) > 0), 0, 1)", "if(count(*) = 0 and sum(v) > 0, 0, 1)",
        "if(true and count(*) = 0, 3, 4)", "round(15 + count(*), -1)", "round(count(*) - 2.45, 1)", "round(count(*) - 0.4)",
        "round(2.5 + count(*))",
        "coalesce(sum(v), 0.0BD)", "coalesce(sum(v), 12.34BD)", "bigint(count(*))", "decimal(3 + count(*))",
        "cast(count(*) + 7 as tinyint)", "cast(0.25 + count(*) as decimal(3, 2))", "cast(count(*) + 0.1 as double)",
        "(count(*) + 1) / 8", "coalesce(max(v), stddev(v), corr(v, g), 5)",
    ]  # fmt: skip
    checks = [ANY.validate_python({"check": "control_total", "figure": "f", "measure": measure}) for measure in measures]
    without = replace(CONTEXT, control=ControlTotals({"f": None}))
    own = [check.judge({}, without).observed["own"] for check in checks]
    columns = [F.expr(check.metrics(CONTEXT)["own"]).alias(f"c{index}") for index, check in enumerate(checks)]
    of_spark = spark.createDataFrame([], "v double, g int").agg(*columns).first()
    assert dict(zip(measures, own, strict=True)) == dict(zip(measures, of_spark, strict=True))


def test_a_missing_control_total_never_passes():
    check = ANY.validate_python({"check": "control_total", "figure": "f"})
    with_totals = replace(CONTEXT, control=ControlTotals({"rows": 1.0, "amount": 2.0}))
    nothing = replace(CONTEXT, control=ControlTotals({}, "there is no x.json"))
    outcomes = [check.judge({"own": 1.0}, context) for context in (with_totals, nothing, CONTEXT)]
    assert [f.status for f in outcomes] == ["failed", "failed", "error"]
    assert [f.message for f in outcomes[:2]] == ["the source says nothing of 'f'; it says amount, rows", "there is no x.json"]


HOURS = [START + timedelta(hours=hour) for hour in (3, 0, 1, 2, 2)]
CENTS = [Decimal(n) / 100 for n in range(105, 130, 5)]
# kind and parameters | column type | batches that pass | batches that fail
BATCHES = [
    ({"check": "null_share", "max": 0.5}, "int", [[1, None], [1], []], [[None], [1, None, None]]),
    ({"check": "null_share", "max": 0}, "string", [["", "a"]], [["a", None]]),
    # 0.29 times 100 is less than 29.
    ({"check": "null_share", "max": 0.29}, "int", [[1] * 71 + [None] * 29], [[1] * 70 + [None] * 30]),
    (
        {"check": "statistic", "of": "mean", "min": 1, "max": 2},
        "double",
        [[1.0, 3.0], [1.5, None]],
        [[9.0], [], [None], [1.0, NAN]],
    ),
    ({"check": "statistic", "of": "sum", "max": 10}, "bigint", [[5, 5]], [[2**62, 2**62], []]),
    (
        {"check": "statistic", "of": "mean", "min": 0},
        "double",
        [[1.0], [1.7e308]],
        [[float("inf"), 1.0], [float("-inf")], [1.7e308, 1.7e308]],
    ),
    ({"check": "statistic", "of": "max", "min": 0}, "double", [[1.0]], [[1.0, float("inf")], [float("-inf")]]),
    ({"check": "metric", "name": "m", "sql": "sum(v)", "max": 0}, "double", [[-1.0]], [[float("-inf"), 1.0]]),
    ({"check": "statistic", "of": "stddev", "max": 1}, "double", [[1.0, 1.0]], [[1.0, 9.0], [1.0]]),
    ({"check": "statistic", "of": "min", "min": 0}, "int", [[0, 5]], [[-1, 5]]),
    ({"check": "statistic", "of": "max", "max": 5}, "decimal(5,2)", [[Decimal("5.00")]], [[Decimal("5.01")]]),
    ({"check": "statistic", "of": "median", "min": 2, "max": 2}, "int", [[1, 2, 9]], [[1, 3, 9]]),
    ({"check": "statistic", "of": "quantile", "quantile": 0.9, "max": 9}, "int", [[*range(1, 11)]], [[*range(2, 12)]]),
    ({"check": "distinct_count", "columns": ["v"], "min": 2, "max": 2}, "string", [["a", "b", "b", None]], [["a"], [], [None]]),
    ({"check": "no_gaps", "step": 1}, "int", [[1, 3, 2, 2], [5], [], [None]], [[1, 3]]),
    (
        {"check": "no_gaps", "step": 1},
        "double",
        [[1.0, 2.0], [float("inf")], [NAN]],
        [[1.0, float("inf")], [1.0, NAN], [float("-inf"), 1.0], [float("inf"), NAN]],
    ),
    ({"check": "no_gaps", "step": 0.5}, "double", [[0.5, 1.0]], [[0.5, 1.5]]),
    # Tenths are not exact: 0.4 - 0.3 is more than 0.1.
    ({"check": "no_gaps", "step": 0.1}, "double", [[n / 10 for n in range(11)], [-0.3, -0.2]], [[0.1, 0.2, 0.301]]),
    (
        {"check": "no_gaps", "step": 0.05},
        "decimal(5,2)",
        [[Decimal(n) / 100 for n in range(105, 130, 5)]],
        [[Decimal("1.05"), Decimal("1.11")]],
    ),
    ({"check": "no_gaps", "step": 1}, "bigint", [[10**12, 10**12 + 1]], [[10**12, 10**12 + 2]]),
    # Doubles of this size are 2 or more apart.
    (
        {"check": "no_gaps", "step": 1},
        "bigint",
        [[2**53, 2**53 + 1, 2**53 + 2], [2**63 - 2, 2**63 - 1], [-(2**63), 1 - 2**63], [20240101120000000, 20240101120000001]],
        [
            [2**53, 2**53 + 2],
            [1_200_000_000_000_000, 1_200_000_000_000_002],
            [20240101120000000, 20240101120000002],
            [2**63 - 3, 2**63 - 1],
            [-(2**63), 2**63 - 1],
        ],
    ),
    ({"check": "no_gaps", "step": 100}, "tinyint", [[-28, 72]], [[-128, 127]]),
    (
        {"check": "no_gaps", "step": 1},
        "decimal(38,0)",
        [[Decimal(10**19), Decimal(10**19 + 1)], [Decimal(10**30)]],
        [[Decimal(10**19), Decimal(10**19 + 2)], [Decimal(10**30), Decimal(2 * 10**30)], [Decimal(0), Decimal(10**30)]],
    ),
    ({"check": "no_gaps", "step": 1}, "string", [["1", "2"]], [["1", "3"]]),
    ({"check": "no_gaps", "step": "1h"}, "timestamp", [HOURS], [[HOURS[0], HOURS[1]]]),
    ({"check": "no_gaps", "step": "1d"}, "date", [[START.date()]], [[START.date(), (START + timedelta(days=2)).date()]]),
    ({"check": "metric", "name": "m", "sql": "max(v) - min(v)", "max": 3}, "int", [[1, 4]], [[1, 5], []]),
    ({"check": "metric", "name": "m", "sql": "count(*)", "min": 1}, "int", [[None]], [[]]),
]


@pytest.mark.parametrize(("parameters", "kind", "passing", "failing"), BATCHES, ids=lambda v: str(v)[:60])
def test_batches_on_spark(parameters, kind, passing, failing, spark):
    verify_batch_check(spark, parameters, kind, passing, failing)


@pytest.mark.parametrize("name", kinds())
def test_the_contract_of_every_kind(name):
    verify_check_kind(name)


@pytest.mark.parametrize(
    "parameters",
    [
        {"check": "statistic", "column": "v", "of": "mean"},
        {"check": "statistic", "column": "v", "of": "mean", "min": 2, "max": 1},
        {"check": "statistic", "column": "v", "of": "quantile", "max": 1},
        {"check": "statistic", "column": "v", "of": "mean", "quantile": 0.5, "max": 1},
        {"check": "null_share", "column": "v", "max": 2},
        {"check": "no_gaps", "column": "v", "step": 0},
        {"check": "no_gaps", "column": "v", "step": "1 hour"},
        {"check": "metric", "sql": "v", "max": 1},
        {"check": "metric", "sql": "sum(v)"},
        {"check": "metric", "sql": "sum(v) over ()", "max": 1},
        {"check": "expression", "expr": "sum(v) > 1"},
        {"check": "expression", "expr": "java_method('a', 'b')"},
        {"check": "conditional", "when": "true", "then": "(select 1) = 1"},
        {"check": "castable", "column": "v", "type": "complex"},
        {"check": "compare", "column": "v", "operator": "like", "other": "w"},
        {"check": "decimals", "column": "v", "max": -1},
        {"check": "url", "column": "v", "schemes": []},
        {"check": "url", "column": "v", "schemes": ["a|b"]},
        {"check": "in_past", "column": "v", "tolerance": "soon"},
        {"check": "exactly_one_of", "columns": ["v"]},
        {"check": "distinct_count", "columns": ["v"]},
    ],
    ids=str,
)
def test_contradictory_parameters_are_refused(parameters):
    with pytest.raises(ValidationError):
        ANY.validate_python(parameters)


@given(st.one_of(st.ip_addresses().map(str), st.text("0123456789abcdef:./%", max_size=45)))
@settings(max_examples=2000, deadline=None)
def test_addresses_are_those_of_the_standard_library(text):
    """The pattern that Java gets, read by Python: both read what is used here alike."""
    try:
        is_address = "%" not in text and bool(ipaddress.ip_address(text))
    except ValueError:
        is_address = False
    assert bool(re.search(ip_pattern(None), text)) == is_address


@pytest.mark.parametrize("kind", ["url", "email", "uuid", "ip"])
def test_formats_are_checked_quickly_for_any_text(kind, spark):
    """Nearly right texts, as long as the form allows, are rejected within a second for a thousand rows."""
    check = ANY.validate_python({"check": kind, "column": "v"})
    assert isinstance(check, RowCheck)
    near = [
        "a" * 63 + "@" + "a-" * 90,
        "a." * 31 + "a@" + ("b" * 60 + ".") * 3 + "1",
        ":" * 45,
        "1:" * 20,
        "http://" + "a" * 2000 + " ",
    ]
    frame = spark.createDataFrame([(text,) for text in near * 200], "v string").cache()
    frame.count()
    begin = time.monotonic()
    frame.where(F.expr(check.failing(CONTEXT))).count()
    assert time.monotonic() - begin < 60


def test_metrics_are_sql_that_spark_runs(spark):
    rows = [(START + timedelta(hours=20), START, True)]
    frame = spark.createDataFrame(rows, "t timestamp, p_extracted_at timestamp, _clean boolean")
    fresh = ANY.validate_python({"check": "freshness", "column": "t", "max_age": "6h"})
    row = frame.agg(*[F.expr(sql).alias(name) for name, sql in fresh.metrics(CONTEXT).items()]).first()
    assert row["age_seconds"] == 4 * 3600


def test_uniqueness_of_other_columns_ignores_nulls_and_other_windows(spark):
    rows = [(1, START), (1, START), (2, START), (None, START), (None, START), (2, START + timedelta(days=1))]
    spark.createDataFrame(rows, "v int, p_extracted_at timestamp").createOrReplaceTempView("batch")
    unique = ANY.validate_python({"check": "unique", "columns": ["v"]})
    assert [row["duplicates"] for row in spark.sql(unique.query_by_window(CONTEXT)).collect()] == [1]


def test_the_inventory():
    """Pinned, so that discovery hides nothing."""
    assert list(kinds()) == [
        "anomaly", "at_least_one_of", "castable", "compare", "conditional", "control_total", "country_code",
        "currency_code", "decimals", "distinct_count", "email", "exactly_one_of", "expression", "foreign_key", "freshness",
        "in_future", "in_past", "in_range", "in_set", "ip",
        "json", "latitude", "length", "longitude", "matches", "metric", "no_gaps", "not_blank", "not_empty", "not_null",
        "null_share", "reconcile", "row_count", "row_count_ratio", "sql", "statistic", "unique", "url", "uuid",
    ]  # fmt: skip
    for kind in kinds().values():
        assert kind.summary
        assert kind.__doc__
