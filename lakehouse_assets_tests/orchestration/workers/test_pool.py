"""The pool: who gets a run, with processes that do nothing but live. No Spark, no Dagster."""

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.orchestration.workers import pool as pools
from lakehouse_assets.orchestration.workers.folder import GivenRun, WorkerFolder, WorkerLimits, WorkerStart
from lakehouse_assets.orchestration.workers.pool import TIDY_SECONDS, WorkerPool
from lakehouse_assets.orchestration.workers.presence import is_locked
from lakehouse_assets_tests.support import PROJECT_ROOT

# A worker that takes every run and never finishes it.
SLEEPER = "import sys, time\ntime.sleep(60)\n"


@pytest.fixture
def pool(tmp_path, monkeypatch):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    monkeypatch.setattr(pools, "MODULE", "sleeper")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    workers = WorkerPool(tmp_path / "workers", 2, WorkerLimits())
    yield workers
    for worker in workers.workers():
        worker.kill()


def run_of(name: str) -> GivenRun:
    return GivenRun(name, "instance", time.time())


def dead(worker: WorkerFolder) -> bool:
    worker.kill()
    end = time.monotonic() + 10
    while worker.is_alive() and time.monotonic() < end:
        time.sleep(0.01)
    return not worker.is_alive()


def test_a_run_is_given_to_an_idle_worker_of_the_same_environment(pool, monkeypatch):
    first = pool.assign(run_of("a"), "here")
    assert first.is_alive()
    assert pool.worker_of("a").name == first.name
    assert pool.worker_of("b") is None
    second = pool.assign(run_of("b"), "here")
    assert second.name != first.name
    first.finish_run()
    assert pool.assign(run_of("c"), "here").name == first.name
    first.finish_run()
    # Another code location, or another environment: the idle one ends for it.
    third = pool.assign(run_of("d"), "there")
    assert third.name not in (first.name, second.name)
    assert first.is_stopped()
    third.finish_run()
    monkeypatch.setenv("LAKEHOUSE_ROOT", "/elsewhere")
    assert pool.assign(run_of("e"), "there").name not in (first.name, second.name, third.name)
    # All slots are taken by runs: one more, which does not stay.
    extra = pool.assign(run_of("f"), "there")
    assert extra.start().lasting is False


def test_a_started_worker_serves_the_first_code_location_that_has_a_run(pool):
    worker = pool.start()
    assert worker.start().location is None
    assert pool.assign(run_of("a"), "here").name == worker.name
    assert worker.start().location == "here"
    assert pool.start() is not None
    assert pool.start() is None  # as many as there are slots


def test_a_dead_workers_run_is_found_until_it_is_finished(pool):
    worker = pool.assign(run_of("a"), "here")
    assert dead(worker)
    assert pool.assign(run_of("b"), "here").name != worker.name
    assert pool.worker_of("a").is_alive() is False
    pool.assign(run_of("c"), "here", ended_for=lambda run: 0.0 if run.run_id == "a" else None)
    assert pool.worker_of("a") is None
    assert not worker.path.exists()


def test_a_paused_worker_whose_run_ended_long_ago_is_killed(pool):
    worker = pool.assign(run_of("a"), "here")
    os.kill(worker.process()["pid"], signal.SIGSTOP)
    assert worker.is_alive()
    pool.assign(run_of("b"), "here", ended_for=lambda run: TIDY_SECONDS - 1 if run.run_id == "a" else None)
    assert worker.is_alive()
    pool.assign(run_of("c"), "here", ended_for=lambda run: TIDY_SECONDS + 1 if run.run_id == "a" else None)
    end = time.monotonic() + 10
    while worker.is_alive() and time.monotonic() < end:
        time.sleep(0.01)
    assert not worker.is_alive()


def test_a_command_is_nobodys_run(pool):
    """Dagster knows no run of its id; its worker is not killed for that, and what a dead one left is deleted. No worker is
    started for it.
    """
    command = GivenRun("command-1", "", 0.0, ("run",), "/nowhere")
    assert pool.assign(command, None, may_start=False) is None
    worker = pool.start()
    assert pool.assign(command, None, may_start=False) is None  # it is not warm yet
    worker.write_process(warm=True)
    assert pool.assign(command, None, may_start=False).name == worker.name
    assert worker.given_run() == command
    other = pool.assign(run_of("a"), "here", ended_for=lambda _: float("inf"))
    other.write_process(warm=True)
    time.sleep(0.1)
    assert worker.is_alive()
    # All have runs: the command is executed by the process that asks.
    assert pool.assign(command, None, may_start=False) is None
    assert dead(worker)
    other.finish_run()
    assert pool.assign(command, None, may_start=False).name == other.name
    assert not worker.path.exists()


