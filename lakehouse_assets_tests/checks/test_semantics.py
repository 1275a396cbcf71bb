"""Severity, thresholds, contradictions, and expressions that configuration may not contain. Pure."""

from datetime import UTC, date, datetime

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from lakehouse_assets.checks.base import Judgement
from lakehouse_assets.checks.judgements import consequence, judge_rows
from lakehouse_assets.checks.registry import AnyCheck, kinds
from lakehouse_assets.checks.sql.text import add_partition, identifier, literal, parse_expression, parse_select
from lakehouse_assets_tests.support import readings

ANY = TypeAdapter(AnyCheck)


def row_check(**more):
    return ANY.validate_python({"check": "in_range", "column": "v", "min": 0, **more})


@pytest.mark.parametrize(
    ("more", "failed", "status", "effect"),
    [
        ({}, 0, "passed", "none"),
        ({}, 1, "failed", "rows"),
        ({"threshold": 0.9}, 10, "failed", "rows"),
        ({"threshold": 0.9}, 11, "failed", "batch"),
        ({"on_fail": "quarantine_batch"}, 1, "failed", "batch"),
        ({"on_fail": "quarantine_batch", "threshold": 0.9}, 10, "passed", "none"),
        ({"on_fail": "warn"}, 1, "failed", "report"),
        ({"severity": "warning"}, 1, "failed", "report"),
        ({"severity": "warning", "threshold": 0.9}, 10, "passed", "none"),
        ({"severity": "info", "threshold": 0.9}, 11, "failed", "report"),
    ],
    ids=str,
)
def test_severity_decides_the_effect(more, failed, status, effect):
    check = row_check(**more)
    judged = judge_rows(check, 100, failed)
    assert (judged.status, consequence(check, judged)) == (status, effect)


def test_an_error_is_never_a_pass():
    error = Judgement("error")
    assert consequence(row_check(), error) == "batch"
    assert consequence(row_check(severity="warning"), error) == "report"


@pytest.mark.parametrize("name", kinds())
def test_a_rule_set_can_be_read_again(name):
    """It is kept with each decision as JSON, and judged by again."""
    check = ANY.validate_python(yaml.safe_load(kinds()[name].example))
    assert ANY.validate_json(check.model_dump_json()) == check


@pytest.mark.parametrize("bound", [1, 1.5, date(2024, 1, 2), datetime(2024, 1, 2, tzinfo=UTC)])
def test_a_bound_keeps_its_type_when_read_again(bound):
    check = row_check(min=bound)
    again = ANY.validate_json(check.model_dump_json())
    assert again == check
    assert type(again.min) is type(check.min)
    assert again.model_dump_json() == check.model_dump_json()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"check": "in_range", "column": "v", "min": 2, "max": 1}, "above max"),
        ({"check": "in_range", "column": "v"}, "needs min, max or both"),
        (
            {"check": "in_range", "column": "v", "min": 1, "severity": "warning", "on_fail": "quarantine_rows"},
            "contradicts severity",
        ),
        ({"check": "not_empty", "on_fail": "quarantine_rows"}, "names no single rows"),
        ({"check": "row_count", "min": 1, "threshold": 0.5}, "threshold does not apply"),
        ({"check": "not_null", "column": "v", "threshold": 0}, "greater than 0"),
        ({"check": "length", "column": "v", "min": 0}, "always passes"),
        ({"check": "row_count", "min": 0}, "always passes"),
        ({"check": "distinct_count", "columns": ["v"], "min": 0}, "always passes"),
        ({"check": "row_count_ratio", "min": 0}, "always passes"),
        ({"check": "null_share", "column": "v", "max": 1}, "less than 1"),
        ({"check": "in_range", "column": "v", "max": float("inf")}, "is no bound"),
        ({"check": "in_set", "column": "v", "values": [1.0, float("nan")]}, "only finite numbers"),
        *[
            ({"check": "not_null", "column": "v", "name": name}, "every table has a built-in check of this name")
            for name in ("readable_row", "cast_v", "CAST_amount", "drift", "key", "key_not_null", "new_columns", "grain")
        ],
        ({"check": "anomaly", "sql": "first(v)"}, "depends on the order of the rows"),
        ({"check": "metric", "sql": "any_value(v)", "max": 1}, "depends on the order of the rows"),
        ({"check": "length", "column": "v", "min": -1}, "greater than or equal to 0"),
        ({"check": "freshness", "column": "v", "max_age": "soon"}, "not a duration"),
        ({"check": "matches", "column": "v", "pattern": "("}, "does not compile"),
        ({"check": "matches", "column": "v", "pattern": "^(a|b)*$"}, "run for ever"),
        ({"check": "matches", "column": "v", "pattern": "^(.*a){12}$"}, "run for ever"),
        ({"check": "sql", "name": "x", "sql": "delete from batch"}, "only one SELECT"),
        ({"check": "sql", "name": "x", "sql": "select * from other"}, "only `batch`"),
        ({"check": "sql", "name": "x", "sql": "select * from batch where v > :now"}, ":now is not known"),
        ({"check": "not_nul", "column": "v"}, "does not match any of the expected tags"),
        ({"check": "not_null", "column": "v", "colour": 1}, "not known here"),
    ],
    ids=str,
)
def test_contradictory_parameters_are_refused_at_load(parameters, message):
    with pytest.raises(ValidationError, match=message):
        ANY.validate_python(parameters)


