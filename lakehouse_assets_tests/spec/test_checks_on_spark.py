"""What real Spark makes of the SQL that checks and expressions become: quoting, patterns at the limit, whole-batch queries.

Belongs here: promises that only Spark can confirm. Does not: each kind's own table (`test_check_kinds`).
"""

import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from pydantic import TypeAdapter
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.pattern_steps import LONGEST
from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.checks.sql.text import add_partition, identifier, literal, parse_expression, parse_select
from lakehouse_assets.measures.stage import flag_typed_rows
from lakehouse_assets_tests.checks.test_patterns import PLAIN

# As for users: what is tested here depends on what Spark compiles.
pytestmark = pytest.mark.usefixtures("compiled")

ANY = TypeAdapter(AnyCheck)
START = datetime(2024, 1, 1, tzinfo=UTC)
CONTEXT = CheckContext(("id",), "p_extracted_at", "(p_extracted_at + INTERVAL 1 DAY)", "checks_view")
BOUND = replace(CONTEXT, window_start_sql=literal(START), window_end_sql=literal(START + timedelta(days=1)))

TEXTS = [
    "it's", 'say "hi"', "back\\slash", "\\'", "\\", "\\\\u0041", "\\n", "line\nbreak", "tab\t", "100%", "a_b", "😀", "a\u0301",
    "${env:HOME}", "$${x}", "$", "{", "-- no comment", "/* nor */", "; drop table x", "`tick`", "", " ", "\0", "{{7*7}}",
    ":p", "?",
]  # fmt: skip
NAMES = ["a.b", "a`b", 'a"b', "select", "😀", "x" * 300, "../../x", "<script>", "it's", "a b", "$x", "{x}", "--", "a;b", "a\\b"]


def test_text_comes_back_as_it_was_written(spark):
    row = spark.range(1).select(*[F.expr(literal(text)).alias(f"c{i}") for i, text in enumerate(TEXTS)]).first()
    assert list(row) == TEXTS


def test_text_comes_back_after_another_reading_too(spark):
    """A typed column's SQL holds literals and is parsed again under the column's `expr`."""
    texts = [text for text in TEXTS if "\0" not in text]
    again = [parse_expression(literal(text), "again").sql(dialect="spark") for text in texts]
    row = spark.range(1).select(*[F.expr(text).alias(f"c{i}") for i, text in enumerate(again)]).first()
    assert list(row) == texts


