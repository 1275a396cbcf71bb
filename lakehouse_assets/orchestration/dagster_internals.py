"""What commands and sensors use of Dagster beyond its public API: runs in this process, tags, backfills, ticks and cursors.

Belongs here: these, with the instance's undocumented store of cursors. Does not: the private imports (dagster_private), results
of checks (partition_results), launched runs (dagster_runs), or any public API.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.orchestration.dagster_private import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    FINISHED_STATUSES,
    NOT_FINISHED_STATUSES,
    PARENT_RUN_ID_TAG,
    PARTITION_NAME_TAG,
    ROOT_RUN_ID_TAG,
    BulkActionsFilter,
    BulkActionStatus,
    DagsterAssetCheckFailedError,
    InMemoryJob,
    PartitionBackfill,
    SensorExecutionData,
    copy,
    core_execute_in_process,
)

# What a run in this process raises when a blocking check fails: public Dagster has no name for it.
BlockingCheckFailed = DagsterAssetCheckFailedError
# Which windows a run includes, to request runs of ranges and to read the runs of a window.
RANGE_START_TAG, RANGE_END_TAG = ASSET_PARTITION_RANGE_START_TAG, ASSET_PARTITION_RANGE_END_TAG
PARTITION_TAG = PARTITION_NAME_TAG
# Which runs a run retries: run monitoring starts a killed run again, as a run of another id.
RETRIED_RUN_TAGS = (PARENT_RUN_ID_TAG, ROOT_RUN_ID_TAG)
# Which runs are over, and which may still change something.
FINISHED, UNFINISHED = FINISHED_STATUSES, NOT_FINISHED_STATUSES


def execute_in_process(
    job: dg.JobDefinition,
    instance: dg.DagsterInstance,
    assets: Collection[dg.AssetKey],
    tags: Mapping[str, str],
    run_config: Mapping[str, Any],
) -> None:
    """Run a job of these assets in this process. Raises what a step raises.

    Public `execute_in_process` either leaves out checks, or records the run as one of no asset.
    """
    core_execute_in_process(
        job=InMemoryJob(job),
        run_config=dict(run_config),
        instance=instance,
        output_capturing_enabled=False,
        raise_on_error=True,
        run_tags=dict(tags),
        asset_selection=frozenset(assets),
    )


def unfinished_backfills(instance: dg.DagsterInstance) -> Sequence[PartitionBackfill]:
    """Return backfills whose runs may not have been requested yet: the public filter by runs does not see them."""
    statuses = [BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING, BulkActionStatus.FAILING]
    return instance.get_backfills(filters=BulkActionsFilter(statuses=statuses))


def resume_from(context: dg.SensorEvaluationContext, cursor: str | None) -> None:
    """Let a sensor's tick start from another cursor than the stored one, which is read-only."""
    context._cursor = cursor


def read_cursor(instance: dg.DagsterInstance, key: str) -> str | None:
    """Return a value of the instance's store of cursors, where progress is kept that no sensor's own cursor can keep."""
    return instance.daemon_cursor_storage.get_cursor_values({key}).get(key)


def write_cursors(instance: dg.DagsterInstance, values: Mapping[str, str]) -> None:
    """Store values for `read_cursor`."""
    instance.daemon_cursor_storage.set_cursor_values(dict(values))


def replace_requests(tick: SensorExecutionData, requests: Sequence[dg.RunRequest]) -> SensorExecutionData:
    """Return a sensor's tick with these requests. The public `SensorResult` cannot carry a condition sensor's evaluations."""
    return copy(tick, run_requests=requests)
