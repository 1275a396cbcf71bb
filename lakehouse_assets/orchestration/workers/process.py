"""A worker's process: definitions and one Spark session, kept; runs one after another, each with a session of its own.

Belongs here: the loop, and what happens between two runs. Does not: who gets a run (pool), or interrupting one (interrupter).
"""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg
from filelock import Timeout
from pyspark.sql import SparkSession

from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.orchestration.dagster_private import capture_interrupts
from lakehouse_assets.orchestration.dagster_runs import (
    execute_launched_run,
    executes_in_process,
    forget_definitions,
    keep_definitions,
)
from lakehouse_assets.orchestration.workers.choice import reason_to_end
from lakehouse_assets.orchestration.workers.commands import execute_command
from lakehouse_assets.orchestration.workers.dependencies import Dependencies
from lakehouse_assets.orchestration.workers.folder import GivenRun, WorkerFolder
from lakehouse_assets.orchestration.workers.interrupter import Interrupter
from lakehouse_assets.orchestration.workers.pool import MODULE, WorkerPool
from lakehouse_assets.orchestration.workers.presence import is_locked
from lakehouse_assets.orchestration.workers.python_state import python_as_it_was
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.session import build_session
from lakehouse_assets.storage.session_reset import give_memory_back, kill_java, session_of_one_run

# A worker whose folder is gone ends: nobody can find it.
IDLE_LOOK_SECONDS = 5.0
log = logging.getLogger("lakehouse.worker")


