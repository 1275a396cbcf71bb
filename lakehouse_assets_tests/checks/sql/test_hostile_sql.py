"""Configuration never runs code: what an expression or a query may not hold, however it is spelled. Pure.

Belongs here: text that is refused, and the harmless text beside it that is not. Does not: what Spark makes of it (spec).
"""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from pydantic import TypeAdapter, ValidationError

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.checks.sql.guard import FORBIDDEN
from lakehouse_assets.checks.sql.text import add_partition, columns_of, identifier, literal, parse_aggregate, parse_expression

ANY = TypeAdapter(AnyCheck)
CONTEXT = CheckContext(("k",), "p_extracted_at", "(p_extracted_at + INTERVAL 1 DAY)", "batch_3")


def sql(query: str):
    return ANY.validate_python({"check": "sql", "name": "s", "sql": query})


@pytest.mark.parametrize("name", sorted(FORBIDDEN))
@pytest.mark.parametrize("form", ["{0}()", "{1}()", "`{0}`()", "system.builtin.{0}()", "v > 1 or coalesce({0}(), 1) = 1"])
def test_a_forbidden_function_is_refused_in_every_spelling(name, form):
    with pytest.raises(ValueError, match="what: "):
        parse_expression(form.format(name, name.upper()), "what", allow_windows=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("transform(v) using 'sh'", "TRANSFORM"),
        ("v = '${env:HOME}'", "Spark would put a setting in its place"),
        ("`${env:HOME}` = 1", "Spark would put a setting in its place"),
        ("@v = 1", "session variable"),
        ("@@v = 1", "session variable"),
        ("v = w := 1", "assignment"),
        (":window_end > v", "parameter"),
        ("? > v", "parameter"),
        ("sum(v) over w", "named one"),
        ("current_timestamp", "another answer"),
        ("current_date", "another answer"),
        ("cast('now' as timestamp)", "another answer"),
        ("timestamp 'now'", "another answer"),
        ("date ' Today '", "another answer"),
        ("try_cast('tomorrow UTC' as date)", "another answer"),
        ("current_time", "another answer"),
        ("localtimestamp", "another answer"),
        ("unix_timestamp() > 1", "another answer"),
        ("v from other", "not one SQL expression"),
        ("v as w", "not one SQL expression"),
        ("v in (select 1)", "subquery"),
        ("v = 'it''s'", "two strings side by side"),
        ("v /*+ hint */", "comments"),
        ("lenght(v) > 1", "Spark has no function lenght (in 'lenght(v) > 1'); there is length"),
        ("`Exec`('ls') = 1", "Spark has no function exec"),
        ("coalesce(v, system.builtin.getenv('HOME')) = 1", "Spark has no function getenv"),
        ("udf_of_mine(v)", "Spark has no function udf_of_mine"),
        ("filter(split(v, ','), x -> nope(x))[0] = 'a'", "Spark has no function nope"),
        ("repeat('x', 2000000000) = v", "how much it makes must be written as a number, at most 10,000"),
        ("repeat('x', 5 * v) = v", "how much it makes must be written as a number"),
        ("length(space(w)) = v", "how much it makes must be written as a number"),
        ("lpad(v, 20000, '0') = v", "at most 10,000"),
        ("size(array_repeat(v, w)) = 1", "how much it makes must be written as a number"),
        ("size(sequence(1, 100000)) = 1", "at most 10,000"),
        ("size(sequence(1, v)) = 1", "how much it makes must be written as a number"),
        ("size(sequence(-100000, 0, 2)) = 1", "at most 10,000"),
        ("size(sequence(1, 9, 0)) = 1", "at most 10,000"),
        ("repeat(repeat('x', 10000), 10000) = v", "within another function"),
        ("size(transform(sequence(1, 9000), x -> repeat('a', x))) = 1", "how much it makes must be written as a number"),
        ("size(transform(sequence(1, 9000), x -> rpad(x, 9000))) = 1", "within another function"),
        ("v -- x", "comments"),
        ("v;", "comments and `;`"),
        ("'a' ; 'b'", "comments and `;`"),
        ("'\\'; drop table x; --'", None),
        ("(" * 2000 + "v" + ")" * 2000, "nested too deeply"),
        ("v" + " + 1" * 10_000, "longer than"),
        ("not " * 4000 + "v", "nested too deeply"),
        ("   ", "empty"),
    ],
    ids=lambda v: str(v)[:40],
)
def test_an_expression_is_refused_by_name(text, message):
    if message is None:
        assert columns_of(parse_expression(text, "what")) == set()
        return
    with pytest.raises(ValueError, match="what: ") as caught:
        parse_expression(text, "what", allow_windows=True)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("v = '--'", {"v"}),
        ("v = ';' or v = '/*'", {"v"}),
        ("v = '$' and w = '{'", {"v", "w"}),
        ("unix_timestamp(v) > 1", {"v"}),
        ("raise_error('x')", set()),
        ("named_struct('a', v).a = 1", {"v"}),
        ("transform(split(v, ','), x -> trim(x))[0] = 'a'", {"v"}),
        ("s.field > 1", {"s"}),
        ("`strange name.x` > `w``z`", {"strange name.x", "w`z"}),
        ("v <=> 1 and w is not null", {"v", "w"}),
        ("1 + " * 100 + "v", {"v"}),
        ("lpad(v, 10, '0') = rpad(w, 10) || space(2)", {"v", "w"}),
        ("array_contains(sequence(0, 10000, 2), v)", {"v"}),
        ("size(sequence(v, w, interval 1 day)) < 8", {"v", "w"}),
    ],
    ids=lambda v: v[:40] if isinstance(v, str) else "",
)
def test_harmless_expressions_are_not_refused(text, columns):
    assert columns_of(parse_expression(text, "what")) == columns


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select transform(v) using 'echo pwned' as y from batch", "TRANSFORM"),
        ("select transform(v) using 'cat' from batch where v > 1", "TRANSFORM"),
        ("from batch select transform(v) using 'cat'", "TRANSFORM"),
        ("select * from (select transform(v) using 'cat' as y from batch)", "TRANSFORM"),
        ("with other as (select * from other) select * from other", "only `batch`"),
        ("with a as (select * from b), b as (select 1) select * from a", "only `batch`"),
        ("select * from (with a as (select 1) select * from a) join a", "only `batch`"),
        ("with recursive a as (select 1 union all select * from a) select * from a", "recursive"),
        ("with batch as (select 1) select * from batch", "one named `batch`"),
        ("select * from spark_catalog.default.batch", "only `batch`"),
        ("select * from default.batch", "only `batch`"),
        ("select * from csv.`/etc/passwd`", "only `batch`"),
        ("select * from delta.`/lake/silver/weather`", "only `batch`"),
        ("select * from identifier('other')", "function identifier"),
        ("select * from range(10)", "only `batch`"),
        ("select * from batch join other on true", "only `batch`"),
        ("select * from batch where v in (select v from other)", "only `batch`"),
        ("select * from batch tablesample (10 percent) where v > 1", "TABLESAMPLE"),
        ("select * from batch pivot (sum(v) for w in (1)) where v > 1", "PIVOT"),
        ("select * from batch version as of 3 where v > 1", "time travel"),
        ("select * from batch where v = '${env:HOME}'", "Spark would put a setting in its place"),
        ("select * from batch where reflect('a', 'b') = 1", "function reflect"),
        ("select * from batch where rand() > 0.5", "another answer"),
        ("select * from batch; drop table silver", "comments and `;`"),
        ("select * from batch union select * from batch", "only one SELECT"),
        ("select * into y from batch", "only reading"),
        ("insert into x select * from batch", "only one SELECT"),
        ("drop table x", "only one SELECT"),
        ("set spark.x = 1", "only one SELECT"),
        ("table batch", "only one SELECT"),
        ("select * from batch where v > ?", "is not known"),
        ("select * from batch where", "is not SQL"),
    ],
    ids=lambda v: str(v)[:60],
)
def test_a_query_is_refused_by_name(query, message):
    with pytest.raises(ValidationError) as caught:
        sql(query)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("query", "condition", "columns"),
    [
        ("select * from batch where v > 1", "(v > 1)", ("v",)),
        ("select v, w from batch where v > w", "(v > w)", ("v", "w")),
        ("select * from batch b where b.v > 1", "(v > 1)", ("v",)),
        ("select batch.* from batch where BATCH.v > 1", "(v > 1)", ("v",)),
        ("select * from BATCH where v", "(v)", ("v",)),
        ("select * from batch where batch.v", "(v)", ("v",)),
        ("select * from batch where s.f > 1", "(s.f > 1)", ("s",)),
        ("select * from batch where t >= :window_end", "(t >= (p_extracted_at + INTERVAL '1' DAY))", ("t",)),
        ("select * from batch where t < :window_start", "(t < p_extracted_at)", ("t",)),
    ],
)
def test_a_plain_filter_is_a_condition_of_the_row(query, condition, columns):
    check = sql(query)
    assert (check.scope, check.columns_used, check.effect) == ("row", columns, "quarantine_rows")
    assert check.condition(CONTEXT) == condition


