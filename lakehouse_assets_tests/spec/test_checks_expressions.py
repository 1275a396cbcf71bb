"""Expressions of the configuration, read by sqlglot and written again: Spark must give the same values for both texts.

Belongs here: what sqlglot could change in passing. Does not: what is refused (`checks/test_hostile_sql`).
"""

from datetime import UTC, datetime, timedelta

from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import parse_expression

START = datetime(2024, 1, 1, tzinfo=UTC)
EXPRESSIONS = [
    "a + b * 2 - -1",
    "a / nullif(b, 0)",
    "a div 2",
    "a % 2",
    "a <=> b",
    "a is distinct from b",
    "not a > 1 or b < 2 and a = b",
    "s rlike '^[a-z]\\\\d+$'",
    "s rlike r'\\d+'",
    "s like 'a\\\\_%'",
    "s ilike 'A%'",
    "regexp_extract(s, '(\\\\d+)', 1)",
    "regexp_replace(s, '[a-z]', '$0-')",
    "split(s, '1')[0]",
    "substring(s, -2)",
    "s || 'x'",
    "concat_ws('-', s, a)",
    "s = 'it\\'s'",
    's = "a1"',
    "length(trim(s))",
    "coalesce(a, b, 0)",
    "nvl(a, 9)",
    "ifnull(b, 0)",
    "if(a > 1, 'x', 'y')",
    "case when a > 1 then 'x' when a is null then 'n' else 'y' end",
    "a between 1 and 2",
    "a in (1, 2)",
    "cast(a as string)",
    "a::double",
    "try_cast(s as int)",
    "try_divide(a, b)",
    "round(a / 3, 2)",
    "log(a)",
    "log(2, a)",
    "ln(a)",
    "pow(a, 2)",
    "a ^ b",
    "a & 3 | 4",
    "greatest(a, b)",
    "isnan(d)",
    "isnotnull(d)",
    "nanvl(d, 0)",
    "1L + 1.5BD",
    "1e3",
    "x'1F'",
    "date_trunc('HOUR', t)",
    "trunc(t, 'MM')",
    "date_add(t, 1)",
    "datediff(t, date '2024-01-01')",
    "t + interval 90 minutes",
    "t >= timestamp '2024-01-01 10:00:00Z'",
    "hour(t)",
    "extract(month from t)",
    "dayofweek(t)",
    "weekday(t)",
    "weekofyear(t)",
    "date_format(t, 'yyyy-MM-dd')",
    "to_date('2024', 'yyyy')",
    "unix_timestamp(t)",
    "unix_micros(t)",
    "to_timestamp('2024-01-01', 'yyyy-MM-dd')",
    "timestampadd(DAY, 1, t)",
    "months_between(t, date '2024-01-01')",
    "add_months(t, 1)",
    "last_day(t)",
    "make_date(2024, a, 1)",
    "array_contains(array(1, 2), a)",
    "element_at(array(1, 2), 1)",
    "transform(array(a, b), x -> x + 1)",
    "named_struct('k', a).k",
    "filter(array(a, b), x -> x > 1)",
    "aggregate(array(1, 2), 0, (x, y) -> x + y)",
    "map('k', a)['k']",
    "get_json_object('{\"a\":1}', '$.a')",
    "hash(s)",
    "md5(s)",
    "sha2(s, 256)",
    "xxhash64(s)",
    "levenshtein(s, 'a2')",
    "soundex(s)",
    "initcap(s)",
    "translate(s, 'a', 'b')",
    "lpad(s, 5, '0')",
    "rpad(s, 5, '0')",
    "instr(s, '1')",
    "locate('1', s)",
    "position('1' in s)",
    "left(s, 1)",
    "overlay(s placing 'z' from 1)",
    "avg(a) over (partition by s)",
    "lag(a) over (order by t)",
    "row_number() over (order by t desc nulls last)",
    "sum(a) over (order by t rows between 1 preceding and current row)",
    "percentile(a, 0.5) over ()",
    "count_if(a > 1) over ()",
]


def test_an_expression_that_was_read_and_written_again_means_the_same(spark):
    """sqlglot's text, not the person's, is what runs."""
    later = START + timedelta(hours=11)
    rows = [
        (1, 2, 1.5, "a1", START),
        (2, 2, float("nan"), "it's", later),
        (None, 3, None, None, None),
        (3, None, 0.0, "a_b2", later),
    ]
    frame = spark.createDataFrame(rows, "a int, b int, d double, s string, t timestamp").coalesce(1).cache()
    written = [parse_expression(text, "e", allow_windows=True).sql(dialect="spark") for text in EXPRESSIONS]
    both = []
    for texts in (EXPRESSIONS, written):
        columns = [F.expr(text).cast("string").alias(f"c{i}") for i, text in enumerate(texts)]
        both.append(frame.select("a", "b", *columns).orderBy("b", "a").collect())
    wanted, actual = ([row.asDict() for row in rows] for rows in both)
    changed = [
        (EXPRESSIONS[i], written[i])
        for i in range(len(written))
        if [r[f"c{i}"] for r in wanted] != [r[f"c{i}"] for r in actual]
    ]
    assert not changed
