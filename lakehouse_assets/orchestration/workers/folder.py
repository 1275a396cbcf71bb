"""A worker's folder: the lock that shows that it is alive, what it was started with, and the run that it is given.

Belongs here: these files, one worker's. Does not: all workers of an instance (pool), or executing a run (process).

The worker holds `lock` from its start to its end, whatever ends it: so no process id is believed that may be another's by now.
Everything else is written beside its place and moved into it. The folder is its owner's alone.
"""

import fcntl
import json
import os
import shutil
import signal
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lakehouse_assets.orchestration.workers.presence import is_locked
from lakehouse_assets.storage.atomic_write import write_atomically


@dataclass(frozen=True)
class WorkerLimits:
    """When a worker is replaced, when it ends because nobody needs it, and how long a cancelled run may take to stop."""

    max_runs: int = 100
    max_seconds: float = 12 * 3600
    idle_seconds: float = 900
    cancel_seconds: float = 30


@dataclass(frozen=True)
class WorkerStart:
    """What a worker was started with. ``context``: a hash of its environment (`fingerprint`). ``location``: the code location
    that it serves, once it has had a run. ``lasting``: whether it stays after its first run.
    """

    context: str
    limits: WorkerLimits
    started_at: float
    location: str | None = None
    lasting: bool = True


@dataclass(frozen=True)
class GivenRun:
    """A run that a worker is given. ``instance``: Dagster's own description of the instance, as text. ``giver``: the file of
    the process that launched it (`presence`). Or a ``command`` of the command line, and the ``address`` of its client.
    """

    run_id: str
    instance: str
    given_at: float
    command: tuple[str, ...] | None = None
    address: str | None = None
    giver: str | None = None


class WorkerFolder:
    """One worker's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log, self.wake_pipe = path / "log", path / "wake"

    @property
    def name(self) -> str:
        """The worker's name."""
        return self.path.name

    def create(self, start: WorkerStart) -> int:
        """Make the folder and lock it. Returns the lock, which the worker's process inherits."""
        self.path.mkdir(mode=0o700, parents=True)
        try:
            os.mkfifo(self.wake_pipe, 0o600)
            self.write_start(start)
        except BaseException:
            self.delete()
            raise
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def is_alive(self) -> bool:
        """Whether the worker's process has not ended. One that is paused is alive."""
        return is_locked(self.path / "lock")

    def write_start(self, start: WorkerStart) -> None:
        """Store what the worker is started with."""
        self._write("start.json", asdict(start))

    def start(self) -> WorkerStart | None:
        """Return what the worker was started with; None where the file cannot be read."""
        values = self._read("start.json")
        if values is None:
            return None
        with suppress(TypeError, KeyError):
            return WorkerStart(**{**values, "limits": WorkerLimits(**values["limits"])})
        return None

    def give(self, run: GivenRun) -> None:
        """Give the worker its next run, and wake it."""
        self._write("run.json", asdict(run))
        self.wake()

    def given_run(self) -> GivenRun | None:
        """Return the run that the worker has."""
        values = self._read("run.json")
        with suppress(TypeError):
            run = GivenRun(**values) if values is not None else None
            return replace(run, command=tuple(run.command)) if run is not None and run.command is not None else run
        return None

    def finish_run(self) -> None:
        """Take the run away: the worker can have another one."""
        (self.path / "cancel").unlink(missing_ok=True)
        (self.path / "run.json").unlink(missing_ok=True)

    def cancel(self, run_id: str) -> None:
        """Ask the worker to stop this run."""
        self._write("cancel", run_id)
        self.wake()

    def is_cancelled(self, run_id: str) -> bool:
        """Whether the worker is asked to stop this run."""
        return self._read("cancel") == run_id

    def stop(self) -> None:
        """Ask the worker to end after its run."""
        self._write("stop", True)
        self.wake()

    def is_stopped(self) -> bool:
        """Whether the worker is asked to end."""
        return (self.path / "stop").exists()

    def wake(self) -> None:
        """Let the worker look into its folder now; it does so every few seconds anyway."""
        with suppress(OSError):
            pipe = os.open(self.wake_pipe, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(pipe, b"!")
            finally:
                os.close(pipe)

    def write_process(self, **values: Any) -> None:
        """Store what the worker reports of its process. A full disk does not matter."""
        with suppress(OSError):
            self._write("process.json", {**self.process(), **values})

    def process(self) -> dict[str, Any]:
        """Return what the worker reports of its process: ``pid``, ``runs``, ``idle_since``."""
        values = self._read("process.json")
        return values if isinstance(values, dict) else {}

    def kill(self) -> None:
        """End the worker's process at once, paused or not. Its Java ends with it."""
        pid = self.process().get("pid")
        if isinstance(pid, int) and pid > 1 and self.is_alive():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def delete(self) -> None:
        """Delete the folder, of a worker that has ended or is about to."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _write(self, name: str, value: Any) -> None:
        write_atomically(self.path / name, json.dumps(value).encode())

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_bytes())
        except (OSError, ValueError):
            return None
