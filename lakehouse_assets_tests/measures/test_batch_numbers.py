"""The numbers of typed rows: the same as those of rows that are cast, in as few Spark jobs however many the rules.

Belongs here: what only real Spark can say of them. Does not: each kind's SQL (spec), or what a number means (decisions).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter

from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.check_context import check_context
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.gate import judge_checks
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures.batch_numbers import MeasurePlan, measure_batches
from lakehouse_assets.measures.batches import (
    Broken,
    batches_of,
    errors_by_batch,
    evaluate,
    one_of_each_window,
    row_probes,
    stage_or_isolate,
)
from lakehouse_assets.measures.order_span import SPAN
from lakehouse_assets.measures.profile import measure_profiles
from lakehouse_assets.measures.scan import READABLE
from lakehouse_assets.measures.stage import declared_rules
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.gate import measure, run_steps, stage
from lakehouse_assets.pipeline.silver import SilverTarget
from lakehouse_assets.pipeline.staging import flag_rows
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests.support import land, readings, runner, window

SPEC = readings()
CONTEXT = check_context(SPEC)
FIRST, SECOND = ((datetime(2024, 1, day, tzinfo=UTC), 1) for day in (1, 2))
ROWS = [
    ("a", 1, 1.0, "2024-01-01 01:00:00", "2024-01-01"),
    ("a", 2, 500.0, "2024-01-01 02:00:00", "2024-01-01"),
    ("b", 1, None, "2024-01-01 01:00:00", "2024-01-01"),
    ("b", 1, 7.0, "2024-01-01 01:00:00", "2024-01-01"),
    (None, 1, 1.0, "2024-01-02 01:00:00", "2024-01-02"),
    ("c", 2, 1.0, "2024-01-02 02:00:00", "2024-01-02"),
]


def checks(*declared: dict[str, Any]) -> list:
    return [TypeAdapter(AnyCheck).validate_python(check) for check in declared]


def measure_checks(frame, checked, context, others=None, broken=None) -> dict[Batch, BatchNumbers]:
    """As the gate measures rows that it has staged."""
    plan = MeasurePlan(checked, context, [rule.id for rule in declared_rules(checked, context)], personal=False)
    return measure_batches(flag_rows(frame, checked, context, others, broken), plan, errors=errors_by_batch(broken or {}))


def find_broken(frame, checked, context) -> Broken:
    """As the gate finds the checks that stop a staging."""

    def compute(rows):
        evaluate(rows)
        return rows

    def build(rows, broken):
        return flag_rows(rows, checked, context, broken=broken)

    def probes():
        return row_probes(checked, lambda rows, some: flag_rows(rows, some, context))

    return stage_or_isolate(frame, batches_of(frame), build, probes, compute, {}, personal=False)[1]


@pytest.fixture(scope="module")
def typed(spark, tmp_path_factory):
    """Two windows of typed rows in a Delta table."""
    path = str(tmp_path_factory.mktemp("typed") / "table")
    rows = spark.createDataFrame(ROWS, "sensor string, hour int, value double, updated string, p_extracted_at string")
    types = ("sensor", "hour", "value", "cast(updated AS timestamp) AS updated", "cast(p_extracted_at AS timestamp)")
    rows.selectExpr(*types, "1 AS extraction_seq").coalesce(1).write.format("delta").save(path)
    return spark.read.format("delta").load(path)


@pytest.fixture(scope="module")
def plain(spark, typed, tmp_path_factory):
    """The same rows as Parquet, where to find the files of a query takes no job: Delta takes one each time."""
    path = str(tmp_path_factory.mktemp("plain") / "table")
    typed.write.parquet(path)
    return spark.read.schema(typed.schema).parquet(path)


@contextmanager
def jobs(spark) -> Iterator[list[int]]:
    """Spark jobs in the block. Without adaptive execution a query is one job, whatever is shuffled for it."""
    scheduler, adaptive = spark._jsc.sc().dagScheduler(), spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    job_counts: list[int] = []
    before = scheduler.numTotalJobs()
    try:
        yield job_counts
        job_counts.append(scheduler.numTotalJobs() - before)
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)


def test_failing_rows_and_metrics_of_each_window(typed):
    checked = checks(
        {"check": "not_null", "column": "sensor"},
        {"check": "in_range", "column": "value", "min": 0, "max": 100, "severity": "warning"},
        {"check": "not_null", "column": "value", "where": "sensor = 'b'", "severity": "info", "name": "b_has_values"},
        {"check": "metric", "name": "most", "sql": "max(value)", "max": 100},
        {"check": "unique", "columns": ["value", "hour"]},
        {"check": "distinct_count", "columns": ["sensor"], "min": 1},
    )
    results = measure_checks(typed, checked, CONTEXT)
    assert sorted(results) == [FIRST, SECOND]
    first, second = results[FIRST], results[SECOND]
    assert first.failed_rows == {"not_null_sensor": 0, "in_range_value": 1, "b_has_values": 1}
    assert second.failed_rows == {"not_null_sensor": 1, "in_range_value": 0, "b_has_values": 0}
    assert (first.rows_in, first.failing, second.rows_in, second.failing) == (4, 0, 2, 1)
    # The row without a sensor would be held: it is not among those that the batch is judged by.
    assert (first.metrics["most"]["value"], second.metrics["most"]["value"]) == (500.0, 1.0)
    assert (first.metrics["distinct_count_sensor"], second.metrics["distinct_count_sensor"]) == (
        {"distinct_values": 2},
        {"distinct_values": 1},
    )
    assert first.metrics["unique_value_hour"] == {"duplicates": 0}
    assert first.errors == second.errors == {}


def test_the_key_counts_contradicting_rows(typed):
    (check,) = checks({"check": "unique", "columns": ["sensor", "hour"]})
    results = measure_checks(typed, [check], CONTEXT)
    expected = [{"duplicates": 1, "examples": ["(b, 1)"]}, {"duplicates": 0}]
    assert [results[batch].metrics[check.id] for batch in (FIRST, SECOND)] == expected
    assert (results[FIRST].rows_in, results[FIRST].newest, results[FIRST].key_conflicts) == (4, 3, 1)


def test_a_threshold_is_a_share_of_the_selected_rows(typed):
    """Of the first window's rows `where` means two, of which one passes; of the second's none."""
    checked = checks(
        {"check": "not_null", "column": "value", "where": "sensor = 'b'", "threshold": 0.7, "name": "b"},
        {
            "check": "sql",
            "sql": "select * from batch where value is null",
            "where": "1 / hour = 1",
            "threshold": 0.7,
            "name": "s",
        },
        {"check": "not_null", "column": "value", "where": "1 / (hour - 1) > 0", "threshold": 0.7, "name": "broken"},
        {"check": "not_null", "column": "value", "where": "sensor = 'b'", "name": "uncounted"},
    )
    results = measure_checks(typed, checked, CONTEXT, broken=find_broken(typed, checked, CONTEXT))
    assert results[FIRST].metrics == {"b": {"looked_at": 2}, "s": {"looked_at": 3}, "broken": {}}
    assert results[SECOND].metrics["b"] == {"looked_at": 0}
    first = judge_checks(checked, CONTEXT, results[FIRST], ())
    assert [(o.status, o.effect) for o in first] == [
        ("failed", "batch"),
        ("failed", "batch"),
        ("error", "batch"),
        ("failed", "rows"),
    ]
    assert first[0].message == "1 of 2 rows: not value present (passed 50.00%, promised 70.00%)"
    second = judge_checks(checked, CONTEXT, results[SECOND], ())
    assert [o.status for o in second] == ["passed", "passed", "error", "passed"]
    uncounted = judge_checks(checked[:1], CONTEXT, BatchNumbers(rows_in=4, failed_rows={"b": 1}), ())
    assert uncounted[0].status == "error", "what was not counted is no pass"


def test_a_check_that_stops_the_scan_is_in_error_and_stops_no_other(typed):
    checked = checks(
        {"check": "expression", "name": "divides", "expr": "1 / (hour - 1) > 0"},
        {"check": "metric", "name": "overflows", "sql": "sum(1 / (hour - 2))", "max": 1},
        {"check": "in_range", "column": "value", "max": 100},
        {"check": "metric", "name": "least", "sql": "min(value)", "min": 0},
    )
    results = measure_checks(typed, checked, CONTEXT, broken=find_broken(typed, checked, CONTEXT))
    # The row of the first window by whose hour the metric divides is out of range, and so none that it is made of.
    assert (results[FIRST].errors.keys(), results[SECOND].errors.keys()) == ({"divides"}, {"divides", "overflows"})
    for batch in (FIRST, SECOND):
        assert "DIVIDE_BY_ZERO" in results[batch].errors["divides"]
        assert results[batch].metrics["least"] == {"value": 1.0}
    assert results[FIRST].failed_rows["in_range_value"] == 1


def test_a_foreign_key_reads_another_table(typed, spark):
    (check,) = checks({"check": "foreign_key", "columns": ["sensor"], "table": "sensors", "to": ["id"]})
    others = {"sensors": spark.createDataFrame([("a",), ("c",)], "id string")}
    results = measure_checks(typed, [check], CONTEXT, others)
    assert [results[batch].failed_rows[check.id] for batch in (FIRST, SECOND)] == [2, 0]


def test_two_batches_of_a_window_are_never_asked_together():
    one, other = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)
    assert one_of_each_window([(other, 1), (one, 1)]) == [[(one, 1), (other, 1)]]
    assert one_of_each_window([(one, 2), (one, 1), (other, 7)]) == [[(one, 1), (other, 7)], [(one, 2)]]
    assert one_of_each_window([]) == []


def test_no_rows_no_batches(typed):
    checked = checks({"check": "not_null", "column": "sensor"}, {"check": "unique", "columns": ["value"]})
    assert measure_checks(typed.where("false"), checked, CONTEXT) == {}
    assert {batch: n.rows_in for batch, n in measure_checks(typed, [], CONTEXT).items()} == {FIRST: 4, SECOND: 2}


def of_checks(metrics):
    """Return the metrics without those of the rows' order and of unreadable records, which only a staging has."""
    return {check: values for check, values in metrics.items() if check not in (SPAN, READABLE)}


