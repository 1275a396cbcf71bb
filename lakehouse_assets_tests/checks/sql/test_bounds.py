"""Which texts SQL of the configuration may search, and how it says so. Pure; that Spark obeys is in the spec tests.

Belongs here: what the parsed tree becomes. Does not: which patterns are refused (test_patterns, test_hostile_sql).
"""

import pytest
from sqlglot import parse_one

from lakehouse_assets.checks.patterns import has_open_repeat
from lakehouse_assets.checks.sql.bounds import TOO_LONG
from lakehouse_assets.checks.sql.text import columns_of, parse_aggregate, parse_expression, parse_select

OPEN = [
    "v rlike 'a+b'",
    "not v regexp '^a*$'",
    "regexp_like(v, '^[a-z]+$')",
    "regexp_replace(v, '^ *a', '') = 'x'",
    "regexp_extract(v, '(a+)b', 1) = 'x'",
    "regexp_extract_all(v, 'a{2,}b')[0] = 'x'",
    "regexp_count(v, 'a+b') > 1",
    "regexp_instr(v, 'a+b') > 1",
    "regexp_substr(v, 'a+b') = 'x'",
    "split(v, ' *,')[0] = 'x'",
    "str_to_map(v, ' *,')['a'] = 'x'",
    "v like '%a%b'",
    "v like 'a_%_b'",
    "v ilike any ('a', '%a%b')",
    "v like '%ab/%' escape '/'",
    "lower(trim(v)) rlike 'a+b'",
    "filter(split(v, ','), x -> x rlike 'a+b')[0] = 'x'",
]
# However long the text is, it is passed over once.
PLAIN = [
    "v rlike '^[A-Z]{3}$'",
    "regexp_replace(v, '[^0-9]', '') = '1'",
    "regexp_replace(v, '\\\\s+', ' ') = '1'",
    "regexp_extract(v, '^x([0-9]+)', 1) = '1'",
    "split(v, ',')[0] = 'a'",
    "str_to_map(v, ';', '=')['a'] = '1'",
    "v like '%a%'",
    "v like 'a%b'",
    "v like 'a_c'",
    "v like all ('a%', '%b')",
    "'abc' rlike 'a+b'",
    "contains(v, 'a+b')",
]


@pytest.mark.parametrize("text", OPEN)
def test_a_text_that_an_open_pattern_searches_has_a_limit(text):
    tree = parse_expression(text, "expr")
    assert tree.sql(dialect="spark").count(TOO_LONG) == 1
    assert columns_of(tree) == {"v"}


@pytest.mark.parametrize("text", PLAIN)
def test_expressions_safe_for_any_text_stay_unchanged(text):
    assert parse_expression(text, "expr") == parse_one(text, dialect="spark")


@pytest.mark.parametrize(
    "tree",
    [
        parse_select("select v from batch where v rlike 'a+b' group by v", "sql"),
        parse_select("with a as (select v from batch where v rlike 'a+b') select * from a", "sql"),
        parse_aggregate("count_if(v rlike 'a+b')", "sql"),
        parse_expression("sum(cast(v rlike 'a+b' as int)) over (partition by w)", "expr", allow_windows=True),
    ],
    ids=["query", "with", "aggregate", "window"],
)
def test_it_has_one_wherever_sql_is_written(tree):
    assert TOO_LONG in tree.sql(dialect="spark")


def test_texts_within_texts_do_not_multiply():
    text = "v"
    for _ in range(30):
        text = f"regexp_replace({text}, 'a+b', 'x')"
    assert parse_expression(text, "expr").sql(dialect="spark").count(TOO_LONG) == 30


@pytest.mark.parametrize(
    ("pattern", "is_open"),
    [
        ("a", False),
        ("a+", False),
        ("ab*", False),
        ("(a+|b*)", False),
        ("x{2,9}y", False),
        ("(?=a+b)", True),
        ("a{2,}", True),
        ("(ab)+", True),
        ("a+$", True),
        ("(a+|b)c", True),
        ("(x*y|b)", True),
    ],
)
def test_which_patterns_are_open(pattern, is_open):
    assert has_open_repeat(pattern) is is_open
