"""A small project with two tables, an instance whose runs go to workers, and runs of its windows.

Belongs here: what the tests of workers share. Does not: any test.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.reconstruct import ReconstructableRepository

from lakehouse_assets.orchestration.healing.ranges import range_tags
from lakehouse_assets.orchestration.workers.launcher import WorkerLauncher
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.orchestration.workers import jobs
from lakehouse_assets_tests.support import FOR_THREE_ROWS, PROJECT_ROOT, SHORT_LIVED, land, readings, rows_of, window

TABLE = {
    "source": {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv", "nulls": ["NA"]},
    "extraction": {"cadence": "daily", "start": "2024-01-01", "mode": "upsert"},
    "key": ["sensor", "hour"],
    "last_modified": "updated",
    "columns": {"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp"},
    "checks": [{"check": "not_empty"}, {"check": "in_range", "column": "value", "min": -100, "max": 100}],
}
FINISHED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


class Project:
    """The project in ``home``, which is the working directory. ``limits``: of the launcher's workers."""

    def __init__(self, home: Path, launcher: Mapping[str, Any]) -> None:
        self.home = home
        (home / "landing" / "readings").mkdir(parents=True)
        (home / "pyproject.toml").write_text(
            '[tool.lakehouse]\ntables = "tables"\nexecutor = "in_process"\nspark_conf = "spark.conf"\n'
        )
        (home / "spark.conf").write_text(f"spark.sql.shuffle.partitions 2\n{FOR_THREE_ROWS}{SHORT_LIVED}")
        self.write_table("readings")
        self.write_table("others")
        config = {
            "run_launcher": {"module": WorkerLauncher.__module__, "class": "WorkerLauncher", "config": dict(launcher)},
            "concurrency": {"runs": {"max_concurrent_runs": 1}},
            "telemetry": {"enabled": False},
        }
        (home / "dagster.yaml").write_text(yaml.safe_dump(config))
        self.settings = Settings.from_environment()
        self.instance = dg.DagsterInstance.from_config(str(home))
        self.origin = ReconstructableRepository.for_module(jobs.__name__, "defs", str(home))

    @property
    def launcher(self) -> WorkerLauncher:
        """The instance's launcher."""
        launcher = self.instance.run_launcher
        assert isinstance(launcher, WorkerLauncher)
        return launcher

    def write_table(self, name: str, **changes: Any) -> None:
        """Write a table's YAML."""
        folder = self.home / "tables" / name
        folder.mkdir(parents=True, exist_ok=True)
        document = {"type": "lakehouse_assets.LakehouseTable", "attributes": {"name": name, **TABLE, **changes}}
        (folder / "defs.yaml").write_text(yaml.safe_dump(document))

    def land(self, day: int, rows: Sequence[str]) -> None:
        """Land a day's file, which is both tables' source."""
        land(self.settings, day, rows)

    def launch(self, day: int, table: str = "readings") -> str:
        """Launch a run of one window, and return its id."""
        assets = {dg.AssetKey(f"{layer}_{table}") for layer in ("bronze", "silver", "baseline")}
        job = jobs.defs().resolve_implicit_global_asset_job_def()
        tags = range_tags(readings(), [window(day)])
        return self._launch(job, job.get_subset(asset_selection=assets), tags=tags, asset_selection=assets)

    def launch_job(self, op: str) -> str:
        """Launch the job of an op, and return the run's id."""
        job = jobs.defs().resolve_job_def(f"to_{op}")
        return self._launch(job, job)

    def _launch(self, job: dg.JobDefinition, selected: dg.JobDefinition, **values: Any) -> str:
        origin = self.origin.get_reconstructable_job(job.name).get_python_origin()
        run = self.instance.create_run_for_job(selected, job_code_origin=origin, **values)
        self.instance.launch_run(run.run_id, workspace=None)  # type: ignore[arg-type]
        return run.run_id

    def status(self, run_id: str) -> dg.DagsterRunStatus:
        """A run's status."""
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run.status

    def wait(self, run_id: str, seconds: float = 120) -> dg.DagsterRunStatus:
        """Wait for a run's end and for its worker to be free, and return its status."""
        until(lambda: self.status(run_id) in FINISHED and self.launcher.pool.worker_of(run_id) is None, seconds, self.logs)
        return self.status(run_id)

    def run(self, day: int, table: str = "readings") -> float:
        """Run one window, which succeeds. Returns the seconds from the request to the end."""
        began = time.monotonic()
        run_id = self.launch(day, table)
        assert self.wait(run_id) == dg.DagsterRunStatus.SUCCESS, self.logs()
        return time.monotonic() - began

    def run_in_new_process(self, table: str) -> None:
        """Run all windows of a table by the command, in a process of its own with a Java of its own."""
        command = [sys.executable, "-m", "lakehouse_assets.cli", "run", "--table", table]
        ended = subprocess.run(command, cwd=self.home, capture_output=True, text=True, timeout=600, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def rows(self, table: str = "readings") -> list[dict[str, Any]]:
        """Silver's rows."""
        return rows_of(self.settings.path("silver", table), ["sensor", "hour", "value"])

    def logs(self) -> str:
        """The ends of all workers' logs."""
        logs = [worker.log for worker in self.launcher.pool.workers()]
        return "\n".join(log.read_text(errors="replace")[-4000:] for log in logs if log.exists())

    def processes(self) -> list[int]:
        """The processes of the workers that live."""
        return [worker.process()["pid"] for worker in self.launcher.pool.workers() if worker.is_alive()]

    def end(self) -> None:
        """End all workers."""
        for worker in self.launcher.pool.workers():
            worker.kill()
        self.instance.dispose()


@contextmanager
def project(home: Path, monkeypatch: pytest.MonkeyPatch, **launcher: Any) -> Iterator[Project]:
    """A project whose workers end with the block."""
    home.mkdir(exist_ok=True)
    for name in [name for name in os.environ if name.startswith(("LAKEHOUSE_", "DAGSTER_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT_ROOT))
    monkeypatch.setenv("LAKEHOUSE_SPARK_MASTER", "local[2]")
    monkeypatch.chdir(home)
    shop = Project(home, launcher)
    try:
        yield shop
    finally:
        shop.end()


def until(true: Any, seconds: float, reason: Any = lambda: "") -> None:
    """Wait until it is true. Fails with the reason."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, reason()
        time.sleep(0.05)
