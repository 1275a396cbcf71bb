"""The launcher on an instance: whom it gives a run, what it reports of it, and what it does without a worker. No Spark."""

import time

import dagster as dg
import pytest
import yaml
from dagster._config import validate_config
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteRepositoryOrigin
from typer.testing import CliRunner

from lakehouse_assets.cli import app
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.orchestration.workers import pool as pools
from lakehouse_assets.orchestration.workers.folder import GivenRun
from lakehouse_assets.orchestration.workers.launcher import UNKNOWN_SECONDS, WorkerLauncher
from lakehouse_assets.orchestration.workers.pool import TIDY_SECONDS
from lakehouse_assets.orchestration.workers.presence import announce
from lakehouse_assets.orchestration.workers.status import pool_of, worker_rows
from lakehouse_assets_tests.orchestration.workers.test_pool import SLEEPER, dead

DEFAULT = "launched_by_default"


@dg.job
def nothing() -> None:
    pass


@pytest.fixture
def instance(tmp_path, monkeypatch):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    (tmp_path / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    monkeypatch.setattr(pools, "MODULE", "sleeper")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setenv("LAKEHOUSE_PROJECT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dg.DefaultRunLauncher, "launch_run", lambda self, context: calls.append(context.dagster_run.run_id))
    calls: list[str] = []
    launcher = {"module": WorkerLauncher.__module__, "class": "WorkerLauncher"}
    configuration = {
        "run_launcher": launcher,
        "concurrency": {"runs": {"max_concurrent_runs": 1}},
        "telemetry": {"enabled": False},
    }
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(configuration))
    with dg.DagsterInstance.from_config(str(tmp_path)) as dagster_instance:
        dagster_instance.run_launcher.calls = calls
        yield dagster_instance
        for worker in dagster_instance.run_launcher.pool.workers():
            worker.kill()


def launch(instance, location=None, **origin) -> str:
    code = ReconstructableRepository.for_module(__name__, "nothing", "/")._replace(**origin)
    remote = RemoteRepositoryOrigin(location, "__repository__").get_job_origin("nothing") if location else None
    run = instance.create_run_for_job(
        nothing,
        job_code_origin=code.get_reconstructable_job("nothing").get_python_origin(),
        remote_job_origin=remote,
    )
    instance.launch_run(run.run_id, workspace=None)
    return run.run_id


def health(instance, run_id: str) -> str:
    return instance.run_launcher.check_run_worker_health(instance.get_run_by_id(run_id)).status.value


@pytest.mark.parametrize("on_cluster", [False, True])
def test_no_worker_keeps_a_clusters_cores_unless_that_is_wanted(instance, monkeypatch, on_cluster):
    monkeypatch.setenv("LAKEHOUSE_SPARK_MASTER", "spark://10.0.0.9:7077")
    launcher = instance.run_launcher
    monkeypatch.setattr(launcher, "_on_cluster", on_cluster)
    run_id = launch(instance)
    assert (launcher.calls == [run_id]) is not on_cluster
    assert (launcher.pool.worker_of(run_id) is None) is not on_cluster


def test_a_run_is_given_to_a_worker_and_cancelled(instance):
    run_id = launch(instance)
    launcher = instance.run_launcher
    worker = launcher.pool.worker_of(run_id)
    assert launcher.calls == []
    assert launcher.pool.slots == 1
    assert dg.deserialize_value(worker.given_run().instance).to_dict() == instance.get_ref().to_dict()
    assert health(instance, run_id) == "RUNNING"
    (row,) = worker_rows(pool_of(instance))
    assert (row["state"], row["run_id"], row["runs"]) == ("running", run_id, 0)
    assert launcher.terminate(run_id)
    assert worker.is_cancelled(run_id)
    assert instance.get_run_by_id(run_id).status == dg.DagsterRunStatus.CANCELING
    # It dies before it hears that.
    assert dead(worker)
    assert health(instance, run_id) == "FAILED"
    assert str(worker.log) in launcher.get_run_worker_debug_info(instance.get_run_by_id(run_id))
    assert launcher.terminate(run_id)
    assert instance.get_run_by_id(run_id).status == dg.DagsterRunStatus.CANCELED
    assert not launcher.terminate(run_id)
    # What it left is deleted when the next run is given away.
    second = launch(instance)
    assert [each.name for each in launcher.pool.workers()] == [launcher.pool.worker_of(second).name]
    assert health(instance, run_id) == "NOT_FOUND"


def test_an_instance_ends_no_worker_that_has_a_run_of_another_one(instance, tmp_path):
    """Two instances that start in one project's folder share its workers."""
    run_id = launch(instance)
    pool = instance.run_launcher.pool
    worker = pool.worker_of(run_id)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "dagster.yaml").write_text((tmp_path / "dagster.yaml").read_text())
    with dg.DagsterInstance.from_config(str(tmp_path / "other")) as other:
        launch(other)
        assert other.run_launcher.pool.path == pool.path
        time.sleep(0.2)
        assert worker.is_alive()
        # Nor does it delete what the first instance looks for.
        assert dead(worker)
        launch(other)
        assert health(instance, run_id) == "FAILED"
    # A run that its own instance no longer knows has ended.
    instance.delete_run(run_id)
    launch(instance)
    assert pool.worker_of(run_id) is None


