"""Run keys: Dagster starts no second run of a key, so that what a repeated tick requests runs once.

Belongs here: the key for what is requested again on purpose. Does not: what is requested (retries, stale_gold).
"""

from collections.abc import Sequence
from datetime import datetime

import dagster as dg

from lakehouse_assets.orchestration.healing.window_state import ended_at

RUN_KEY = "dagster/run_key"  # Dagster's tag of a run that a sensor asked for
FINISHED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


def next_run_key(
    instance: dg.DagsterInstance, run_key: str, ended: Sequence[dg.DagsterRunStatus], before: datetime | None = None
) -> str:
    """Return this run key, or one that follows from it where its run has ``ended`` so (``before`` a time): Dagster starts no
    second run of a key.
    """
    key = run_key
    while records := instance.get_run_records(dg.RunsFilter(tags={RUN_KEY: key}, statuses=list(ended)), limit=1):
        if before is not None and ended_at(records[0]) > before:
            break
        key = f"{run_key} {records[0].dagster_run.run_id}"
    return key
