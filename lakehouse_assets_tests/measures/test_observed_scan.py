"""Numbers that are counted while rows are stored are those of a scan, or are not believed.

Belongs here: one batch of rows, stored. Does not: what the numbers mean (scan's own tests, and the gate's).
"""

from dataclasses import replace
from functools import partial

import pytest

from lakehouse_assets.contracts.check_context import check_context
from lakehouse_assets.measures import observed_scan
from lakehouse_assets.measures.batch_numbers import MeasurePlan
from lakehouse_assets.measures.observed_scan import ObservedScan
from lakehouse_assets.measures.scan import scan
from lakehouse_assets.measures.stage import row_rules, stage
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.staging import write_once
from lakehouse_assets_tests.support import land, readings, runner, window

ROWS = ["a,1,10,2024-01-01T01:00:00Z", "a,1,20,2024-01-01T01:00:00Z", "b,1,900,2024-01-01T02:00:00Z", "c,2,much,NA", "d,3,,NA"]
CHECKS = [
    {"check": "not_empty"},
    {"check": "in_range", "column": "value", "min": -100, "max": 100},
    *(
        {"check": "statistic", "column": "value", "of": of, "min": 0, "max": 5}
        for of in ("mean", "sum", "stddev", "min", "median")
    ),
    {"check": "statistic", "column": "value", "of": "quantile", "quantile": 0.9, "where": "hour < 3", "max": 5},
    {"check": "freshness", "column": "updated", "max_age": "6h"},
    {"check": "null_share", "column": "value", "max": 0.1, "where": "sensor <> 'd'"},
    {"check": "metric", "name": "own", "sql": "count(sensor) filter (where value > 1) / count(*)", "max": 0.5},
    {"check": "row_count", "min": 1, "where": "value > 1"},
]
BATCH = (window(1).start, 1)


@pytest.fixture
def staged(spark, settings):
    """The plan of a table, the rows of one batch, and how they are stored at a path."""
    spec = readings(checks=CHECKS)
    land(settings, 1, [*ROWS, "e,4,1,2024-01-01T01:00:00Z,and,more"])
    run = runner(spark, settings, spec)
    extract(run, [window(1)])
    frame = stage(spark.read.format("delta").load(run.path("bronze")), spec)
    context = check_context(spec)
    plan = MeasurePlan(spec.checks, context, [rule.id for rule in row_rules(spec)], personal=False)
    return plan, frame, settings.path("staging", "readings", "trial")


def numbers_of(plan, frame, path):
    observed = ObservedScan(BATCH, plan)
    stored = observed.store(partial(write_once, frame.sparkSession, path=path), frame, path)
    return observed.numbers, stored


def test_the_numbers_are_those_of_a_scan(staged):
    plan, frame, path = staged
    numbers, stored = numbers_of(plan, frame, path)
    assert numbers == scan(stored, plan.rules, plan.metrics)
    assert numbers[BATCH].rows_in == stored.count() == 6
    assert numbers_of(plan, frame.limit(0), path)[0] in ({}, None)


def test_rows_that_were_counted_twice_are_scanned(staged, monkeypatch):
    plan, frame, path = staged
    monkeypatch.setattr(observed_scan, "_count_stored_rows", lambda _: 5)
    assert numbers_of(plan, frame, path)[0] is None


def test_a_metric_that_stops_does_not_stop_the_staging(staged):
    plan, frame, path = staged
    metrics = {"own": {"m": "sum(CAST(sensor AS INT))"}, "distinct": {"m": "count(DISTINCT sensor)"}}
    for name, sql in metrics.items():
        numbers, stored = numbers_of(replace(plan, checks=(), more={name: sql}), frame, path)
        assert (numbers, stored.count()) == (None, 6)