def test_an_instance_knows_its_own_runs_after_its_configuration_was_edited(instance, tmp_path):
    run_id = launch(instance)
    assert dead(instance.run_launcher.pool.worker_of(run_id))
    instance.delete_run(run_id)
    configuration = yaml.safe_load((tmp_path / "dagster.yaml").read_text())
    configuration["run_monitoring"] = {"enabled": True, "max_runtime_seconds": 60}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(configuration))
    with dg.DagsterInstance.from_config(str(tmp_path)) as edited:
        launch(edited)
        assert edited.run_launcher.pool.worker_of(run_id) is None


@pytest.mark.parametrize(
    ("age", "giver_lives", "is_kept"),
    [
        (UNKNOWN_SECONDS - 60, False, True),
        (UNKNOWN_SECONDS + TIDY_SECONDS + 60, True, True),
        (UNKNOWN_SECONDS + TIDY_SECONDS + 60, False, False),
    ],
)
@pytest.mark.parametrize("alive", [True, False])
def test_a_run_of_an_instance_that_is_gone_ends_after_days(instance, alive, age, giver_lives, is_kept):
    pool = instance.run_launcher.pool
    worker = pool.start()
    with pool.lock():
        mine = announce(pool.path)
    giver = mine if giver_lives else "giver-of-another"
    worker.give(GivenRun("unknown", "an instance that is gone", time.time() - age, giver=giver))
    assert alive or dead(worker)
    launch(instance)
    end = time.monotonic() + (0.2 if is_kept else 10)
    while (worker.is_alive() if alive else worker.path.exists()) and time.monotonic() < end:
        time.sleep(0.01)
    assert (worker.is_alive(), worker.path.exists()) == ((is_kept, True) if alive else (False, is_kept))


def test_what_no_worker_can_take_has_a_process_of_its_own(instance, monkeypatch):
    launched = [launch(instance, executable_path="/other/python"), launch(instance, container_image="image")]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lakehouse_assets.orchestration.workers.folder.write_atomically", full)
    launched.append(launch(instance))
    assert instance.run_launcher.calls == launched
    assert "No space left on device" in str([entry.dagster_event for entry in instance.all_logs(launched[-1])])
    assert instance.run_launcher.pool.workers() == []
    # The code server watches them.
    assert [health(instance, run_id) for run_id in launched] == ["RUNNING"] * 3


def test_a_run_of_a_code_server_on_a_port_is_a_process_there(instance):
    """It may be on another host, or in an image with the same Python. That of `dagster dev` is on a socket."""
    elsewhere = launch(instance, GrpcServerCodeLocationOrigin("code", port=4000, location_name="code"))
    assert instance.run_launcher.calls == [elsewhere]
    assert instance.run_launcher.pool.workers() == []
    here = launch(instance, GrpcServerCodeLocationOrigin("localhost", socket="/tmp/socket", location_name="code"))
    assert instance.run_launcher.calls == [elsewhere]
    assert instance.run_launcher.pool.worker_of(here) is not None


def test_dagster_refuses_a_section_whose_values_are_in_the_environment():
    """`configured_pool` finds no workers there, and no instance starts either."""
    for key in ("base_dir", "slots", "on_cluster", "idle_seconds"):
        assert not validate_config(WorkerLauncher.config_type(), {key: {"env": "NAME"}}).success


def test_the_commands(instance):
    def worker(*arguments: str):
        return CliRunner().invoke(app, ["worker", *arguments])

    assert "no worker is there" in worker("status").output
    assert worker("start").exit_code == 0
    (row,) = yaml.safe_load(worker("start", "--json").output)
    assert (row["state"], row["run_id"]) == ("starting", None)
    run_id = launch(instance)
    assert row["worker"] in worker("status").output
    assert yaml.safe_load(worker("stop", "--json").output)[0]["run_id"] == run_id
    assert worker("stop", "--now", "--json").output.strip() == "[]"
    (instance.run_launcher.pool.path.parents[2] / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    refused = worker("status")
    assert isinstance(refused.exception, RefusedError)
    assert "docs/deployment.md" in str(refused.exception)