def test_the_numbers_are_those_of_the_gate(spark, settings):
    """The same rows, once through bronze and a staging, once as they would lie in a table."""
    checked = [
        {"check": "in_range", "column": "value", "min": -100, "max": 100},
        {"check": "not_null", "column": "value", "severity": "warning"},
        {"check": "not_null", "column": "value", "name": "of_a", "where": "sensor = 'a'", "threshold": 0.5},
        {"check": "matches", "column": "sensor", "pattern": "^[a-c]$"},
        {"check": "metric", "name": "mean", "sql": "avg(value)", "max": 10},
        {"check": "unique", "columns": ["value"]},
    ]
    spec = readings(checks=checked, drift={"features": ["value"]})
    for day in (1, 2):
        land(
            settings, day, [f"{s},{h},{v},2024-01-0{day}T0{h}:00:00Z" for s, h, v in (("a", 1, 5), ("b", 2, 999), ("d", 3, 5))]
        )
    run = runner(spark, settings, spec)
    extract(run, [window(1), window(2)])
    batches = [FIRST, SECOND]
    target = SilverTarget(run, records=logs.extractions(settings, spec.name))
    run_steps(target, (stage, measure))
    numbers, profiles = target.numbers, target.profiles
    rows = target.staged.select(*spec.columns, "p_extracted_at", "extraction_seq")
    results = measure_checks(rows, spec.checks, check_context(spec))
    for batch in batches:
        gate, ours = numbers[batch], results[batch]
        assert ours.failed_rows == {check: gate.failed_rows[check] for check in ours.failed_rows}
        assert (ours.metrics, ours.failing, ours.newest) == (of_checks(gate.metrics), gate.failing, gate.newest)
    assert ours.failed_rows["in_range_value"] == ours.failed_rows["matches_sensor"] == 1
    assert spec.drift
    sketched, _ = measure_profiles(flag_rows(rows, spec.checks, check_context(spec)), spec.drift)
    assert sketched == profiles
    assert not delta.exists(settings.path("silver", spec.name))


