"""Which worker gets a run, and when a worker is replaced: pure functions.

Belongs here: choices from facts. Does not: files and processes (folder, pool), or the clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lakehouse_assets.orchestration.workers.folder import WorkerLimits


@dataclass(frozen=True)
class WorkerState:
    """A living worker. ``fits``: whether its environment and code location are those of the run. ``idle_since``: when its last
    run ended (or its start), None while it has a run. ``leaving``: it ends by itself.
    """

    name: str
    fits: bool
    idle_since: float | None
    leaving: bool = False


@dataclass(frozen=True)
class Choice:
    """``give``: the worker that gets the run; None: a new one. ``stop``: an idle worker that ends for it. ``lasting``: whether
    a new worker stays after the run.
    """

    give: str | None = None
    stop: str | None = None
    lasting: bool = True


def choose_worker(workers: Sequence[WorkerState], slots: int) -> Choice:
    """Return who executes the next run. A run never waits: past the slots a worker is started that ends after it.

    The worker that was used last gets it, so that the others become idle for long, and end.
    """
    staying = [worker for worker in workers if not worker.leaving]
    idle = sorted((w for w in staying if w.idle_since is not None), key=lambda worker: (worker.idle_since or 0, worker.name))
    if fitting := [worker for worker in idle if worker.fits]:
        return Choice(give=fitting[-1].name)
    if len(staying) < slots:
        return Choice()
    if idle:
        return Choice(stop=idle[0].name)
    return Choice(lasting=False)


def reason_to_end(
    limits: WorkerLimits,
    runs: int,
    age: float,
    idle: float,
    stopped: bool = False,
    lasting: bool = True,
    failed: bool = False,
    abandoned: bool = False,
) -> Literal["asked", "one run", "failed", "abandoned", "runs", "age", "idle"] | None:
    """Return why a worker without a run ends now. ``age``, ``idle``: seconds. ``failed``: its last run or command failed, so
    that its session may be in any state. ``abandoned``: the process that gave it runs has ended.
    """
    if stopped:
        return "asked"
    if failed:
        return "failed"
    if runs and not lasting:
        return "one run"
    if abandoned:
        return "abandoned"
    if runs >= limits.max_runs:
        return "runs"
    if age >= limits.max_seconds:
        return "age"
    return "idle" if idle >= limits.idle_seconds else None
