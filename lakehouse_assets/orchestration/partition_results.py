"""Results of checks by partition in Dagster: a preview, which its public API stores one by one.

Belongs here: specs, results and their materializations, stored together. Does not: what a result says
(assets/window_checks), or how results are shown (checks_in_one_pass).
"""

import logging
import time
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
from sqlalchemy import bindparam

from lakehouse_assets.orchestration.dagster_private import (
    RUNLESS_RUN_ID,
    AssetCheckEvaluationPlanned,
    AssetCheckEvaluationTargetMaterializationData,
    AssetCheckExecutionsTable,
    DagsterEvent,
    EventLogEntry,
    SqlEventLogStorage,
    SqlEventLogStorageTable,
)

# How many check results one transaction of the event storage stores.
AT_ONCE = 2000
# Databases whose INSERT returns the ids of many rows, in their order.
RETURNING_IDS = ("sqlite", "postgresql")
# What identifies a check's result.
RESULT_KEY = ("asset_key", "check_name", "run_id", "partition")


def partitioned_check_spec(name: str, asset: dg.AssetKey, description: str, partitions: Any) -> dg.AssetCheckSpec:
    """Return a check with partitions. Dagster calls them a preview, and warns of each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(name, asset=asset, description=description, partitions_def=partitions)


def finished_check(check: dg.AssetCheckSpec) -> dg.Output:
    """Return the output of a step's check whose results `store_partition_results` has stored. An `AssetCheckResult` would add
    one of no partition in a run of several.
    """
    return dg.Output(None, output_name=check.get_python_identifier())


def newest_materialization(
    instance: dg.DagsterInstance, asset: dg.AssetKey
) -> AssetCheckEvaluationTargetMaterializationData | None:
    """Return what a check's result names as the materialization that it is of; None where there is none."""
    records = instance.fetch_materializations(asset, limit=1).records
    return _target(records[0]) if records else None


class _OfNewestMaterialization(dg.AssetCheckResult):
    """Dagster lists every partition of the asset to choose the materialization that a check of all of them has looked at. Of an
    hourly table of some years that takes longer than the check.
    """

    def _get_unpartitioned_target_materialization_data(
        self, step_context: Any, asset_key: dg.AssetKey
    ) -> AssetCheckEvaluationTargetMaterializationData | None:
        return newest_materialization(step_context.instance, asset_key)


def of_newest_materialization(result: dg.AssetCheckResult) -> dg.AssetCheckResult:
    """Return the result of a check without partitions as one of its asset's newest materialization."""
    return _OfNewestMaterialization(**{name: getattr(result, name) for name in result._fields})


@dataclass(frozen=True)
class PartitionResult:
    """A check's result in one partition of its asset. ``result``: None where it did not look at the partition."""

    check: dg.AssetCheckKey
    partition: str
    result: dg.AssetCheckResult | None


def store_partition_results(context: Any, results: Sequence[PartitionResult]) -> None:
    """Store these results as the newest ones, in a step or op. The asset's partitions are materialized already: a result
    counts for the materialization that was the last one when it was stored.

    `context.log_event` takes a transaction for each result. This takes one for `AT_ONCE`, and writes what Dagster's own
    `store_event` writes. Of a storage that is no SQL it takes that.
    """
    keys = {each.check.asset_key: set[str]() for each in results}
    for each in results:
        keys[each.check.asset_key].add(each.partition)
    targets = {asset: _last_materializations(context.instance, asset, partitions) for asset, partitions in keys.items()}
    step = context.get_step_execution_context().step.key
    storage = context.instance.event_log_storage
    for start in range(0, len(results), AT_ONCE):
        part = results[start : start + AT_ONCE]
        entries = [_entry(context.run, step, each, targets[each.check.asset_key].get(each.partition)) for each in part]
        stored = list(zip(part, entries, strict=True))
        if not isinstance(storage, SqlEventLogStorage) or not _store_together(storage, stored):
            for each, entry in stored:
                if each.result is not None:
                    storage.store_event(entry)


def report_partition_results(instance: dg.DagsterInstance, results: Sequence[PartitionResult]) -> None:
    """Report these results outside a run, one by one. Of a check that did not look, nothing is reported.

    Dagster stores one result of a check, a partition and a run; without a run, the second would be refused. The older one goes.
    """
    keys = {each.check.asset_key: set[str]() for each in results}
    for each in results:
        keys[each.check.asset_key].add(each.partition)
    targets = {asset: _last_materializations(instance, asset, partitions) for asset, partitions in keys.items()}
    storage, older = instance.event_log_storage, AssetCheckExecutionsTable
    for each in results:
        if each.result is None:
            continue
        if isinstance(storage, SqlEventLogStorage):
            values = (each.check.asset_key.to_string(), each.check.name, RUNLESS_RUN_ID, each.partition)
            conditions = [older.c[name] == value for name, value in zip(RESULT_KEY, values, strict=True)]
            with storage.index_connection() as connection:
                connection.execute(older.delete().where(*conditions))
        target = targets[each.check.asset_key].get(each.partition)
        instance.report_runless_asset_event(_evaluation(each, each.result, target))


