"""`lakehouse worker`: the processes that stay and execute Dagster's runs.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

import time
from typing import Annotated

import typer

from lakehouse_assets.cli import common, terminal
from lakehouse_assets.settings import Settings

worker_app = typer.Typer(no_args_is_help=True, help="Workers: processes that stay and execute Dagster's runs.")
STOP_SECONDS = 20.0


@worker_app.command("start")
def worker_start(as_json: terminal.AsJson = False) -> None:
    """Start a worker, so that the next run finds one. Starts none where as many are there as stay."""
    from lakehouse_assets.orchestration.workers.status import pool_of, worker_rows

    with common.open_instance(Settings.from_environment()) as instance:
        pool = pool_of(instance)
        pool.start()
        terminal.show(worker_rows(pool), as_json)


@worker_app.command("status")
def worker_status(as_json: terminal.AsJson = False) -> None:
    """List the workers, and what each does."""
    from lakehouse_assets.orchestration.workers.status import pool_of, worker_rows

    with common.open_instance(Settings.from_environment()) as instance:
        terminal.show(worker_rows(pool_of(instance)), as_json, "no worker is there; a run starts one")


@worker_app.command("stop")
def worker_stop(
    now: Annotated[bool, typer.Option("--now", help="Kill them with their runs, which fail and are retried.")] = False,
    as_json: terminal.AsJson = False,
) -> None:
    """End all workers. One that has a run ends after it. Lists those that are still there."""
    from lakehouse_assets.orchestration.workers.status import pool_of, worker_rows

    with common.open_instance(Settings.from_environment()) as instance:
        pool = pool_of(instance)
        for worker in pool.workers():
            worker.stop()
            if now:
                worker.kill()
        end = time.monotonic() + STOP_SECONDS
        while time.monotonic() < end and [w for w in pool.workers() if w.is_alive() and (now or w.given_run() is None)]:
            time.sleep(0.1)
        rows = [row for row in worker_rows(pool) if row["state"] != "dead"]
        terminal.show(rows, as_json, "no worker is there")
