"""All workers of an instance: starting one, giving it a run, finding a run's worker, and what dead ones left.

Belongs here: changes to the pool, one at a time by its lock. Does not: the choice (choice), or Dagster (launcher).
"""

import contextlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from filelock import FileLock

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.orchestration.workers.choice import WorkerState, choose_worker
from lakehouse_assets.orchestration.workers.fingerprint import environment_mark
from lakehouse_assets.orchestration.workers.folder import GivenRun, WorkerFolder, WorkerLimits, WorkerStart
from lakehouse_assets.orchestration.workers.presence import announce, delete_files_of_others

LOCK_SECONDS = 30
POOL_FOLDER = "data/dagster/workers"
# Slots of an instance that limits no runs.
MOST_SLOTS = 2
# How long after a run's end its worker may still have it. One that has is paused or hangs, and is killed.
TIDY_SECONDS = 120
MODULE = "lakehouse_assets.cli.worker_process"


def no_known_end(_run: GivenRun) -> float | None:
    """Return None: how long ago any run ended is unknown."""
    return None


@dataclass(frozen=True)
class WorkerPool:
    """The workers below ``path``, an absolute folder. ``slots``: how many stay."""

    path: Path
    slots: int
    limits: WorkerLimits = field(default_factory=WorkerLimits)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the pool's lock: nobody gives a run and no worker ends meanwhile. Raises `filelock.Timeout`."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (status := self.path.stat()).st_uid != os.getuid() or status.st_mode & 0o077:
            raise EnvironmentMissing(
                f"{self.path}: workers take their runs from this folder, so it must be yours alone: `chmod 700 {self.path}`"
            )
        with FileLock(self.path / "lock", timeout=LOCK_SECONDS):
            yield

    def workers(self) -> list[WorkerFolder]:
        """Return all workers' folders, dead ones too."""
        return [WorkerFolder(path) for path in sorted(self.path.glob("worker-*")) if path.is_dir()]

    def worker_of(self, run_id: str) -> WorkerFolder | None:
        """Return the worker that was given a run and has not finished it, alive or dead."""
        return next((w for w in self.workers() if (run := w.given_run()) and run.run_id == run_id), None)

    def assign(
        self,
        run: GivenRun,
        location: str | None,
        environ: Mapping[str, str] | None = None,
        ended_for: Callable[[GivenRun], float | None] = no_known_end,
        folder: Path | None = None,
        may_start: bool = True,
    ) -> WorkerFolder | None:
        """Give a run to a worker, a new one if need be, and return the worker. ``location``: None if any will do.
        ``ended_for``: seconds since a run's end. ``folder``: the worker's working directory. ``may_start``: whether a worker
        may be started; without, None is returned if none is idle and warm.

        Raises OSError if the disk is full, and `filelock.Timeout`.
        """
        env = dict(os.environ if environ is None else environ)
        at = folder or Path.cwd()
        context = environment_mark(env, str(at))
        with self.lock():
            self._tidy(ended_for)
            if run.command is None:
                run = replace(run, giver=announce(self.path))
            states = [state for w in self.workers() if (state := _state(w, context, location)) is not None]
            choice = choose_worker(states, self.slots)
            if not may_start and (choice.give is None or not WorkerFolder(self.path / choice.give).process().get("warm")):
                return None
            if choice.stop is not None:
                WorkerFolder(self.path / choice.stop).stop()
            if choice.give is None:
                return self._start(context, env, at, location, choice.lasting, run)
            worker = WorkerFolder(self.path / choice.give)
            start = worker.start()
            if start is not None and start.location is None and location is not None:
                worker.write_start(replace(start, location=location))
            worker.give(run)
            return worker

    def start(self, environ: Mapping[str, str] | None = None) -> WorkerFolder | None:
        """Start a worker without a run; None if as many as stay are there."""
        env = dict(os.environ if environ is None else environ)
        with self.lock():
            self._tidy(no_known_end)
            if len([w for w in self.workers() if w.is_alive() and not w.is_stopped()]) >= self.slots:
                return None
            return self._start(environment_mark(env, str(Path.cwd())), env, Path.cwd(), None, True, None)

    def _start(
        self, context: str, env: Mapping[str, str], at: Path, location: str | None, lasting: bool, run: GivenRun | None
    ) -> WorkerFolder:
        worker = WorkerFolder(self.path / f"worker-{uuid.uuid4().hex[:8]}")
        lock = worker.create(WorkerStart(context, self.limits, time.time(), location, lasting))
        try:
            if run is not None:
                worker.give(run)
            with worker.log.open("ab") as log:
                child = subprocess.Popen(
                    [sys.executable, "-m", MODULE, str(worker.path), str(lock)],
                    env=dict(env),
                    cwd=at,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[lock],
                    # It outlives who started it, and no Ctrl-C of a terminal reaches it.
                    start_new_session=True,
                )
            worker.write_process(pid=child.pid, runs=0)
        except BaseException:
            worker.delete()
            raise
        finally:
            os.close(lock)
        return worker

    def _tidy(self, ended_for: Callable[[GivenRun], float | None]) -> None:
        """Delete what dead workers left, and kill one whose run ended long ago. A dead one's run stays until it is finished:
        Dagster looks for it.
        """
        delete_files_of_others(self.path)
        for worker in self.workers():
            run = worker.given_run()
            is_command = run is not None and run.command is not None  # whoever typed it sees how it ends
            ended = ended_for(run) if run is not None and not is_command else None
            if not worker.is_alive():
                if run is None or is_command or ended is not None:
                    worker.delete()
            elif ended is not None and ended > TIDY_SECONDS:
                worker.kill()


def _state(worker: WorkerFolder, context: str, location: str | None) -> WorkerState | None:
    """Return a worker's state; None of a dead one."""
    if not worker.is_alive():
        return None
    start, process = worker.start(), worker.process()
    if start is None:
        return WorkerState(worker.name, False, None)  # its file is damaged: it gets no run, and ends when it is idle for long
    return WorkerState(
        worker.name,
        fits=start.context == context and (location is None or start.location in (None, location)),
        idle_since=None if worker.given_run() is not None else process.get("idle_since") or start.started_at,
        leaving=worker.is_stopped() or not start.lasting,
    )
