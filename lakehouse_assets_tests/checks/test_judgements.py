"""The parameters a check accepts and what its judgement does, at the edges. Pure: the main table is in `test_semantics`."""

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from lakehouse_assets.checks.base import CheckContext, Judgement
from lakehouse_assets.checks.judgements import consequence, judge_rows
from lakehouse_assets.checks.registry import AnyCheck, kinds

ANY = TypeAdapter(AnyCheck)
CONTEXT = CheckContext(("k", "t"), "p", "(p + INTERVAL 1 DAY)", "batch")


def row_check(**more):
    return ANY.validate_python({"check": "in_range", "column": "v", "min": 0, **more})


@pytest.mark.parametrize(
    ("more", "rows", "failed", "effect"),
    [
        ({"threshold": 0.99}, 100, 1, "rows"),
        ({"threshold": 0.99}, 10_000_000, 100_001, "batch"),  # 0.9899999, which is shown as 0.99
        ({"threshold": 1.0}, 10_000_000, 1, "batch"),
        ({"threshold": 0.5}, 0, 0, "none"),
        ({"threshold": 1.0, "severity": "warning"}, 10, 1, "report"),
        ({"threshold": 0.5, "on_fail": "warn"}, 10, 9, "report"),
        ({"threshold": 0.5, "on_fail": "quarantine_batch"}, 10, 6, "batch"),
    ],
    ids=str,
)
def test_thresholds_are_compared_by_count(more, rows, failed, effect):
    check = row_check(**more)
    assert consequence(check, judge_rows(check, rows, failed)) == effect


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_an_error_quarantines_the_batch_or_is_reported_and_a_skip_does_nothing(kind):
    example = yaml.safe_load(kinds()[kind].example)
    parameters = {name: value for name, value in example.items() if name not in ("severity", "threshold", "on_fail")}
    assert consequence(ANY.validate_python(parameters), Judgement("error")) == "batch"
    assert consequence(ANY.validate_python({**parameters, "severity": "info"}), Judgement("error")) == "report"
    assert consequence(ANY.validate_python(parameters), Judgement("skipped")) == "none"


@pytest.mark.parametrize(
    ("parameters", "values"),
    [
        ({"check": "unique", "columns": ["a"]}, {}),
        ({"check": "sql", "name": "s", "sql": "select v from batch group by v"}, {}),
        ({"check": "reconcile", "measure": "count(*)", "table": "t", "against": "count(*)"}, {}),
    ],
    ids=str,
)
def test_a_check_without_its_metrics_is_an_error(parameters, values):
    assert ANY.validate_python(parameters).judge(values, CONTEXT).status == "error"


def test_the_key_of_an_empty_batch_has_no_duplicates():
    unique = ANY.validate_python({"check": "unique", "columns": ["t", "k"]})
    assert unique.is_key(CONTEXT)
    assert unique.judge({}, CONTEXT).status == "passed"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"check": "in_range", "column": "v", "min": float("nan")}, "is no bound"),
        ({"check": "in_range", "column": "v", "max": True}, "true is no number"),
        ({"check": "in_range", "column": "v", "min": 1, "max": "2024-01-01"}, "different types"),
        ({"check": "in_set", "column": "v", "values": []}, "at least 1"),
        ({"check": "in_set", "column": "v", "values": ["a", 1]}, "number, text"),
        ({"check": "in_set", "column": "v", "values": ["NO", False]}, "boolean, text"),
        ({"check": "not_null", "column": "v", "name": "a b"}, "letters, digits"),
        ({"check": "not_null", "column": "v", "name": "a" * 101}, "at most 100"),
        ({"check": "not_null", "column": "v", "threshold": 1.5}, "less than or equal to 1"),
        ({"check": "not_null", "column": "v", "threshold": float("nan")}, "threshold"),
        ({"check": "not_null", "column": "v", "where": "rand() > 1"}, "another answer"),
        ({"check": "unique", "columns": ["a"], "where": "rand() > 1"}, "another answer"),
        ({"check": "unique", "columns": ["a"], "threshold": 0.5}, "threshold does not apply"),
        ({"check": "not_empty", "where": "v > 1"}, "where does not apply to not_empty"),
        (
            {"check": "sql", "name": "s", "sql": "select v from batch group by v", "where": "v > 1"},
            "choose the rows there",
        ),
        ({"check": "metric", "name": "m", "sql": "sum(v)", "min": 1, "where": "v > 1"}, "choose the rows there"),
        ({"check": "freshness", "column": "t", "max_age": "-1h"}, "not a duration"),
        (
            {"check": "reconcile", "measure": "count(*)", "table": "t", "against": "count(*)", "against_where": "a > :now"},
            "there are :window_start, :window_end",
        ),
        ({"check": "not_empty", "severity": "fatal"}, "'critical', 'warning' or 'info'"),
    ],
    ids=str,
)
def test_contradictions_are_refused(parameters, message):
    with pytest.raises(ValidationError) as caught:
        ANY.validate_python(parameters)
    assert message in str(caught.value)


def test_an_unknown_kind_lists_the_available_ones():
    with pytest.raises(ValidationError) as caught:
        ANY.validate_python({"check": "not_nul", "column": "v"})
    text = str(caught.value)
    assert "Input tag 'not_nul' found using 'check' does not match any of the expected tags" in text
    assert all(f"'{kind}'" in text for kind in kinds())


def test_checks_have_names_are_frozen_and_name_their_columns():
    check = ANY.validate_python({"check": "unique", "columns": ["origin", "time_hour"]})
    assert check.id == "unique_origin_time_hour"
    assert hash(check) == hash(ANY.validate_python(check.model_dump()))
    with pytest.raises(ValidationError, match="frozen"):
        check.name = "x"
    assert row_check(where="w > 1 and s.f = 2").columns_used == ("v", "s", "w")
    assert row_check(name="named").id == "named"


def test_no_kind_needs_spark_or_dagster():
    import subprocess
    import sys

    code = (
        "import lakehouse_assets.checks.registry, sys; print([m for m in ('pyspark', 'dagster', 'delta') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