@pytest.mark.parametrize(
    ("query", "bound"),
    [
        ("select * from batch", "FROM `batch_3` AS batch"),
        ("select * from batch where v > 1 limit 1", "FROM `batch_3` AS batch WHERE v > 1 LIMIT 1"),
        ("select distinct v from batch where v > 1", "SELECT DISTINCT v"),
        ("select v + 1 as w from batch where v > 1", "v + 1 AS w"),
        ("select * from batch as b(x) where x > 1", "`batch_3` AS b(x)"),
        ("select a.v from batch a join batch b on a.v = b.w where b.v > 1", "`batch_3` AS a INNER JOIN `batch_3` AS b"),
        ("select * from batch where batch.v in (select v from batch)", "(SELECT v FROM `batch_3` AS batch)"),
        ("select v from batch group by v having count(*) > 1", "GROUP BY v HAVING COUNT(*) > 1"),
        ("select * from batch where row_number() over (order by v) > 9", "OVER (ORDER BY v)"),
        ("with a as (select * from batch), b as (select * from a) select * from b", "`batch_3` AS batch"),
        ("select * from (select * from batch where t > :window_end)", "t > (p_extracted_at + INTERVAL '1' DAY)"),
    ],
    ids=lambda v: v[:60],
)
def test_any_other_query_judges_the_batch_and_keeps_its_names(query, bound):
    check = sql(query)
    assert (check.scope, check.effect) == ("batch", "quarantine_batch")
    assert bound.replace("INNER ", "") in check.query(CONTEXT).replace("INNER ", "")
    with pytest.raises(ValidationError, match="threshold does not apply"):
        ANY.validate_python({"check": "sql", "name": "s", "sql": query, "threshold": 0.5})


