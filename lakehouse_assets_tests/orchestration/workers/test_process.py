"""When a worker's process ends, asked between two runs. No Spark.

Belongs here: the facts that it asks for its reason. Does not: the reason (test_choice.py), or runs (test_worker.py).
"""

import os
import signal
import time

import pytest
from dagster._core.definitions.reconstruct import ReconstructableRepository

from lakehouse_assets.orchestration import dagster_runs
from lakehouse_assets.orchestration.workers import process
from lakehouse_assets.orchestration.workers.folder import GivenRun, WorkerFolder, WorkerLimits, WorkerStart
from lakehouse_assets.orchestration.workers.interrupter import Interrupter
from lakehouse_assets.orchestration.workers.pool import WorkerPool
from lakehouse_assets.orchestration.workers.presence import announce
from lakehouse_assets.orchestration.workers.process import WorkerProcess


@pytest.fixture
def worker(tmp_path):
    pool = WorkerPool(tmp_path / "workers", 1, WorkerLimits())
    with pool.lock():
        folder = WorkerFolder(pool.path / "worker-1")
        lock = folder.create(WorkerStart("context", WorkerLimits(), time.time()))
    yield WorkerProcess(folder, lock, lambda _: 0)
    os.close(lock)


def test_a_worker_stays_while_the_process_that_gave_it_runs_does(worker):
    assert not worker._ends(), "nobody has given it a run: `lakehouse worker start`"
    worker.giver = announce(worker.folder.path.parent)
    assert not worker._ends()
    assert worker.folder.path.exists()
    worker.giver = "giver-of-a-dagster-that-has-ended"
    assert worker._ends()
    assert not worker.folder.path.exists()


def test_a_worker_ends_when_its_folder_is_gone(worker):
    worker.folder.delete()
    assert worker._ends()


def test_a_worker_of_a_daemon_in_the_background_can_be_interrupted(worker, monkeypatch):
    """A shell lets what it starts in the background ignore Ctrl-C, and that is inherited."""
    monkeypatch.setattr(Interrupter, "_watch", lambda _: None)
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        worker.interrupter.start()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)


def test_a_worker_is_warm_once_spark_has_started(worker, monkeypatch, settings):
    worker.settings = settings
    worker._report()
    assert worker.folder.process()["warm"] is False
    monkeypatch.setattr(process, "build_session", lambda _: object())
    worker._warm_up()
    assert worker.folder.process()["warm"] is True


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("@dg.definitions\ndef defs():\n    return dg.Definitions()", True),
        ("defs = dg.Definitions()", False),
        ("def defs():\n    return dg.Definitions()", False),
    ],
)
def test_definitions_that_a_module_makes_when_it_is_imported_are_not_made_anew(code, expected, tmp_path, monkeypatch):
    (tmp_path / f"of_a_project_{len(code)}.py").write_text(f"import dagster as dg\n\n{code}\n")
    monkeypatch.setattr(dagster_runs, "_loaded", set())
    repository = ReconstructableRepository.for_module(f"of_a_project_{len(code)}", "defs", str(tmp_path))
    assert dagster_runs.forget_definitions(), "nothing is loaded"
    dagster_runs._definitions(repository)
    assert dagster_runs.forget_definitions() == expected


@pytest.mark.parametrize(("changed", "made_anew", "expected"), [(True, False, 1), (True, True, 0), (False, False, 0)])
def test_a_worker_starts_again_for_changed_definitions_only_if_they_cannot_be_made_anew(
    worker, monkeypatch, changed, made_anew, expected
):
    restarts = []
    monkeypatch.setattr(worker, "_restart", lambda: restarts.append(1))
    monkeypatch.setattr(worker, "_execute", lambda _: True)
    monkeypatch.setattr(worker.dependencies, "code_changed", lambda: False)
    monkeypatch.setattr(worker.dependencies, "definitions_changed", lambda: changed)
    monkeypatch.setattr(process, "forget_definitions", lambda: made_anew)
    worker._serve_one(GivenRun("run", "instance", 0.0))
    assert len(restarts) == expected
