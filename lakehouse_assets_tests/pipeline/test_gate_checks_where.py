"""Checks of a batch that look at some rows only, and what they tell of those that fail, on real Delta.

Belongs here: `where` of batch checks, and examples. Does not: `where` of row checks (spec, test_gate_checks).
"""

import json

import pytest

from lakehouse_assets.checks.families import BatchCheck
from lakehouse_assets.checks.registry import kinds
from lakehouse_assets_tests.support import heal, land, readings, rows_of, silver, window

# Sensor a: hours 1 and 2, one without a value. Sensor b: hours 1, 1 (of other times), 5, values of its own, later.
ROWS = [
    "a,1,10,2024-01-01T01:00:00Z",
    "a,2,NA,2024-01-01T02:00:00Z",
    "b,1,70,2024-01-01T08:00:00Z",
    "b,5,70,2024-01-01T20:00:00Z",
    "b,6,500,2024-01-01T23:00:00Z",  # removed by the range
]
RANGE = {"check": "in_range", "column": "value", "min": -100, "max": 100}
# Each passes for the rows of one sensor and fails for those of the other.
CASES = {
    "row_count": ({"max": 2}, "a", "b"),
    "null_share": ({"column": "value", "max": 0.1}, "b", "a"),
    "statistic": ({"column": "value", "of": "mean", "min": 50}, "b", "a"),
    "freshness": ({"column": "updated", "max_age": "10h"}, "b", "a"),
    "unique": ({"columns": ["value"]}, "a", "b"),
    "distinct_count": ({"columns": ["hour", "value"], "min": 2}, "b", "a"),
    "no_gaps": ({"column": "hour", "step": 1}, "a", "b"),
}


def warned(*checks):
    return readings(checks=[RANGE, *({**check, "severity": "warning"} for check in checks)])


def outcomes(spark, settings, spec):
    decision = heal(spark, settings, [1], spec).current[window(1)]
    return {outcome["check"]: outcome for outcome in decision.checks}


def test_every_kind_that_takes_where_looks_at_those_rows_only(spark, settings):
    assert set(CASES) == {name for name, kind in kinds().items() if issubclass(kind, BatchCheck) and kind.takes_where}
    land(settings, 1, ROWS)
    parameters = [
        {"check": kind, **more, "where": f"sensor = '{sensor}'", "name": f"{kind}_{ending}"}
        for kind, (more, passes, fails) in CASES.items()
        for ending, sensor in (("passes", passes), ("fails", fails))
    ]
    # Of no row it is said what is said of an empty batch; a where that is NULL means no row.
    parameters += [{"check": "row_count", "min": 1, "where": "value > 1000", "name": "none"}]
    parameters += [{"check": "row_count", "max": 2, "where": "value < 1000", "name": "null_is_not_true"}]
    by_check = outcomes(spark, settings, warned(*parameters))
    results = {name: (by_check[name]["status"], by_check[name]["message"]) for name in (check["name"] for check in parameters)}
    for kind in CASES:
        assert results[f"{kind}_passes"] == ("passed", ""), kind
        status, message = results[f"{kind}_fails"]
        assert status == "failed", kind
        assert "where sensor = " in message, kind
    assert results["none"] == ("failed", "0 rows where value > 1000, promised at least 1")
    # The removed row counts, the one without a value does not.
    assert results["null_is_not_true"] == ("failed", "4 rows where value < 1000, promised at most 2")


@pytest.mark.exhaustive(seconds=6)
def test_where_on_the_key_means_the_newest_row(spark, settings):
    twins = [f"{s},1,{v},2024-01-01T01:00:00Z" for s in "ab" for v in (1, 2)]
    land(settings, 1, twins)
    keys = [{"check": "unique", "columns": ["sensor", "hour"], "name": name} for name in ("of_a", "of_c")]
    by_check = outcomes(spark, settings, warned({**keys[0], "where": "sensor = 'a'"}, {**keys[1], "where": "sensor = 'c'"}))
    assert by_check["of_a"]["observed"] == {"duplicates": 1, "examples": ["(a, 1)"]}
    assert by_check["of_c"]["status"] == "passed"