@pytest.mark.parametrize(
    "text",
    [
        "v rlike '(a|b)*$'",
        "not v regexp '(a|b)*$'",
        "regexp_like(v, '^(.*a){12}$')",
        "regexp(v, '(a+)+$')",
        "regexp_replace(v, '^(.*a){12}$', '') = 'x'",
        "regexp_extract(v, '(a|a)*$', 1) = 'x'",
        "regexp_count(v, '(a+)+$') > 1",
        "regexp_instr(v, '(a+)+$') > 1",
        "regexp_substr(v, '(a+)+$') = 'x'",
        "size(regexp_extract_all(v, '(a+)+$')) > 1",
        "split(v, '(a+)+$')[0] = 'x'",
        "v rlike r'(a+)+$'",
        "v rlike w",
        "v rlike concat('(a+)', '+$')",
        "v like '%a%a%a%a%a%a%a%a%b'",
        "v ilike '%a%A%b%c'",
        "not v like '%a%b%c%d' escape '/'",
        "v like any ('x', '%a%a%a%a%b')",
        "v like all ('%a%a%a%a%b')",
        "v like w",
        "like(v, concat('%', w))",
        "size(str_to_map(v, '(a+)+$')) > 0",
        "size(str_to_map(v, ',', '(a+)+$')) > 0",
        "size(str_to_map(v, w)) > 0",
    ],
)
def test_a_pattern_within_sql_is_bounded_too(text):
    with pytest.raises(ValueError, match=r"run for ever|must be written out|the pattern"):
        parse_expression(text, "expr")