def many(count: int) -> list:
    return checks(*({"check": "in_range", "column": "hour", "min": 0, "max": i, "name": f"rule_{i}"} for i in range(count)))


def test_one_scan_however_many_the_rules(plain, spark):
    rules = many(100)
    with jobs(spark) as five:
        measure_checks(plain, rules[:5], CONTEXT)
    with jobs(spark) as hundred:
        results = measure_checks(plain, rules, CONTEXT)
    assert five == hundred == [1]
    assert [results[FIRST].failed_rows[f"rule_{i}"] for i in (0, 1, 2, 99)] == [4, 1, 0, 0]


def test_metrics_ride_along_and_each_uniqueness_is_one_scan_more(plain, spark):
    fused = checks({"check": "metric", "name": "most", "sql": "max(value)", "max": 100}, {"check": "not_empty"})
    keys = checks({"check": "unique", "columns": ["value"]}, {"check": "unique", "columns": ["sensor", "value"]})
    counts = []
    for rules in ([*many(5), *fused], [*many(5), *fused, *keys[:1]], [*many(5), *fused, *keys]):
        with jobs(spark) as job_counts:
            measure_checks(plain, rules, CONTEXT)
        counts += job_counts
    assert counts == [1, 2, 3]


def test_all_sketches_are_one_scan_more(plain, spark):
    counts = []
    for features in (["value"], ["value", {"name": "by_sensor", "expr": "value", "by": "sensor"}, "hour"]):
        with jobs(spark) as job_counts:
            measure_profiles(flag_rows(plain, many(5), CONTEXT), DriftSpec.model_validate({"features": features}))
        counts += job_counts
    assert counts == [1, 1]


@pytest.mark.parametrize("count", [5, 100])
def test_the_gate_takes_as_many_jobs_for_a_hundred_rules_as_for_five(count, spark, settings):
    """Beside the staging, which counts the rules, and the numbers, which are read from its files: one for the uniqueness."""
    unique = {"check": "unique", "columns": ["value"]}
    rules = [{"check": "in_range", "column": "value", "max": i, "severity": "info", "name": f"r{i}"} for i in range(count)]
    spec = readings(checks=[*rules, unique], drift={"features": ["value", "hour"]})
    land(settings, 1, ["a,1,5,2024-01-01T01:00:00Z", "b,1,6,2024-01-01T01:00:00Z"])
    run = runner(spark, settings, spec)
    extract(run, [window(1)])
    target = SilverTarget(run, records=logs.extractions(settings, spec.name))
    stage(target)
    with jobs(spark) as job_counts:
        measure(target)
    assert job_counts == [1]