def test_the_process_that_gives_runs_is_known_until_it_ends(pool, tmp_path):
    mine = pool.assign(run_of("a"), "here").given_run().giver
    assert pool.assign(run_of("b"), "here").given_run().giver == mine
    assert is_locked(pool.path / mine)
    announcing = (
        "import sys, time; from pathlib import Path; from lakehouse_assets.orchestration.workers.presence import announce;"
        "print(announce(Path(sys.argv[1])), flush=True); time.sleep(60)"
    )
    environ = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
    other = subprocess.Popen([sys.executable, "-c", announcing, str(pool.path)], stdout=subprocess.PIPE, text=True, env=environ)
    assert other.stdout is not None
    theirs = other.stdout.readline().strip()
    assert theirs != mine
    assert is_locked(pool.path / theirs)
    other.kill()
    other.communicate()
    assert not is_locked(pool.path / theirs)
    pool.assign(run_of("c"), "here")
    assert [path.name for path in pool.path.glob("giver-*")] == [mine]
    assert not is_locked(pool.path / theirs)
    # Somebody has deleted the folder's files: the next run has another one.
    (pool.path / mine).unlink()
    assert not is_locked(pool.path / mine)
    assert is_locked(pool.path / pool.assign(run_of("d"), "here").given_run().giver)


def test_a_process_id_that_is_another_process_by_now_is_never_believed(pool, tmp_path):
    worker = pool.assign(run_of("a"), "here")
    assert dead(worker)
    other = subprocess.Popen([sys.executable, "-c", SLEEPER])
    try:
        worker.write_process(pid=other.pid)
        assert not worker.is_alive()
        worker.kill()
        time.sleep(0.2)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_damaged_files_stop_nobody(pool):
    worker = pool.assign(run_of("a"), "here")
    for number, text in enumerate(["", "{", "[]", "null", '{"pid": "x"}', '{"limits": 3}']):
        for name in ("start.json", "run.json", "process.json"):
            (worker.path / name).write_text(text)
        run = run_of(f"run-{number}")
        given_to = pool.assign(run, "here")
        assert given_to.is_alive()
        assert pool.worker_of(run.run_id).name == given_to.name
        given_to.finish_run()


def test_two_launchers_at_once_give_each_run_once(pool):
    pool.assign(run_of("first"), "here").finish_run()
    pool.assign(run_of("second"), "here").finish_run()
    threads = [threading.Thread(target=pool.assign, args=(run_of(f"run-{n}"), "here")) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runs = [run.run_id for worker in pool.workers() if (run := worker.given_run())]
    assert sorted(runs) == [*(f"run-{n}" for n in range(5)), *(["second"] if "second" in runs else [])]


def test_a_folder_that_others_can_write_is_refused(pool, tmp_path):
    pool.path.mkdir(mode=0o700)
    pool.path.chmod(0o770)
    with pytest.raises(EnvironmentMissing, match="chmod 700"):
        pool.assign(run_of("a"), "here")
    pool.path.chmod(0o700)
    worker = pool.assign(run_of("a"), "here")
    assert stat.S_IMODE(worker.path.stat().st_mode) == 0o700


def test_a_worker_lives_as_long_as_its_lock_whatever_its_children_do(tmp_path):
    """The worker's process makes the inherited lock its own: a child that outlives it does not keep it alive."""
    worker = WorkerFolder(tmp_path / "worker-1")
    lock = worker.create(WorkerStart("c", WorkerLimits(), 0.0))
    program = textwrap.dedent(
        """
        import os, subprocess, sys
        os.set_inheritable(int(sys.argv[1]), False)
        print(subprocess.Popen(["sleep", "30"], stdout=subprocess.DEVNULL).pid, flush=True)
        """
    )
    process = subprocess.run([sys.executable, "-c", program, str(lock)], pass_fds=[lock], stdout=subprocess.PIPE, check=True)
    os.close(lock)
    assert not worker.is_alive()
    os.kill(int(process.stdout), signal.SIGKILL)


def test_what_a_worker_was_started_with_is_read_back(tmp_path):
    worker = WorkerFolder(tmp_path / "worker-1")
    start = WorkerStart("context", WorkerLimits(max_runs=7), 12.5, "location", lasting=False)
    os.close(worker.create(start))
    assert worker.start() == start
    worker.give(GivenRun("a", json.dumps({"x": 1}), 1.0))
    worker.cancel("b")
    assert (worker.is_cancelled("a"), worker.is_cancelled("b")) == (False, True)
    worker.finish_run()
    assert (worker.given_run(), worker.is_cancelled("b")) == (None, False)
