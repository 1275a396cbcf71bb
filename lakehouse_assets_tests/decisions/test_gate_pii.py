"""Nothing that a gate says may quote a value of a column marked `pii`, whatever failed and however.

Belongs here: messages and figures of outcomes. Does not: rows' reasons (layers), or listings.
"""

import json
from datetime import UTC, datetime

import pytest

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.decisions import gate
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets_tests.support import readings

SECRET = "ann@example.com"
COLUMNS = {
    "sensor": {"type": "string", "pii": True},
    "hour": "int",
    "value": "double",
    "updated": {"type": "timestamp", "pii": True},
}
CONTEXT = CheckContext(("sensor",), "TIMESTAMP '2024-01-01'", "TIMESTAMP '2024-01-02'", "batch")


def test_the_error_of_a_cast_and_of_an_unreadable_record():
    spec = readings(columns=COLUMNS, checks=[])
    errors = dict.fromkeys(["cast_sensor", "readable_row", "key_not_null"], f"[CAST_INVALID_INPUT] The value '{SECRET}' is …")
    outcomes = gate.built_in(spec, BatchNumbers(rows_in=1, errors=errors))
    assert {o.message for o in outcomes if o.status == "error"} == {f"[CAST_INVALID_INPUT] {gate.MASKED}"}
    # A value of another column may stand there, where the header is wrong.
    neighbour = BatchNumbers(rows_in=1, errors={"cast_hour": f"[CAST_INVALID_INPUT] '{SECRET}'"})
    assert [o.message for o in gate.built_in(spec, neighbour) if o.status == "error"] == [f"[CAST_INVALID_INPUT] {gate.MASKED}"]
    plain = gate.built_in(readings(checks=[]), neighbour)
    assert [o.message for o in plain if o.status == "error"] == [f"[CAST_INVALID_INPUT] '{SECRET}'"]


@pytest.mark.parametrize(("value", "spelling"), [("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")])
def test_observed_values_are_json_spelt_as_in_events(value, spelling):
    spec = readings(checks=[{"check": "statistic", "column": "value", "of": "mean", "min": 0, "max": 1}])
    numbers = BatchNumbers(rows_in=1, metrics={"statistic_mean_value": {"value": float(value)}})
    (outcome,) = gate.judge_checks(spec.checks, CONTEXT, numbers, ())
    assert json.loads(json.dumps(outcome.as_dict(), allow_nan=False))["observed"]["value"] == spelling


def test_a_check_masks_personal_values():
    checks = [
        {"check": "freshness", "column": "updated", "max_age": "1h"},
        {"check": "sql", "name": "none", "sql": "select sensor from batch group by sensor having count(*) > 1"},
        {"check": "in_set", "column": "sensor", "values": ["b"]},
    ]
    spec = readings(columns=COLUMNS, checks=checks)
    numbers = BatchNumbers(
        rows_in=2,
        failed_rows={"in_set_sensor": 1},
        metrics={"freshness_updated": {"newest": int(datetime(1980, 1, 1, tzinfo=UTC).timestamp() * 1e6)}},
        errors={"none": f"'{SECRET}' cannot be cast"},
    )
    outcomes = {o.check: o for o in gate.judge_checks(spec.checks, CONTEXT, numbers, spec.pii_columns)}
    assert outcomes["none"].message == gate.MASKED
    assert "1980" not in str(outcomes["freshness_updated"])
    assert outcomes["in_set_sensor"].message.startswith("1 of 2 rows"), "a count is no value"


@pytest.mark.parametrize("personal", [True, False])
def test_a_reconciliation_by_group_names_no_group_of_a_table_with_personal_columns(personal):
    columns = {**COLUMNS, "city": "string"} if personal else {"sensor": "string", "hour": "int", "city": "string"}
    by_city = {"check": "reconcile", "measure": "count(*)", "table": "other", "against": "count(*)", "by": {"city": "city"}}
    spec = readings(columns=columns, key=["hour"], last_modified="hour", checks=[by_city])
    [check] = spec.checks
    metrics = {check.id: {"groups": 2, "differing": 1, "lacking": 0, "worst": json.dumps({"city": SECRET})}}
    [outcome] = gate.judge_checks(spec.checks, CONTEXT, BatchNumbers(rows_in=1, metrics=metrics), spec.pii_columns)
    assert (outcome.status, outcome.observed["groups"]) == ("failed", 2)
    assert (SECRET in str(outcome)) == (not personal)
