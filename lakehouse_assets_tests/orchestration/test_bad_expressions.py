"""Checks and expressions of a `defs.yaml` that Spark would refuse: a ConfigError that names the line, before anything runs.

Belongs here: functions, types and conditions. Does not: keys and values (test_bad_config), or what Spark has (spec).
"""

import pytest

from lakehouse_assets_tests.orchestration.table_text import GOOD, names, refused


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("max: 10", "max: 10, where: lenght(sensor) > 1", 13, "Spark has no function lenght"),
        ("value: double", "value: {type: double, expr: rond(value)}", 10, "Spark has no function rond"),
        ("  checks:", "  drift: {features: [{name: d, expr: absolute(value)}]}\n  checks:", 11, "no function absolute"),
        ("mode: upsert", "mode: upsert, delete_when: isnul(value)", 6, "Spark has no function isnul"),
        ("not_empty}", 'sql, name: s, sql: "select median2(value) m from batch"}', 12, "no function median2"),
        ("not_empty}", "metric, name: m, sql: sum(to_numbr(value)), max: 1}", 12, "no function to_numbr"),
    ],
)
def test_a_function_that_spark_has_not(load, old, new, line, expected):
    message = refused(load, GOOD.replace(old, new, 1))
    assert names(message, line), message
    assert expected in message


@pytest.mark.parametrize(
    ("kind", "check", "expected"),
    [
        ("boolean", "{check: in_range, column: value, min: 0}", "value is boolean, which Spark does not compare with a number"),
        ("date", "{check: in_range, column: value, max: 10}", "value is date, which Spark does not compare with a number"),
        ("double", "{check: in_range, column: value, min: 2024-01-01}", "does not compare with a date"),
        ("timestamp", "{check: in_set, column: value, values: [1, 2]}", "does not compare with a number"),
        ("binary", "{check: latitude, column: value}", "does not compare with a number"),
        ("boolean", "{check: in_past, column: value}", "value is boolean, of which Spark makes no timestamp"),
        ("date", "{check: statistic, column: value, of: mean, min: 0}", "value is date, of which Spark makes no number"),
        ("boolean", '{check: compare, column: updated, operator: "<", other: value}', "updated is timestamp, which Spark"),
    ],
)
def test_a_type_that_spark_refuses(load, kind, check, expected):
    text = GOOD.replace("value: double", f"value: {kind}\n    updated: timestamp")
    message = refused(load, text.replace("{check: in_range, column: value, min: 0, max: 10}", check))
    assert names(message, 14), message
    assert "checks.1 (" in message
    assert expected in message


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("{check: expression, name: c, expr: value}", "'value' is double, and no condition"),
        ("{check: expression, name: c, expr: value + 1}", "'value + 1' is arithmetic, and no condition"),
        ("{check: expression, name: c, expr: (updated)}", "'(updated)' is timestamp, and no condition"),
        ("{check: conditional, name: c, when: value, then: sensor is null}", "'value' is double, and no condition"),
        ("{check: conditional, name: c, when: sensor is null, then: value * 2}", "'value * 2' is arithmetic"),
        ("{check: sql, name: c, sql: select * from batch where value}", "'value' is double, and no condition"),
        ("{check: not_null, name: c, column: sensor, where: value % 2}", "'value % 2' is arithmetic, and no condition"),
        ("{check: metric, name: c, sql: max(sum(value)), max: 1}", "an aggregate of an aggregate"),
        ("{check: unique, name: c, columns: [sensor, value, Sensor]}", "Sensor is listed twice"),
        ("{check: exactly_one_of, name: c, columns: [sensor, sensor]}", "sensor is listed twice"),
    ],
)
def test_checks_that_can_never_be_judged_are_refused(load, check, expected):
    text = GOOD.replace("value: double", "value: double\n    updated: timestamp")
    message = refused(load, text.replace("{check: in_range, column: value, min: 0, max: 10}", check))
    assert names(message, 14), message
    assert expected in message
