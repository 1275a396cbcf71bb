"""Runs that a command executes in its own process: their tag, and whether that process was killed.

Belongs here: a run → its process. Does not: who a process is (storage/leases), or runs that a launcher started (workers).
"""

import json
from collections.abc import Mapping

import dagster as dg

from lakehouse_assets.storage.leases.process_identity import is_dead, own_identity

PROCESS_TAG = "lakehouse/process"
ENDED = "the process of the command that executed it was killed"


def process_tags(tags: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return these tags and the one of this process, for a run in it."""
    return {**(tags or {}), PROCESS_TAG: json.dumps(own_identity())}


def was_killed(run: dg.DagsterRun) -> bool:
    """Whether the process that executes a run has ended, for sure: it is of this host, and nobody launched the run. (A launched
    one may have the tag of the run that it repeats.)
    """
    text = run.tags.get(PROCESS_TAG)
    if text is None or run.remote_job_origin is not None:
        return False
    try:
        identity = json.loads(text)
    except ValueError:
        return False
    return isinstance(identity, dict) and is_dead(identity)


def fail_killed_runs(instance: dg.DagsterInstance) -> list[str]:
    """Report the runs of killed commands as failed, and return their ids: they hold no slot of the queue any more."""
    started = instance.get_runs(filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    killed = [run for run in started if was_killed(run)]
    for run in killed:
        instance.report_run_failed(run, ENDED)
    return [run.run_id for run in killed]
