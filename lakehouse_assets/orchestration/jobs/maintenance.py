"""Maintenance in Dagster: `maintenance_<table>`, its weekly schedule, and the nightly clean-up.

Belongs here: when it runs, what it shows, which runs may be deleted. Does not: what is safe in a Delta table (operations).
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.operations.maintain import maintain, maintain_gold, sweep
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.dagster_internals import FINISHED, read_cursor, write_cursors
from lakehouse_assets.orchestration.healing.window_state import read_statuses, window_assets
from lakehouse_assets.orchestration.jobs.operation_job import OperationJobs
from lakehouse_assets.orchestration.spark import SPARK, table_run
from lakehouse_assets.orchestration.step_boundary import step_of
from lakehouse_assets.reports.markdown import table as markdown_table
from lakehouse_assets.settings import Settings

WEEKLY, NIGHTLY = "30 2 * * 0", "0 3 * * *"
RUN_HISTORY = timedelta(days=90)
EVALUATION_HISTORY = timedelta(days=7)
BATCH_SIZE = 2000
# The instance stores under this key the last run that was examined and kept.
CURSOR_KEY = "lakehouse_runs_looked_at"
EVENTS_TO_KEEP = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_CHECK_EVALUATION}


def maintenance_asset(spec: TableSpec, settings: Settings, common: dict[str, Any]) -> Any:
    """Return `maintenance_<table>`. ``common``: group, owners and tags of the table's assets."""

    @dg.asset(
        key=asset_key(spec, f"maintenance_{spec.name}"),
        description=f"Compacts and vacuums the tables of {spec.name}, and deletes old rows that left its quarantine.",
        kinds={"delta"},
        pool=f"table_{spec.name}",
        required_resource_keys={SPARK},
        **common,
    )
    @step_of(bool(spec.pii_columns))
    def maintenance(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        run = table_run(spec, settings, context)
        done = [*maintain(run), *maintain_gold(run, [gold.name for gold in spec.gold])]
        rows = [(m.layer, m.files_before, m.files_after, m.rows_removed) for m in done]
        header = ("table", "files before", "files after", "rows removed")
        return dg.MaterializeResult(
            metadata={
                "tables": dg.MetadataValue.md(markdown_table(header, rows)),
                "files_before": sum(m.files_before for m in done),
                "files_after": sum(m.files_after for m in done),
                "quarantine_rows_removed": sum(m.rows_removed for m in done),
            }
        )

    return maintenance


def maintenance_schedule(specs: Sequence[TableSpec]) -> dg.ScheduleDefinition:
    """Return `maintain_weekly`, on by default: a run for each table, so that none blocks the others."""
    keys = [asset_key(spec, f"maintenance_{spec.name}") for spec in specs]
    job = dg.define_asset_job("maintain_tables", selection=dg.AssetSelection.assets(*keys), executor_def=dg.in_process_executor)

    @dg.schedule(
        name="maintain_weekly", job=job, cron_schedule=WEEKLY, default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Compacts and vacuums each table.",
    )  # fmt: skip
    def maintain_weekly(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest]:
        for key in keys:
            yield dg.RunRequest(run_key=f"{key.to_user_string()} {context.scheduled_execution_time}", asset_selection=[key])

    return maintain_weekly


def sweep_schedule(jobs: OperationJobs) -> dg.ScheduleDefinition:
    """Return the schedule of `sweep_staging`, nightly, on by default: it starts no JVM."""
    names = [name for spec in jobs.specs for name in (spec.name, *(f"gold_{gold.name}" for gold in spec.gold))]

    def sweep_staging(context: dg.OpExecutionContext) -> None:
        """Remove scratch folders of killed runs, and old runs that materialized nothing."""
        for name in sweep(jobs.settings, names):
            context.log.info(f"removed the staging folder of a killed run of {name}")
        now = datetime.now(UTC)
        if deleted := delete_old_runs(context.instance, jobs.settings, jobs.specs, now):
            context.log.info(f"deleted {deleted} runs that ended {RUN_HISTORY.days} days ago and materialized nothing")
        delete_old_evaluations(context.instance, now)

    job = jobs.job("sweep_staging", "sweep", sweep_staging)
    return dg.ScheduleDefinition(job=job, cron_schedule=NIGHTLY, default_status=dg.DefaultScheduleStatus.RUNNING)


def delete_old_evaluations(instance: dg.DagsterInstance, now: datetime) -> None:
    """Delete evaluations of conditions older than a week: each requested window adds over a megabyte.

    Dagster deletes them only where it evaluates conditions outside user code.
    """
    if instance.schedule_storage:
        instance.schedule_storage.purge_asset_evaluations((now - EVALUATION_HISTORY).timestamp())


def delete_old_runs(
    instance: dg.DagsterInstance, settings: Settings, specs: Sequence[TableSpec], now: datetime, batch_size: int = BATCH_SIZE
) -> int:
    """Delete runs that ended 90 days ago and materialized nothing; returns how many. Each call examines at most ``batch_size``
    runs, from where the last call ended, and starts again after the newest.

    Deleting a run deletes its events. Without its materializations a window would count as missing, so runs with any are kept.
    So are failed runs of tables that have a failing window: they count as its tries.
    """
    failing = [spec for spec in specs if any(s.failed_tries for s in read_statuses(instance, settings, spec, now))]
    tried_assets = {key for spec in failing for key in window_assets(spec)}
    filters = dg.RunsFilter(statuses=FINISHED, updated_before=now - RUN_HISTORY)
    last_examined = read_cursor(instance, CURSOR_KEY) or None
    if last_examined is not None and not instance.has_run(last_examined):
        last_examined = None  # somebody has deleted it
    deleted = 0
    records = instance.get_run_records(filters, limit=batch_size, ascending=True, cursor=last_examined)
    for record in records:
        run = record.dagster_run
        if _can_be_deleted(instance, run, tried_assets):
            instance.delete_run(run.run_id)
            deleted += 1
        else:
            last_examined = run.run_id
    has_more = len(records) == batch_size
    write_cursors(instance, {CURSOR_KEY: last_examined if has_more and last_examined else ""})
    return deleted


def _can_be_deleted(instance: dg.DagsterInstance, run: dg.DagsterRun, tried_assets: Collection[dg.AssetKey]) -> bool:
    if set(run.asset_selection or ()) & set(tried_assets):
        return False
    return not instance.get_records_for_run(run.run_id, of_type=EVENTS_TO_KEEP, limit=1).records
