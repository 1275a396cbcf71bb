"""Requests under the executors that a project may have: each run is one process where the executor lets it choose. No JVM.

Belongs here: the run config, and what Dagster makes of it. Does not: the daemon (e2e/test_own_project).
"""

import os
from pathlib import Path

import dagster as dg
import pytest

from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.healing.one_process import CONFIG, in_one_process
from lakehouse_assets.orchestration.spark import SPARK
from lakehouse_assets_tests.orchestration.healing.test_conditions import SENSORS, Broken

EXECUTORS = {
    "the default of Dagster": (None, CONFIG),
    "multiprocess": (dg.multiprocess_executor, {}),
    "in_process": (dg.in_process_executor, {}),
}


@pytest.mark.parametrize("name", EXECUTORS)
def test_a_run_is_one_process_where_the_executor_lets_it_choose(settings, name):
    executor, expected = EXECUTORS[name]
    ours = build_definitions(
        settings.model_copy(update={"executor": "project"}), [LakehouseTable(SENSORS, Path("nowhere"))], {SPARK: Broken()}
    )
    definitions = dg.Definitions.merge(ours, dg.Definitions(executor=executor))
    repository = definitions.get_repository_def()
    with dg.DagsterInstance.ephemeral() as instance:
        for month in ("2024-01-01", "2024-02-01"):
            instance.report_runless_asset_event(dg.AssetMaterialization("source_sensors", partition=month))
        context = dg.build_sensor_context(instance, repository_def=repository)
        requests = definitions.resolve_sensor_def("heal_and_follow").evaluate_tick(context).run_requests
    # The code server sends them to the daemon.
    (request,) = dg.deserialize_value(dg.serialize_value(requests), list)
    assert request.run_config == expected
    assert dg.validate_run_config(repository.get_implicit_global_asset_job_def(), expected)
    (retry,) = in_one_process([dg.RunRequest(run_key="again", tags={"a": "b"})], repository)
    assert (retry.run_config, retry.run_key, retry.tags["a"]) == (expected, "again", "b")


def test_nothing_is_known_without_a_code_location():
    assert in_one_process([dg.RunRequest()], None)[0].run_config == {}
    assert in_one_process(None, dg.Definitions().get_repository_def()) == []


def two_steps() -> dg.JobDefinition:
    @dg.op
    def first() -> int:
        return os.getpid()

    @dg.op
    def second(pid: int) -> list[int]:
        return [pid, os.getpid()]

    @dg.job
    def steps():
        second(first())

    return steps


def test_dagsters_default_executor_runs_it_in_one_process(tmp_path):
    with (
        dg.DagsterInstance.local_temp(str(tmp_path)) as instance,
        dg.execute_job(dg.reconstructable(two_steps), instance, run_config=CONFIG) as result,
    ):
        assert result.output_for_node("second") == [os.getpid(), os.getpid()]