@pytest.mark.exhaustive(seconds=6)
def test_a_where_with_an_unknown_column_or_that_stops_is_no_pass(spark, settings):
    land(settings, 1, ROWS)
    with pytest.raises(ValueError, match="nowhere"):
        warned({"check": "row_count", "max": 9, "where": "nowhere = 1"})
    spec = readings(checks=[RANGE, {"check": "row_count", "max": 9, "where": "1 / (hour - 1) > 0"}])
    decision = heal(spark, settings, [1], spec).current[window(1)]
    assert decision.verdict == "quarantined"
    assert {o["check"]: o["status"] for o in decision.checks}["row_count"] == "error"


PAIRS = [f"{s},{h},{v},2024-01-01T01:00:00Z" for s, h, v in [("a", 1, 7), ("b", 2, 7), ("c", 3, 8), ("d", 4, 8), ("e", 5, 9)]]
BY_SQL = {"check": "sql", "name": "pairs", "sql": "select value, count(*) as n from batch group by value having count(*) > 1"}


def test_a_failing_batch_check_gives_examples_of_each_window(spark, settings):
    """Blocking ones before the exchange, in the reasons of the rows that are held; others after it."""
    for day in (1, 2):
        land(settings, day, [row.replace(",7,", f",{day},") for row in PAIRS])
    land(settings, 3, PAIRS[-1:])
    spec = readings(checks=[{"check": "unique", "columns": ["value"]}, BY_SQL, {**BY_SQL, "name": "late", "severity": "info"}])
    published = heal(spark, settings, [1, 2, 3], spec)
    for day in (1, 2):
        by_check = {o["check"]: o for o in published.current[window(day)].checks}
        expected = [f"({float(day)}) on 2 rows", "(8.0) on 2 rows"]
        assert by_check["unique_value"]["observed"] == {"duplicates": 2, "examples": expected}
        assert by_check["unique_value"]["message"] == (
            f"2 value(s) of (value) on more than one row, such as {'; '.join(expected)}"
        )
        for name in ("pairs", "late"):
            assert [json.loads(text) for text in by_check[name]["observed"]["examples"]] == [
                {"value": float(day), "n": 2}, {"value": 8.0, "n": 2}
            ]  # fmt: skip
    assert published.current[window(3)].verdict == "published"
    quarantined_rows = rows_of(settings.path("quarantine", "readings"))
    assert all("(8.0) on 2 rows" in " ".join(row["batch_reasons"]) for row in quarantined_rows)
    assert len(quarantined_rows) == 10


@pytest.mark.exhaustive(seconds=15)
def test_examples_are_few_and_short_and_never_of_personal_columns(spark, settings):
    long = "x" * 500
    rows = [f"{long}{n},{h},{n},2024-01-01T01:00:00Z" for n in range(6) for h in (1, 2)]
    land(settings, 1, rows)
    checks = [
        {"check": "unique", "columns": ["sensor"], "severity": "warning"},
        {"check": "sql", "name": "twice", "sql": "select sensor from batch group by sensor", "severity": "warning"},
    ]
    columns = {"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp"}
    by_check = outcomes(spark, settings, readings(checks=checks))
    for name in ("unique_sensor", "twice"):
        examples = by_check[name]["observed"]["examples"]
        assert len(examples) == 3
        assert {len(text) for text in examples} == {200}
    land(settings, 1, rows[:-1])
    hidden = readings(checks=checks, columns={**columns, "sensor": {"type": "string", "pii": True}})
    by_check = outcomes(spark, settings, hidden)
    assert {name: by_check[name]["status"] for name in ("unique_sensor", "twice")} == dict.fromkeys(
        ("unique_sensor", "twice"), "failed"
    )
    assert "xxx" not in json.dumps(list(by_check.values()))


@pytest.mark.exhaustive(seconds=6)
def test_an_example_that_cannot_be_had_hides_no_failure(spark, settings):
    """The query returns a row whose value stops Spark only where somebody looks at it."""
    land(settings, 1, ROWS)
    by_zero = "select 1 / (a.hour - b.hour) as x from batch a join batch b on a.sensor = b.sensor"
    by_check = outcomes(spark, settings, warned({"check": "sql", "name": "zero", "sql": by_zero}))
    assert by_check["zero"]["message"] == "8 row(s) returned"
    assert by_check["zero"]["observed"] == {"rows_returned": 8, "examples": []}
    assert len(silver(settings)) == 4
