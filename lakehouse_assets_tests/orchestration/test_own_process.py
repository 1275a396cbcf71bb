"""Runs of commands that were killed: they are known by their process, and hold no slot of the queue any more. No Spark.

Belongs here: which runs count as killed. Does not: runs of code servers (test_code_servers) or workers (workers).
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from lakehouse_assets.orchestration.code_servers import CodeServerLauncher
from lakehouse_assets.orchestration.jobs.operation_job import run_job
from lakehouse_assets.orchestration.own_process import PROCESS_TAG, fail_killed_runs, process_tags, was_killed
from lakehouse_assets.storage.leases.process_identity import own_identity

SCRIPT = "import json, lakehouse_assets.storage.leases.process_identity as p; print(json.dumps(p.own_identity()))"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    launcher = {"module": CodeServerLauncher.__module__, "class": CodeServerLauncher.__name__}
    with dg.instance_for_test(temp_dir=str(tmp_path), overrides={"run_launcher": launcher}) as opened:
        yield opened


def ended() -> dict[str, Any]:
    """The identity of a process that has ended."""
    return json.loads(subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True, text=True).stdout)


def started(instance: dg.DagsterInstance, tag: str | None) -> dg.DagsterRun:
    tags = {PROCESS_TAG: tag} if tag is not None else {}
    return create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED, tags=tags)


def test_the_run_of_a_killed_command_fails_and_those_of_living_ones_go_on(instance):
    killed = started(instance, json.dumps(ended()))
    others = [
        started(instance, tag) for tag in (json.dumps(own_identity()), json.dumps({**ended(), "host": "far"}), "x", "[]", None)
    ]
    health = {run.run_id: instance.run_launcher.check_run_worker_health(run).status.value for run in (killed, *others)}
    assert health == {killed.run_id: "FAILED", **{run.run_id: "RUNNING" for run in others}}
    assert fail_killed_runs(instance) == [killed.run_id]
    assert instance.get_run_by_id(killed.run_id).status == dg.DagsterRunStatus.FAILURE
    assert fail_killed_runs(instance) == []


def test_a_launched_repetition_of_such_a_run_lives_as_its_launcher_knows(instance):
    run = started(instance, json.dumps(ended()))
    assert was_killed(run)
    repetition: Any = SimpleNamespace(tags=run.tags, remote_job_origin="a code server's")
    assert not was_killed(repetition)


def test_a_job_of_a_command_names_its_process(instance):
    @dg.op
    def nothing() -> int:
        return 1

    @dg.job
    def operation() -> None:
        nothing()

    assert run_job(dg.Definitions(jobs=[operation]), instance, "operation", {}) == 1
    (run,) = instance.get_runs()
    assert run.tags[PROCESS_TAG] == process_tags()[PROCESS_TAG]
    assert not was_killed(run)
