"""The run launcher that gives runs to workers: `run_launcher` in `dagster.yaml`.

Belongs here: Dagster's calls → the pool's. Does not: which worker gets a run (choice), or executing it (process).

The webserver, the daemon and commands load this file: it starts no Spark.
"""

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import dagster as dg
from filelock import Timeout

from lakehouse_assets.errors import EnvironmentMissing, LakehouseError
from lakehouse_assets.orchestration.code_servers import CodeServerLauncher
from lakehouse_assets.orchestration.dagster_private import CheckRunHealthResult, InstanceRef, LaunchRunContext, WorkerStatus
from lakehouse_assets.orchestration.dagster_runs import code_location, executable, is_of_code_server
from lakehouse_assets.orchestration.workers.configured import keeps_sessions
from lakehouse_assets.orchestration.workers.folder import GivenRun, WorkerLimits
from lakehouse_assets.orchestration.workers.pool import MOST_SLOTS, POOL_FOLDER, WorkerPool
from lakehouse_assets.orchestration.workers.presence import is_locked
from lakehouse_assets.settings import Settings

# Which worker a run was given to.
WORKER_TAG = "lakehouse/worker"
# No run of another instance is waited for so long, unless the process that gave it still runs.
UNKNOWN_SECONDS = 3 * 24 * 3600


class WorkerLauncher(CodeServerLauncher):
    """Gives each run to a process that stays, with definitions and Spark loaded. Other runs are processes of their own, as
    Dagster's default launcher starts them. These are runs of another Python or of a code server on a port, and runs that
    cannot be handed over (a full disk). So are those of a Spark cluster, whose cores a session would keep.
    """

    def __init__(
        self,
        inst_data: Any = None,
        base_dir: str = POOL_FOLDER,
        slots: int | None = None,
        on_cluster: bool = False,
        **limits: float,
    ) -> None:
        super().__init__(inst_data)
        self._on_cluster = on_cluster
        self._path, self._slots = Path(base_dir).resolve(), slots
        self._limits = WorkerLimits(**limits)  # type: ignore[arg-type]

    @classmethod
    def config_type(cls) -> Any:
        """Return the keys below `config:`."""
        limits = {f.name: dg.Field(dg.Int if f.name == "max_runs" else float, is_required=False) for f in fields(WorkerLimits)}
        return {
            "base_dir": dg.Field(str, is_required=False, description="A folder on this machine's disk."),
            "slots": dg.Field(int, is_required=False, description="How many workers stay (default: max_concurrent_runs)."),
            "on_cluster": dg.Field(
                bool, is_required=False, description="Whether workers keep a Spark cluster's cores between runs (default: no)."
            ),
            **limits,
        }

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Mapping[str, Any]) -> "WorkerLauncher":
        """Return the launcher of a configuration."""
        return cls(inst_data, **config_value)

    @property
    def pool(self) -> WorkerPool:
        """The instance's workers."""
        return WorkerPool(self._path, self._slots or self._most_runs(), self._limits)

    def _most_runs(self) -> int:
        queue = self._instance.get_concurrency_config().run_queue_config if self.has_instance else None
        most = queue.max_concurrent_runs if queue is not None else MOST_SLOTS
        return most if most > 0 else MOST_SLOTS

    def launch_run(self, context: LaunchRunContext) -> None:
        """Give the run to a worker, or start a process for it."""
        run = context.dagster_run
        location = code_location(run)
        elsewhere = is_of_code_server(run) or executable(run) not in (None, sys.executable)
        if location is None or elsewhere or not self._may_keep_sessions():
            super().launch_run(context)
            return
        request = GivenRun(run.run_id, self._reference(), time.time())
        try:
            worker = self.pool.assign(request, location, ended_for=self._ended_for)
        except (OSError, Timeout, EnvironmentMissing) as error:
            self._instance.report_engine_event(f"No worker can take the run, so it is a process of its own: {error}", run)
            super().launch_run(context)
            return
        if worker is not None:
            self._instance.add_run_tags(run.run_id, {WORKER_TAG: worker.name})

    def _may_keep_sessions(self) -> bool:
        with suppress(LakehouseError):
            return keeps_sessions(Settings.from_environment(), self._on_cluster)
        return True  # a code location that is no project of ours

    def _reference(self) -> str:
        return dg.serialize_value(self._instance.get_ref())

    def _ended_for(self, run: GivenRun) -> float | None:
        """Return how long ago a run ended; None if it may not have. Another instance may have given a run that this one does
        not know: the instances of a project's folder share its workers. After three days without the process that gave it, such
        a run counts as ended.
        """
        record = self._instance.get_run_record_by_id(run.run_id)
        if record is not None:
            return time.time() - (record.end_time or 0) if record.dagster_run.is_finished else None
        if self._is_of_this_instance(run):
            return float("inf")
        seconds = time.time() - run.given_at - UNKNOWN_SECONDS
        is_waited_for = run.giver is not None and is_locked(self._path / run.giver)
        return seconds if seconds > 0 and not is_waited_for else None

    def _is_of_this_instance(self, run: GivenRun) -> bool:
        """Whether an instance with this one's storage gave the run, whatever else of `dagster.yaml` has changed since."""
        with suppress(Exception):  # another version's text
            return _storage_of(dg.deserialize_value(run.instance, InstanceRef)) == _storage_of(self._instance.get_ref())
        return False

    def terminate(self, run_id: str) -> bool:
        """Stop a run: its worker interrupts it, and is killed if it does not stop."""
        worker, run = self.pool.worker_of(run_id), self._instance.get_run_by_id(run_id)
        if worker is None:
            return super().terminate(run_id)
        if run is None or run.is_finished:
            return False
        self._instance.report_run_canceling(run)
        if worker.is_alive():
            worker.cancel(run_id)
        else:
            self._instance.report_run_canceled(run, f"The process of {worker.name} had ended already.")
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Run monitoring asks after each run's worker."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return whether the run's process lives. A code server is asked for those that it started; a run that a command
        executes was launched by nobody, and lives as long as that command's process.
        """
        worker = self.pool.worker_of(run.run_id)
        if worker is not None:
            if worker.is_alive():
                return CheckRunHealthResult(WorkerStatus.RUNNING, run_worker_id=worker.name)
            ended = f"the process of {worker.name} has ended"
            return CheckRunHealthResult(WorkerStatus.FAILED, ended, run_worker_id=worker.name)
        if WORKER_TAG in run.tags:
            return CheckRunHealthResult(WorkerStatus.NOT_FOUND, f"{run.tags[WORKER_TAG]} is gone")
        return super().check_run_worker_health(run)

    def get_run_worker_debug_info(self, run: dg.DagsterRun, include_container_logs: bool | None = True) -> str | None:
        """Return where the log of the run's worker is. Its text may quote data, and is not stored with the run."""
        worker = self.pool.worker_of(run.run_id)
        return f"The worker's log: {worker.log}" if worker is not None else None


def _storage_of(reference: InstanceRef) -> tuple[Any, ...]:
    return reference.local_artifact_storage_data, reference.run_storage_data, reference.storage_data