def test_other_values_come_back(spark):
    moment = datetime(1969, 7, 20, 20, 17, 40, 123456, tzinfo=UTC)
    values = [True, -5, 2**63 - 1, 0.1, -1e300, float("inf"), date(1, 1, 1), date(9999, 12, 31), None]
    row = spark.range(1).select(*[F.expr(literal(value)).alias(f"c{i}") for i, value in enumerate(values)]).first()
    assert list(row) == values
    micros = spark.range(1).select(F.expr(f"unix_micros({literal(moment)})")).first()[0]
    assert micros == (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert spark.range(1).select(F.expr(f"isnan({literal(float('nan'))})")).first()[0] is True


@pytest.mark.parametrize("name", NAMES, ids=lambda n: n[:12])
def test_columns_of_any_name_can_be_checked(name, spark):
    frame = spark.createDataFrame([(None,), ("a",)], "v string").toDF(name)
    check = ANY.validate_python({"check": "not_null", "column": name})
    assert sorted(r[0] for r in frame.select(F.expr(check.failing(CONTEXT))).collect()) == [False, True]


@pytest.fixture(scope="module")
def frame(spark):
    later = START + timedelta(hours=11)
    rows = [
        (1, 2, 1.5, "a1", START),
        (2, 2, float("nan"), "it's", later),
        (None, 3, None, None, None),
        (3, None, 0.0, "a_b2", later),
    ]
    return spark.createDataFrame(rows, "a int, b int, d double, s string, t timestamp").coalesce(1).cache()


@pytest.mark.exhaustive(seconds=25)
def test_every_accepted_pattern_ends_on_the_longest_values(spark):
    seeds = ["a", "x", "ab", "abc", "1", "1-", "foo", "@.", "http://x/", "é", "a" * 40 + "|", "1.1e", " ", "\n"]
    values = [(seed * LONGEST)[: LONGEST - 1] + end for seed in seeds for end in ("", "!")]
    rows = spark.createDataFrame([(value,) for value in values], "v string").coalesce(1).cache()
    slow = []
    for pattern in PLAIN:
        check = ANY.validate_python({"check": "matches", "column": "v", "pattern": pattern})
        started = time.monotonic()
        rows.select(F.count_if(F.expr(check.failing(CONTEXT)))).collect()
        if time.monotonic() - started > 120:
            slow.append(pattern)
    assert not slow


def test_a_longer_value_fails_without_being_matched(spark):
    check = ANY.validate_python({"check": "matches", "column": "v", "pattern": "a"})
    rows = spark.createDataFrame([("a" * LONGEST,), ("a" * (LONGEST + 1),)], "v string")
    assert [row[0] for row in rows.select(F.expr(check.failing(CONTEXT))).collect()] == [False, True]


@pytest.mark.parametrize(
    "query",
    [
        "select v rlike 'a+$' as f from batch",
        "select lower(v) rlike '^a+$' as f from batch",
        "select v like 'a%a%a' as f from batch",
        "select exists(array(v), x -> x rlike 'a+$') as f from batch",
        "select lower(v) rlike 'a+$' as f from batch group by lower(v) rlike 'a+$' having count(*) > 0",
        "select count_if(v rlike 'a+$') > 0 as f from batch",
    ],
)
def test_a_longer_value_is_an_error_of_sql_that_searches_it(query, spark):
    text = parse_select(query, "sql").sql(dialect="spark")
    rows = spark.createDataFrame([("a" * LONGEST,), ("a" * (LONGEST + 1),)], "v string").coalesce(1)
    rows.limit(1).createOrReplaceTempView("batch")
    assert [row["f"] for row in spark.sql(text).collect()] == [True]
    rows.createOrReplaceTempView("batch")
    with pytest.raises(SparkRuntimeException, match="more than 4096 characters"):
        spark.sql(text).collect()


@pytest.mark.parametrize(
    ("query", "failing"),
    [
        ("select * from batch b where b.a > 1", [False, True, False, True]),
        ("select * from batch where batch.a > 1 and batch.s like 'it%'", [False, True, False, False]),
        ("select a, s from batch where t >= :window_start and a is not null", [True, True, False, True]),
        ("select * from batch where t >= :window_end", [False, False, False, False]),
        ("select * from batch where a", None),
    ],
)
def test_plain_filters_ride_along_under_any_name(query, failing, frame):
    check = ANY.validate_python({"check": "sql", "name": "s", "sql": query})
    scan = frame.withColumn("p_extracted_at", F.expr(literal(START)))
    if failing is None:
        with pytest.raises(AnalysisException, match=r"DATATYPE_MISMATCH"):
            scan.select(F.expr(check.failing(CONTEXT))).collect()
    else:
        assert [row[0] for row in scan.select(F.expr(check.failing(CONTEXT))).collect()] == failing


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select s from batch group by s having count(*) > 1", 0),
        ("select x.a from batch x join batch y on x.t = y.t and x.a < y.a", 1),
        ("select * from batch where a = (select max(a) from batch)", 1),
        ("select * from batch where exists (select 1 from batch b where b.a > batch.a)", 2),
        ("with late as (select * from batch where t > :window_start) select * from late", 2),
        ("select count(*) as n from batch where t < :window_end having count(*) < 4", 1),
        ("select * from batch as r(p, q, d, s, t) where p > 2", 1),
        ("select * from batch where a > 99 limit 1", 0),
    ],
)
def test_batch_queries_run_over_their_view(query, rows, spark, frame):
    frame.createOrReplaceTempView(CONTEXT.batch_view)
    check = ANY.validate_python({"check": "sql", "name": "s", "sql": query})
    assert check.scope == "batch"
    count = spark.sql(check.query(BOUND)).count()
    assert count == rows
    assert check.judge({"failing": count}, BOUND).status == ("failed" if rows else "passed")