class WorkerProcess:
    """One worker. ``lock``: the descriptor of its folder's lock, which it keeps open to its end. ``call`` executes commands."""

    def __init__(self, folder: WorkerFolder, lock: int, call: Callable[[Sequence[str]], int]) -> None:
        self.call = call
        start = folder.start()
        if start is None:
            raise LakehouseError(f"{folder.path}: start.json cannot be read")
        self.folder, self.lock, self.start, self.limits = folder, lock, start, start.limits
        self.runs, self.failed, self.trimmed = 0, False, False
        self.idle_since = time.time()
        self.giver: str | None = None
        self.settings = _settings()
        self.dependencies = Dependencies(self.settings)
        self.session: SparkSession | None = None
        self.instance: tuple[str, dg.DagsterInstance] | None = None
        self.interrupter = Interrupter(folder, self.limits.cancel_seconds, self._report_cancelled)

    def serve(self) -> None:
        """Execute runs until there is a reason to end."""
        keep_definitions()
        self.interrupter.start()
        self._report()
        if self.folder.given_run() is None:
            self._warm_up()
        while True:
            run = self.folder.given_run()
            if run is not None:
                self._serve_one(run)
            elif self._ends():
                return
            elif not self.interrupter.wait(IDLE_LOOK_SECONDS) and not self.trimmed:
                self._trim()

    def _serve_one(self, request: GivenRun) -> None:
        self.giver = request.giver or self.giver
        if self.failed or self.dependencies.code_changed() or not self._java_answers():
            self._restart()
        if self.dependencies.definitions_changed() and not forget_definitions():
            self._restart()
        try:
            self.failed = not self._execute(request)
        finally:
            self.runs, self.idle_since, self.trimmed = self.runs + 1, time.time(), False
            self._report()
            self.folder.finish_run()

    def _execute(self, request: GivenRun) -> bool:
        """Execute a run and return whether the worker may have another one. Its errors are in its log."""
        if request.command is not None:
            return self._execute_command(request)
        instance = self._instance(request.instance)
        run = instance.get_run_by_id(request.run_id)
        if run is None or run.is_finished:
            return True
        if run.status == dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, "The run was cancelled before it started.")
            return True
        with capture_interrupts(), python_as_it_was():
            self.interrupter.begin(request.run_id)
            try:
                with self._session(run):
                    execute_launched_run(run, instance)
                undisturbed = True
            except BaseException as error:  # the run's own log has its text
                log.error("run %s: %s", request.run_id, type(error).__name__)
                undisturbed = False
            finally:
                self.interrupter.end()
        ended = instance.get_run_by_id(request.run_id)
        if ended is not None and not ended.is_finished:
            instance.report_run_failed(ended, f"The run's process could not execute it; see {self.folder.log}")
            return False
        return undisturbed and ended is not None and ended.status == dg.DagsterRunStatus.SUCCESS

    def _execute_command(self, request: GivenRun) -> bool:
        self._warm_up()
        self.interrupter.begin(request.run_id)
        try:
            with python_as_it_was(), session_of_one_run(self.session) if self.session else contextlib.nullcontext():
                return execute_command(request, self.call)
        except BaseException as error:
            log.error("command %s: %s", request.command, type(error).__name__)
            return False
        finally:
            self.interrupter.end()

    @contextlib.contextmanager
    def _session(self, run: dg.DagsterRun) -> Iterator[None]:
        """Give the run a session of its own. Steps in processes of their own start Spark themselves."""
        if not _in_process(run):
            yield
            return
        self._warm_up()
        if self.session is None:
            yield
            return
        with session_of_one_run(self.session):
            yield

    def _warm_up(self) -> None:
        """Start Spark, before any step: Java would write to the step's log to its end. Where it cannot start, the step reports
        why.
        """
        if self.session is None and self.settings is not None:
            try:
                self.session = build_session(self.settings)
                self._report()  # commands may use it
            except Exception as error:
                log.warning("Spark does not start: %s", type(error).__name__)

    def _trim(self) -> None:
        """Give memory back, once after each run: nobody asks for the worker at the moment."""
        self.trimmed = True
        if self.session is not None:
            try:
                give_memory_back(self.session)
            except Exception:
                log.exception("Java does not answer")
                self.failed = True

    def _java_answers(self) -> bool:
        """Whether the session, if there is one, can be used."""
        try:
            java: Any = self.session.sparkContext._jsc if self.session is not None else None
            return java is None or not java.sc().isStopped()
        except Exception:
            return False

    def _instance(self, text: str) -> dg.DagsterInstance:
        if self.instance is None or self.instance[0] != text:
            if self.instance is not None:
                self.instance[1].dispose()
            reference: Any = dg.deserialize_value(text)
            self.instance = (text, dg.DagsterInstance.from_ref(reference))
        return self.instance[1]

    def _ends(self) -> bool:
        """Whether the worker ends now. It then has no folder any more."""
        now = time.time()
        reason = reason_to_end(
            self.limits,
            self.runs,
            now - self.start.started_at,
            now - self.idle_since,
            stopped=self.folder.is_stopped(),
            lasting=self.start.lasting,
            failed=self.failed,
            abandoned=self.giver is not None and not is_locked(self.folder.path.parent / self.giver),
        )
        if not self.folder.path.exists():
            return True
        if reason is None:
            return False
        pool = WorkerPool(self.folder.path.parent, 0, self.limits)
        with suppress(Timeout, OSError, LakehouseError), pool.lock():
            # Under the pool's lock nobody gives a run: one that was given just before is executed.
            if self.folder.given_run() is None:
                log.info("ends: %s", reason)
                self.folder.delete()
                return True
        return False

    def _restart(self) -> None:
        """Become a new process of the same worker, which finds the run that it was given."""
        kill_java()
        os.set_inheritable(self.lock, True)
        os.execv(sys.executable, [sys.executable, "-m", MODULE, str(self.folder.path), str(self.lock)])  # noqa: S606

    def _report_cancelled(self) -> None:
        """Report the run as cancelled, before this process is killed, since it does not stop."""
        if self.instance is not None and (run_id := self.interrupter.run_id):
            run = self.instance[1].get_run_by_id(run_id)
            if run is not None and run.status == dg.DagsterRunStatus.CANCELING:
                self.instance[1].report_run_canceled(run, "The run did not stop, and its process was killed.")

    def _report(self) -> None:
        self.folder.write_process(pid=os.getpid(), runs=self.runs, idle_since=self.idle_since, warm=self.session is not None)


def _settings() -> Settings | None:
    """Return this machine's settings; None for a code location that is no project of ours."""
    with suppress(LakehouseError):
        return Settings.from_environment()
    return None


def _in_process(run: dg.DagsterRun) -> bool:
    """Whether the steps use this process's Spark. A mistake in the definitions is reported when the run is executed."""
    with suppress(Exception):
        return executes_in_process(run)
    return False


def main(path: str, lock: str, call: Callable[[Sequence[str]], int]) -> None:
    """Serve until there is a reason to end. ``call``: executes a command."""
    os.set_inheritable(int(lock), False)  # a child would keep the worker alive
    # Not of all loggers: a command's terminal would show what libraries log.
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    WorkerProcess(WorkerFolder(Path(path)), int(lock), call).serve()