def _evaluation(each: PartitionResult, result: dg.AssetCheckResult, target: Any) -> dg.AssetCheckEvaluation:
    values = {field: getattr(result, field) for field in ("passed", "metadata", "severity", "description")}
    return dg.AssetCheckEvaluation(
        asset_key=each.check.asset_key,
        check_name=each.check.name,
        partition=each.partition,
        target_materialization_data=target,
        **values,
    )


def partitions_with_results(instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey]) -> set[str]:
    """Return the partitions of which Dagster has a result of any of these checks."""
    records = instance.event_log_storage.get_asset_check_partition_info(checks)
    return {record.partition_key for record in records if record.partition_key is not None}


def _last_materializations(
    instance: dg.DagsterInstance, asset: dg.AssetKey, partitions: Collection[str]
) -> dict[str, AssetCheckEvaluationTargetMaterializationData]:
    """Return each partition's last materialization."""
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    ids = instance.event_log_storage.get_latest_storage_id_by_partition(asset, kind, set(partitions))
    if not ids:
        return {}
    chosen = dg.AssetRecordsFilter(asset_key=asset, storage_ids=list(ids.values()))
    records = instance.fetch_materializations(chosen, limit=len(ids)).records
    return {str(record.partition_key): _target(record) for record in records}


def _target(record: dg.EventLogRecord) -> AssetCheckEvaluationTargetMaterializationData:
    return AssetCheckEvaluationTargetMaterializationData(
        storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
    )


def _entry(run: dg.DagsterRun, step: str, each: PartitionResult, target: Any) -> EventLogEntry:
    """Return the event of one result; of a check that did not look, the one by which Dagster plans it: once its run has ended,
    that is "skipped".
    """
    asset, name = each.check.asset_key, each.check.name
    if each.result is None:
        kind, message = dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED, f"{name} did not look at {each.partition}"
        data: Any = AssetCheckEvaluationPlanned(asset_key=asset, check_name=name)
    else:
        kind, message = dg.DagsterEventType.ASSET_CHECK_EVALUATION, f"{name}, {each.partition}: {each.result.description}"
        data = _evaluation(each, each.result, target)
    event = DagsterEvent(kind.value, run.job_name, step_key=step, event_specific_data=data, message=message)
    level = logging.DEBUG
    return EventLogEntry(None, level, "", run.run_id, time.time(), step_key=step, job_name=run.job_name, dagster_event=event)


def _store_together(storage: Any, stored: Iterable[tuple[PartitionResult, EventLogEntry]]) -> bool:
    """Store events and results in one transaction, each result in the place of what its run has planned. Returns False if the
    database cannot.
    """
    log, executions = SqlEventLogStorageTable, AssetCheckExecutionsTable
    rows, results = [], []
    for each, entry in stored:
        data = entry.get_dagster_event().event_specific_data
        target = data.target_materialization_data if isinstance(data, dg.AssetCheckEvaluation) else None
        status = "PLANNED" if each.result is None else "SUCCEEDED" if each.result.passed else "FAILED"
        rows.append(row := storage._event_to_row(entry))
        results.append(
            {
                "asset_key": each.check.asset_key.to_string(),
                "check_name": each.check.name,
                "partition": each.partition,
                "run_id": row["run_id"],
                "execution_status": status,
                "evaluation_event": row["event"],
                "evaluation_event_timestamp": row["timestamp"],
                "materialization_event_storage_id": target.storage_id if target else None,
            }
        )
    result_keys = [{f"of_{name}": result[name] for name in RESULT_KEY} for result in results]
    with storage.index_transaction() as connection:
        if connection.dialect.name not in RETURNING_IDS:
            return False
        insert = log.insert().returning(log.c.id, sort_by_parameter_order=True)
        ids = connection.execute(insert, rows).scalars().all()
        for result, number in zip(results, ids, strict=True):
            result["evaluation_event_storage_id"] = number
        connection.execute(
            executions.delete().where(*(executions.c[name] == bindparam(f"of_{name}") for name in RESULT_KEY)),
            result_keys,
        )
        connection.execute(executions.insert(), results)
    if storage.is_run_sharded:
        # A run's own log, which its page shows.
        with storage.run_connection(rows[0]["run_id"]) as connection:
            connection.execute(log.insert(), rows)
    return True
