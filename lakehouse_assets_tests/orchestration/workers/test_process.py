"""When a worker's process ends, asked between two runs. No Spark.

Belongs here: the facts that it asks for its reason. Does not: the reason (test_choice.py), or runs (test_worker.py).
"""

import os
import time

import pytest

from lakehouse_assets.orchestration.workers import process
from lakehouse_assets.orchestration.workers.folder import WorkerFolder, WorkerLimits, WorkerStart
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


def test_a_worker_is_warm_once_spark_has_started(worker, monkeypatch, settings):
    worker.settings = settings
    worker._report()
    assert worker.folder.process()["warm"] is False
    monkeypatch.setattr(process, "build_session", lambda _: object())
    worker._warm_up()
    assert worker.folder.process()["warm"] is True
