"""The jobs on a guard's baseline, beside those on a table's: one project has both.

Belongs here: the jobs as Dagster runs them. Does not: what a request does (guards/test_guard_baseline).
"""

from typing import get_args

import dagster as dg
import pytest

from lakehouse_assets.contracts.windows import Cadence
from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.orchestration.assets.project_tables import find_tables
from lakehouse_assets.orchestration.jobs.guard_jobs import guard_jobs
from lakehouse_assets.orchestration.jobs.operation_job import run_job
from lakehouse_assets.orchestration.spark import SPARK
from lakehouse_assets_tests.guards.guarded_orders import ForeignOrders, judge
from lakehouse_assets_tests.guards.test_guard_baseline import other_table
from lakehouse_assets_tests.orchestration.test_guards import GUARD, SparkOfTests, project

SIGNED = {"table": "orders", "by": "ann", "because": "the shop moved"}


def test_a_guard_s_baseline_is_pinned_reset_and_seeded_by_jobs(spark, tmp_path, monkeypatch):
    drift = "  drift: {features: [amount]}"
    settings = project(tmp_path, monkeypatch, orders=GUARD.format(name="orders", path="theirs", more=drift))
    ForeignOrders(spark, tmp_path / "theirs").append((1, 10.0, "DE"))
    elsewhere = other_table(spark, tmp_path / "elsewhere", 3)
    loaded = find_tables(settings)
    judge(spark, settings, loaded.guards[0].spec)
    definitions = build_definitions(settings, None, {SPARK: SparkOfTests()})
    dg.Definitions.validate_loadable(definitions)
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
        assert run_job(definitions, instance, "pin_guard_baseline", {**SIGNED, "clear": False})["windows"] == 1
        assert run_job(definitions, instance, "reset_guard_baseline", SIGNED)["windows"] == 1
        of_days = {"source": elsewhere, "window_column": "ordered_at", "cadence": "daily"}
        assert run_job(definitions, instance, "seed_guard_baseline", {**SIGNED, **of_days})["windows"] == 3


def test_a_guard_is_seeded_by_any_cadence_and_by_no_other_text(settings):
    [job] = [job for job in guard_jobs(settings, []) if job.name == "seed_guard_baseline"]

    def config_of(cadence: str) -> dict:
        return {"ops": {"seed_guard": {"config": {**SIGNED, "source": "elsewhere", "cadence": cadence}}}}

    for cadence in ("", *get_args(Cadence)):
        assert dg.validate_run_config(job, config_of(cadence))
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(job, config_of("30min"))