@pytest.mark.parametrize(
    ("columns", "rows", "duplicates"),
    [
        (["v"], [(1.0, "a", 0), (1.0, "b", 0), (2.0, "a", 0)], 1),
        (["v", "w"], [(1.0, "a", 0), (1.0, "b", 0), (1.0, "a", 1)], None),
        (["v", "w"], [(1.0, None, 0), (1.0, None, 0)], None),
        (["v"], [(float("nan"), "a", 0), (float("nan"), "b", 0)], 1),
        (["v"], [(0.0, "a", 0), (-0.0, "b", 0)], 1),
        (["w"], [(1.0, "", 0), (2.0, "", 0), (3.0, " ", 0)], 1),
        (["v"], [], None),
    ],
)
def test_unique(columns, rows, duplicates, spark):
    frame = spark.createDataFrame(
        [(v, w, START + timedelta(days=day)) for v, w, day in rows], "v double, w string, p_extracted_at timestamp"
    )
    frame.createOrReplaceTempView(CONTEXT.batch_view)
    check = ANY.validate_python({"check": "unique", "columns": columns})
    result = spark.sql(check.query_by_window(CONTEXT)).collect()
    assert [row["duplicates"] for row in result] == ([duplicates] if duplicates else [])


@pytest.mark.parametrize(
    ("hours", "kind", "status"),
    [
        ([0, 18], "timestamp", "passed"),
        ([17], "timestamp", "failed"),
        ([None, 20], "timestamp", "passed"),
        ([None], "timestamp", "failed"),
        ([], "timestamp", "failed"),
        ([30], "timestamp", "passed"),
        ([0], "date", "failed"),
    ],
)
def test_freshness_looks_back_from_the_end_of_the_window(hours, kind, status, spark):
    """A row that is removed is no news, however late its time is."""
    rows = [(None if hour is None else START + timedelta(hours=hour), START, True) for hour in hours]
    rows += [(START + timedelta(days=9999), START, False)] if hours else []
    frame = spark.createDataFrame(rows, "t timestamp, p_extracted_at timestamp, _clean boolean")
    frame = frame.withColumn("t", F.col("t").cast(kind))
    check = ANY.validate_python({"check": "freshness", "column": "t", "max_age": "6h"})
    grouped = frame.groupBy("p_extracted_at").agg(*[F.expr(sql).alias(name) for name, sql in check.metrics(CONTEXT).items()])
    first = grouped.first()
    assert check.judge(first.asDict() if first else {}, CONTEXT).status == status


def test_window_functions_never_mix_windows(spark):
    rows = [(1.0, START), (3.0, START), (100.0, START + timedelta(days=1))]
    frame = spark.createDataFrame(rows, "v double, p_extracted_at timestamp")
    tree = add_partition(parse_expression("v - avg(v) over ()", "f", allow_windows=True), "p_extracted_at")
    assert sorted(row[0] for row in frame.select(F.expr(tree.sql(dialect="spark"))).collect()) == [-1.0, 0.0, 1.0]


def test_no_expression_is_evaluated_on_rows_that_fail_what_it_depends_on(spark):
    """By ANSI's rules a cast of another text is an error, which would stop the scan of the whole batch."""
    checks = [
        {"check": "expression", "name": "third", "expr": "100 / (cast(zip as int) - 10) > 1", "depends_on": ["above"]},
        {"check": "expression", "name": "above", "expr": "cast(zip as int) > 10", "depends_on": ["digits"]},
        {"check": "matches", "name": "digits", "column": "zip", "pattern": "^[0-9]+$"},
    ]
    zips = ["12", "200", "9", "10", "twelve", None]
    rows = spark.createDataFrame([(text,) for text in zips], "zip string")
    flagged = flag_typed_rows(rows, [ANY.validate_python(check) for check in checks], CONTEXT, (), {}).collect()
    failed = {row["zip"]: [reason["check"] for reason in row["_reasons"] or ()] for row in flagged}
    assert failed == {"12": [], "200": ["third"], "9": ["above"], "10": ["above"], "twelve": ["digits"], None: []}


def test_identifiers_reach_spark_as_they_are(spark):
    frame = spark.range(1).select(*[F.lit(i).alias(name) for i, name in enumerate(NAMES)])
    assert list(frame.select(*[F.expr(identifier(name)) for name in NAMES]).first()) == list(range(len(NAMES)))