@pytest.mark.parametrize(
    "text",
    [
        "v rlike '^[A-Z]{3}$'",
        r"v rlike r'^\d+$'",
        "regexp_replace(v, '[^0-9]', '') = '1'",
        "split(v, ',')[0] = 'a'",
        "v like '%a%'",
        "v like 'a%b%%'",
        "v like '%a%b%'",
        "v like '/%/%/%/%/%' escape '/'",
        r"v not like '\\%\\%\\%\\%'",
        "v like any ('x%', '%y')",
        "str_to_map(v)['a'] = '1'",
        "str_to_map(v, ';', '=')['a'] = '1'",
        "split_part(v, ',', 1) = 'a'",
        "split_part(v, w, 1) = 'a'",
    ],
)
def test_a_plain_pattern_within_sql(text):
    assert parse_expression(text, "expr")


@pytest.mark.parametrize(
    "text",
    ["listagg(v, ',') = 'a'", "string_agg(v) = 'a'", "mode(v)", "max_by(v, w)", "min_by(v, w) + 1", "collect_list(v)[0]"],
)
def test_an_aggregate_that_hangs_on_the_order_is_refused(text):
    with pytest.raises(ValueError, match="depends on the order of the rows"):
        parse_aggregate(text, "sql")


@pytest.mark.parametrize(
    "text",
    [
        "cast(concat('no', 'w') as timestamp) > v",
        "to_date('tod' || 'ay') = v",
        "v > lower('N' || 'OW')",
        "v > split('today,x', ',')[0]",
        "v > cast(replace('xnow', 'x', '') as timestamp)",
        "v > coalesce(null, reverse('won'))",
        "v > chr(110) || chr(111) || chr(119)",
    ],
)
def test_a_moving_time_that_spark_would_put_together_is_refused(text):
    with pytest.raises(ValueError, match="write out the text that it is"):
        parse_expression(text, "expr")


@pytest.mark.parametrize(
    "text",
    [
        "v > date '2024-01-01' + interval '1' day",
        "v > to_date('2024-01-01')",
        "v > date_trunc('month', timestamp '2024-01-05')",
        "concat('a', v) = 'ab'",
        "array_contains(array('a', 'b'), v)",
        "map('a', 1)[v] > 0",
        "transform(split(v, ','), x -> concat('a', x))[0] = 'ab'",
        "coalesce(v, 'no') = 'no'",
        "length('abc') < v",
        "concat('$', '{env:HOME}') = v",
        """get_json_object('{"a":1}', '$.a') = v""",
    ],
)
def test_constants_that_make_no_text_are_not(text):
    assert parse_expression(text, "expr")


@pytest.mark.parametrize("text", ["v < 'now'", "to_date('today') > v", "v between ' yesterday ' and v", "v > 'NOW UTC'"])
def test_a_moving_time_is_refused_anywhere_in_a_query(text):
    with pytest.raises(ValueError, match="another answer each time"):
        parse_expression(text, "expr")


def test_a_text_that_begins_like_one_is_not():
    assert parse_expression("v = 'now or never, dear'", "expr")


def test_a_parameter_within_a_string_is_text():
    assert sql("select * from batch where v = ':window_end'").condition(CONTEXT) == "(v = ':window_end')"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (-5, "-5"),
        (date(33, 4, 3), "DATE '0033-04-03'"),
        (datetime(33, 4, 3, tzinfo=UTC), "TIMESTAMP '0033-04-03 00:00:00.000000Z'"),
        (datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=2))), "TIMESTAMP '2023-12-31 23:00:00.000000Z'"),
        (float("nan"), "CAST('nan' AS DOUBLE)"),
        ("${env:HOME}", "CONCAT('$', '{env:HOME}')"),
        ("$\0{", "'$\\0{'"),
    ],
)
def test_literals(value, text):
    assert literal(value) == text


def test_values_without_a_literal_and_unsafe_names_are_refused():
    with pytest.raises(TypeError, match="dict"):
        literal({"a": 1})
    with pytest.raises(ValueError, match="Spark would replace"):
        identifier("${env:HOME}")


def test_every_window_function_is_partitioned_even_within_another():
    tree = parse_expression("sum(v - lag(v) over (order by t)) over (partition by s)", "f", allow_windows=True)
    text = add_partition(tree, "p_extracted_at").sql(dialect="spark")
    assert text.count("`p_extracted_at`") == 2
    assert "p_extracted_at" not in tree.sql(dialect="spark"), "the given tree is left as it was"
