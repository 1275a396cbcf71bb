"""Checks tried on a published gold table: what they say of it, each by itself, and that nothing is left behind.

Belongs here: dry runs of gold on real Delta. Does not: dry runs of windows (test_dry_run), or deriving gold (test_gold).
"""

from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter

from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import silver_schemas
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.dry_run_gold import try_gold_checks
from lakehouse_assets.pipeline.gold import publish_gold
from lakehouse_assets.pipeline.run import GoldRun
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.operations.test_dry_run import files
from lakehouse_assets_tests.support import copy_lake, heal, lake_settings, land, readings

ANY = TypeAdapter(AnyCheck)
SQL = "select sensor, count(*) as n, max(value) as most from silver_readings group by sensor"
DECLARED = [
    {"check": "in_range", "column": "n", "min": 1, "name": "some"},
    {"check": "unique", "columns": ["n"], "name": "differ", "severity": "warning"},
]


def gold_run(spark, settings, **more):
    attributes = {"name": "sensors", "sql": "sensors.sql", "key": ["sensor"], "checks": DECLARED}
    return GoldRun(
        settings=settings,
        spec=GoldSpec.model_validate({**attributes, **more}),
        query=read_gold(SQL, "sensors.sql", silver_schemas([readings()])),
        session=lambda: spark,
        run_id="gold",
        clock=lambda: datetime(2024, 7, 1, tzinfo=UTC),
        pii=frozenset({"sensor"}),
    )


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """Two sensors: one reading of `a`, two of `b`."""
    settings = lake_settings(tmp_path_factory.mktemp("dry_run") / "lake")
    land(settings, 1, [f"{row},2024-01-01T00:00:00Z" for row in ("a,1,10", "b,1,20", "b,2,90")])
    heal(spark, settings, [1])
    publish_gold(gold_run(spark, settings))
    return settings


@pytest.fixture
def lake(template, tmp_path):
    return copy_lake(template, tmp_path)


def run_trial(spark, settings, *declared, **more):
    run = gold_run(spark, settings, **more)
    named = {check.id: check for check in run.spec.checks}
    trial = try_gold_checks(run, [named[one] if isinstance(one, str) else ANY.validate_python(one) for one in declared])
    return {t.outcome.check: (t.outcome.status, t.outcome.failed_rows, t.would_quarantine) for t in trial.outcomes}, trial


def test_declared_checks_and_new_ones(spark, lake):
    before = files(lake.root)
    far = {"check": "in_range", "column": "most", "max": 50, "name": "far"}
    mean = {"check": "statistic", "column": "most", "of": "max", "max": 50, "name": "mean"}
    rows = {"check": "sql", "name": "rows", "sql": "select n from batch group by n having max(n) > 0"}
    more = {"check": "sql", "name": "more", "sql": "select n from batch group by n having max(n) > 1"}
    outcomes, trial = run_trial(spark, lake, "some", "differ", far, mean, rows, more)
    assert outcomes == {
        "some": ("passed", 0, "nothing"),
        "differ": ("passed", 0, "nothing"),
        "far": ("failed", 1, "1 row(s)"),
        "rows": ("failed", 1, "the table"),
        # The row that fails `far` is no clean row.
        "mean": ("passed", 0, "nothing"),
        "more": ("passed", 0, "nothing"),
    }
    assert {(t.of, t.rows, t.current.verdict if t.current else None) for t in trial.outcomes} == {
        ("whole table", 2, "published")
    }
    assert list(trial.samples) == ["far"]
    assert files(lake.root) == before
    assert len(logs.decisions(lake, "gold_sensors")) == 1


def test_a_check_in_error_is_no_other_checks_trouble_and_quotes_nothing_personal(spark, lake):
    raises = {"check": "expression", "name": "raises", "expr": "100 / (n - 1) > 0"}
    divides = {"check": "metric", "name": "divides", "sql": "sum(n) / (sum(n) - sum(n))", "max": 1}
    outcomes, trial = run_trial(spark, lake, raises, divides, "some", "differ")
    assert {name: status for name, (status, _, _) in outcomes.items()} == {
        "raises": "error", "divides": "error", "some": "passed", "differ": "passed",
    }  # fmt: skip
    errors = [t.outcome.message for t in trial.outcomes if t.outcome.status == "error"]
    assert errors
    assert all("(masked: pii)" in message for message in errors)


def test_a_dry_run_of_gold_resolves_dependencies_and_reference_tables(spark, lake):
    first = {"check": "in_range", "column": "most", "max": 15, "name": "first"}
    after = {"check": "in_range", "column": "n", "max": 1, "name": "after", "depends_on": ["first"]}
    elsewhere = {"check": "foreign_key", "columns": ["n"], "table": "nowhere", "to": ["sensor"], "name": "elsewhere"}
    outcomes, trial = run_trial(spark, lake, "after", elsewhere, checks=[first, after])
    assert {name: status for name, (status, _, _) in outcomes.items()} == {"after": "passed", "elsewhere": "error"}
    assert "nowhere has never been published" in str([t.outcome.message for t in trial.outcomes])
    mean = {"check": "statistic", "column": "n", "of": "mean", "min": 0, "name": "mean"}
    outcomes, _ = run_trial(spark, lake, "mean", elsewhere, checks=[mean])
    assert {name: status for name, (status, _, _) in outcomes.items()} == {"mean": "passed", "elsewhere": "error"}


def test_a_column_that_is_not_published_yet(spark, lake):
    new = {"check": "not_null", "column": "least"}
    with pytest.raises(
        RefusedError, match=r"as it is published has no column least \(not_null_least\); it has sensor, n, most"
    ):
        run_trial(spark, lake, "not_null_least", checks=[*DECLARED, new])
    assert run_trial(spark, lake, "some", checks=[*DECLARED, new])[0] == {"some": ("passed", 0, "nothing")}


def test_a_gold_table_that_is_not_there(spark, settings):
    with pytest.raises(RefusedError, match="gold_sensors has never been published"):
        run_trial(spark, settings, "some")
