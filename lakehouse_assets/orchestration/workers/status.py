"""What the workers of an instance do at the moment, as rows.

Belongs here: reading the pool's folders. Does not: changing anything, or printing (cli).
"""

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from lakehouse_assets.errors import RefusedError
from lakehouse_assets.orchestration.workers.folder import WorkerFolder
from lakehouse_assets.orchestration.workers.launcher import WorkerLauncher
from lakehouse_assets.orchestration.workers.pool import WorkerPool


def pool_of(instance: dg.DagsterInstance) -> WorkerPool:
    """Return the instance's workers. Raises RefusedError if it starts a process for each run."""
    launcher = instance.run_launcher
    if not isinstance(launcher, WorkerLauncher):
        raise RefusedError(
            "this instance starts a process for each run; `run_launcher` in dagster.yaml makes it keep workers"
            " (docs/deployment.md)"
        )
    return launcher.pool


def worker_rows(pool: WorkerPool) -> list[dict[str, Any]]:
    """Return a row for each worker, dead ones too."""
    return [_row(worker) for worker in pool.workers()]


def _row(worker: WorkerFolder) -> dict[str, Any]:
    start, run, process = worker.start(), worker.given_run(), worker.process()
    return {
        "worker": worker.name,
        "state": _state(worker, run is not None, process),
        "pid": process.get("pid"),
        "run_id": run.run_id if run is not None else None,
        "runs": process.get("runs"),
        "started_at": _moment(start.started_at if start is not None else None),
        "idle_since": None if run is not None else _moment(process.get("idle_since")),
        "log": str(worker.log),
    }


def _state(worker: WorkerFolder, has_run: bool, process: dict[str, Any]) -> str:
    if not worker.is_alive():
        return "dead"
    if has_run:
        return "running"
    if worker.is_stopped():
        return "ending"
    return "idle" if process.get("warm") else "starting"


def _moment(seconds: Any) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int | float) else None
