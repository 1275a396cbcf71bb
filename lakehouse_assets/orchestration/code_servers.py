"""The run launcher of code servers in containers or on other hosts: `run_launcher` in `dagster.yaml`.

Belongs here: whether a run's code server still executes it. Does not: giving runs to workers (workers/launcher).

Dagster's default launcher does not ask: a run whose container ended would count as running for `max_runtime_seconds`.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from lakehouse_assets.orchestration.dagster_private import CheckRunHealthResult, WorkerStatus
from lakehouse_assets.orchestration.dagster_runs import runs_of_code_server
from lakehouse_assets.orchestration.own_process import ENDED, was_killed


class CodeServerLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher. It starts each run as a process of its code server, and asks that server for the run's
    health. A server that was restarted has lost its runs. Run monitoring then marks them as failed, and `run_retries` starts
    them again.
    """

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Mapping[str, Any]) -> "CodeServerLauncher":
        """Return the launcher of a configuration, which has no keys."""
        return cls(inst_data)

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Run monitoring asks after each run."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return that the run has failed if its code server answers and does not execute it. So it has if its command was
        killed on this host. A server that does not answer may only be slow, and what it started may go on.
        """
        if was_killed(run):
            return CheckRunHealthResult(WorkerStatus.FAILED, ENDED)
        runs = runs_of_code_server(run)
        if runs is not None and run.run_id not in runs:
            return CheckRunHealthResult(WorkerStatus.FAILED, "the code server that started it was restarted")
        return CheckRunHealthResult(WorkerStatus.RUNNING)
