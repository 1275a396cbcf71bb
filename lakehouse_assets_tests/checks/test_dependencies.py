"""`depends_on`: what may be said, in which order checks are judged, and that a skipped check lets nothing through. Pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.dependencies import in_order, is_deferred, row_prerequisites
from lakehouse_assets.decisions import gate
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.decisions.verdict import verdict_of
from lakehouse_assets_tests.support import readings

CONTEXT = CheckContext(("sensor", "hour"), "TIMESTAMP '2024-01-01'", "TIMESTAMP '2024-01-02'", "batch")
HAS_VALUE = {"check": "not_null", "column": "value", "name": "has_value"}
SMALL = {"check": "in_range", "column": "value", "max": 100, "name": "small", "depends_on": ["has_value"]}
MEAN = {"check": "statistic", "column": "value", "of": "mean", "max": 50, "name": "mean", "depends_on": ["has_value"]}


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ([SMALL], "checks.0.depends_on: there is no check 'has_value' to depend on; there are none"),
        ([{**HAS_VALUE, "depends_on": ["small"]}, SMALL], "wait for each other"),
        ([{**HAS_VALUE, "depends_on": ["has_value"]}], "wait for each other"),
        ([{**HAS_VALUE, "severity": "warning"}, SMALL], "small can hold something, and has_value cannot"),
        ([{**HAS_VALUE, "on_fail": "quarantine_batch", "threshold": 0.9}, SMALL], "within its threshold are published"),
        (
            [
                {"check": "unique", "columns": ["value"], "name": "u", "severity": "warning"},
                {**MEAN, "depends_on": ["u"], "severity": "info"},
            ],
            "u is a deferred check: it runs after publishing",
        ),
        (
            [{"check": "row_count_ratio", "min": 0.5, "name": "r"}, {**MEAN, "depends_on": ["r"]}],
            "r looks back, and is skipped where there are too few windows",
        ),
    ],
)
def test_impossible_dependencies_are_refused(checks, message):
    with pytest.raises(ValidationError, match="checks") as refused:
        readings(checks=checks)
    assert message in str(refused.value)


def test_gold_is_refused_the_same():
    gold = {"name": "g", "sql": "g.sql", "key": ["a"], "checks": [SMALL]}
    with pytest.raises(ValidationError, match="no check 'has_value' to depend on"):
        readings(gold=[gold])


def test_the_order_and_the_rows():
    spec = readings(checks=[{**SMALL, "name": "third", "depends_on": ["small"]}, SMALL, HAS_VALUE])
    third, small, first = spec.checks
    assert [c.id for c in in_order(spec.checks)] == ["has_value", "small", "third"]
    assert [c.id for c in row_prerequisites(third, spec.checks)] == ["has_value", "small"], "each after its own"
    assert {c.id for c in row_prerequisites(small, spec.checks, waived={"has_value"})} == set()
    assert row_prerequisites(first, spec.checks) == []


def test_a_batch_check_hides_no_rows():
    """Rows that fail the first may be published: the last must look at them."""
    tolerant = {**HAS_VALUE, "on_fail": "quarantine_batch", "threshold": 0.9}
    last = {"check": "in_range", "column": "hour", "min": 0, "name": "last", "depends_on": ["mean"]}
    spec = readings(checks=[tolerant, MEAN, last])
    assert row_prerequisites(spec.checks[2], spec.checks) == []


def test_an_unjudged_check_skips_its_dependents():
    spec = readings(checks=[HAS_VALUE, MEAN])
    (outcome,) = gate.judge_checks(spec.checks[1:], CONTEXT, NUMBERS["all is well"], ())
    assert (outcome.status, outcome.message) == ("skipped", "not judged: has_value was not judged")


NUMBERS = {
    "all is well": BatchNumbers(4, metrics={"mean": {"value": 5.0}}),
    "rows without a value": BatchNumbers(4, failed_rows={"has_value": 2}, metrics={"mean": {"value": 500.0}}),
    "an error": BatchNumbers(4, errors={"has_value": "stopped"}, metrics={"mean": {"value": 500.0}}),
}


@pytest.mark.parametrize(
    ("more", "numbers", "small", "mean"),
    [
        ({}, "all is well", "passed", "passed"),
        # The rows without a value are removed: what is left is judged.
        ({}, "rows without a value", "passed", "failed"),
        ({"threshold": 0.9}, "rows without a value", "skipped", "skipped"),
        ({"on_fail": "quarantine_batch"}, "rows without a value", "skipped", "skipped"),
        ({}, "an error", "skipped", "skipped"),
    ],
    ids=str,
)
def test_skipped_or_judged(more, numbers, small, mean):
    spec = readings(checks=[SMALL, {**HAS_VALUE, **more}, MEAN])
    outcomes = {o.check: o for o in gate.judge_checks(spec.checks, CONTEXT, NUMBERS[numbers], ())}
    assert (outcomes["small"].status, outcomes["mean"].status) == (small, mean)
    for outcome in outcomes.values():
        if outcome.status == "skipped":
            assert outcome.effect == "none"
            assert "has_value" in outcome.message


def test_a_dependent_of_a_skipped_check_is_skipped():
    spec = readings(checks=[SMALL, HAS_VALUE, {**MEAN, "depends_on": ["small"]}])
    outcomes = gate.judge_checks(spec.checks, CONTEXT, NUMBERS["an error"], ())
    assert [o.status for o in outcomes] == ["skipped", "error", "skipped"]
    assert outcomes[2].message == "not judged: small was skipped"


def test_a_waived_check_skips_no_dependents():
    spec = readings(checks=[SMALL, HAS_VALUE, MEAN])
    outcomes = gate.judge_checks(spec.checks, CONTEXT, NUMBERS["an error"], (), waived=["has_value"])
    assert [o.status for o in outcomes] == ["passed", "error", "failed"]


KINDS = [
    {"check": "in_range", "column": "value", "max": 1},
    {"check": "statistic", "column": "value", "of": "mean", "max": 1},
]


@given(st.data())
def test_a_blocking_check_is_skipped_only_in_a_quarantined_batch(data):
    """Fail closed: nothing is published that a critical check was to look at, and did not."""
    count = data.draw(st.integers(2, 5))
    checks = []
    for index in range(count):
        check = {**data.draw(st.sampled_from(KINDS)), "name": f"c{index}"}
        check["severity"] = data.draw(st.sampled_from(["critical", "warning"]))
        if check["check"] == "in_range":
            check["threshold"] = data.draw(st.sampled_from([None, 0.5]))
            if check["severity"] == "critical":
                check["on_fail"] = data.draw(st.sampled_from([None, "quarantine_batch"]))
        check["depends_on"] = data.draw(st.lists(st.sampled_from([f"c{i}" for i in range(count)]), unique=True, max_size=2))
        checks.append({k: v for k, v in check.items() if v is not None})
    try:
        spec = readings(checks=checks)
    except ValidationError:
        return
    failed = {c.id: data.draw(st.integers(0, 4)) for c in spec.checks if c.scope == "row"}
    means = {c.id: {"value": data.draw(st.sampled_from([0.0, 5.0]))} for c in spec.checks if c.scope == "batch"}
    wrong = data.draw(st.sets(st.sampled_from([c.id for c in spec.checks]), max_size=2))
    numbers = BatchNumbers(4, failed_rows=failed, metrics=means, errors=dict.fromkeys(wrong, "stopped"))
    outcomes = gate.judge_checks(spec.checks, CONTEXT, numbers, ())
    if any(o.status == "skipped" and c.blocking for o, c in zip(outcomes, spec.checks, strict=True)):
        assert verdict_of(outcomes, numbers)[0] == "quarantined"


def test_which_checks_run_after_the_exchange():
    spec = readings(
        checks=[
            {"check": "unique", "columns": ["value"], "name": "held"},
            {"check": "unique", "columns": ["value"], "name": "late", "severity": "warning"},
            {"check": "unique", "columns": ["hour", "sensor"], "name": "on_key", "severity": "warning"},
            {"check": "sql", "name": "filter", "sql": "select * from batch where value > 1", "severity": "info"},
            {"check": "sql", "name": "query", "sql": "select sensor from batch group by sensor", "on_fail": "warn"},
            {"check": "statistic", "column": "value", "of": "mean", "max": 1, "severity": "warning"},
        ]
    )
    assert [c.id for c in spec.checks if is_deferred(c, CONTEXT)] == ["late", "query"]