@pytest.mark.parametrize(
    "text",
    [
        "reflect('java.lang.System', 'getenv', 'HOME')",
        "java_method('java.lang.Runtime', 'getRuntime')",
        "(select max(v) from batch)",
        "exists(select 1)",
        "rand() < 0.5",
        "current_timestamp() > v",
        "uuid() = v",
        "monotonically_increasing_id()",
        "v --",
        "v /* hidden */",
        "v; drop table silver",
        "1=1) or (",
        "",
        "sum(v)",
        "v, w",
        "*",
    ],
)
def test_expressions_that_are_refused(text):
    with pytest.raises(ValueError, match="what"):
        parse_expression(text, "what")


def test_queries_of_more_than_a_filter_judge_the_batch():
    grouped = ANY.validate_python({"check": "sql", "name": "x", "sql": "select v from batch group by v having count(*) > 1"})
    assert (grouped.scope, grouped.effect) == ("batch", "quarantine_batch")
    assert parse_select("select 1 as a from batch", "sql").sql() == "SELECT 1 AS a FROM batch"


def test_names_and_values_are_quoted():
    assert identifier("a`b") == "`a``b`"
    assert identifier("x'; drop table y") == "`x'; drop table y`"
    assert literal("it's") in ("'it\\'s'", "'it''s'")
    assert literal(None) == "NULL"
    assert literal(True) == "TRUE"


def test_a_window_function_stays_within_its_batch_at_any_depth():
    tree = parse_expression("round(v - avg(v) over (partition by t), 6)", "f", allow_windows=True)
    text = add_partition(tree, "p_extracted_at").sql(dialect="spark")
    assert "PARTITION BY t, `p_extracted_at`" in text


def test_an_aggregate_may_have_a_filter_of_its_own_among_the_clean_rows():
    parameters = {"check": "metric", "name": "m", "sql": "count(*) filter (where value > 0 or hour = 1)", "max": 1}
    (check,) = readings(checks=[parameters]).checks
    assert check.columns_used == ("hour", "value")
    (sql,) = check.metrics(None).values()
    assert sql == "CAST(COUNT(*) FILTER(WHERE _clean AND (value > 0 OR hour = 1)) AS DOUBLE)"
    with pytest.raises(ValidationError, match="an aggregate within FILTER"):
        readings(checks=[{**parameters, "sql": "count(*) filter (where sum(value) > 0)"}])
    with pytest.raises(ValidationError, match="value is outside of any aggregate"):
        readings(checks=[{**parameters, "sql": "count(*) + value"}])


@pytest.mark.parametrize(
    ("check", "why"),
    [
        ({"check": "statistic", "column": "value", "of": "stddev", "max": -1}, "no standard deviation is below 0"),
        ({"check": "compare", "column": "value", "operator": "<", "other": "value"}, "is the column itself"),
        ({"check": "no_gaps", "column": "hour", "step": 1, "by": ["sensor", "hour"]}, "never a gap"),
        ({"check": "in_set", "column": "hour", "values": ["1", "two"]}, "hour is int, and 'two' is no int"),
        ({"check": "in_set", "column": "updated", "values": ["2024-01-01", "yesterday"]}, "'yesterday' is no timestamp"),
        ({"check": "country_code", "column": "hour"}, "hour is int, and a code is a text"),
    ],
)
def test_checks_that_never_fail_or_never_pass_are_refused_at_load(check, why):
    with pytest.raises(ValidationError, match=why):
        readings(checks=[check])


def test_texts_that_are_values_of_the_column_are_read_as_such():
    parameters = {"check": "in_set", "column": "hour", "values": ["1", " 2 ", "-3"]}
    assert readings(
        checks=[parameters, {**parameters, "column": "updated", "values": ["2024-01-01", "2024-01-01T00:00:00+00:00"]}]
    ).checks
