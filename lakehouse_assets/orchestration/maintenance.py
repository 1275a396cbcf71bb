"""Maintenance as Dagster sees it: `maintenance_<table>`, its weekly schedule, and the clean-up of Dagster's own history.

Belongs here: when it runs, what it shows, which runs may be forgotten. Does not: what is safe in a Delta table (layers).
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import dagster as dg
from dagster._core.storage.dagster_run import FINISHED_STATUSES

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.layers.maintain import maintain, maintain_gold
from lakehouse_assets.orchestration.healing import assets_of, healing_of
from lakehouse_assets.orchestration.spark import table_run
from lakehouse_assets.reports.markdown import table as markdown_table
from lakehouse_assets.settings import Settings

WEEKLY = "30 2 * * 0"
HISTORY = timedelta(days=90)
EVALUATIONS_KEPT = timedelta(days=7)
AT_ONCE = 2000
# Where the instance keeps the last run that was looked at and stays.
LOOKED_AT = "lakehouse_runs_looked_at"
KEPT = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_CHECK_EVALUATION}


def maintenance_asset(spec: TableSpec, settings: Settings, common: dict[str, Any]) -> Any:
    """`maintenance_<table>`. ``common``: group, owners and tags of the table's assets."""

    @dg.asset(
        name=f"maintenance_{spec.name}",
        description=f"Compacts and vacuums the tables of {spec.name}, and forgets what was closed in its quarantine long ago.",
        kinds={"delta"},
        pool=f"table_{spec.name}",
        required_resource_keys={"spark"},
        **common,
    )
    def maintenance(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        run = table_run(spec, settings, context, context.resources.spark)
        made = [*maintain(run), *maintain_gold(run, [gold.name for gold in spec.gold])]
        rows = [(m.place, m.files_before, m.files_after, m.rows_removed) for m in made]
        header = ("table", "files before", "files after", "rows removed")
        return dg.MaterializeResult(
            metadata={
                "tables": dg.MetadataValue.md(markdown_table(header, rows)),
                "files_before": sum(m.files_before for m in made),
                "files_after": sum(m.files_after for m in made),
                "quarantine_rows_removed": sum(m.rows_removed for m in made),
            }
        )

    return maintenance


def maintenance_schedule(specs: Sequence[TableSpec]) -> list[dg.ScheduleDefinition]:
    """`maintain_weekly`, on by default: a run for each table, so that none is held up longer than its own takes."""
    if not specs:
        return []
    keys = [dg.AssetKey(f"maintenance_{spec.name}") for spec in specs]
    job = dg.define_asset_job("maintain_tables", selection=dg.AssetSelection.assets(*keys))

    @dg.schedule(
        name="maintain_weekly", job=job, cron_schedule=WEEKLY, default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Compacts and vacuums each table.",
    )  # fmt: skip
    def maintain_weekly(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest]:
        for key in keys:
            yield dg.RunRequest(run_key=f"{key.to_user_string()} {context.scheduled_execution_time}", asset_selection=[key])

    return [maintain_weekly]


def forget_evaluations(instance: dg.DagsterInstance, now: datetime) -> None:
    """Delete what conditions were evaluated to more than a week ago: over a megabyte for each window that was asked for.

    Dagster does so by itself only where conditions are evaluated beside the sensors.
    """
    if instance.schedule_storage:
        instance.schedule_storage.purge_asset_evaluations((now - EVALUATIONS_KEPT).timestamp())


def forget_runs(
    instance: dg.DagsterInstance, settings: Settings, specs: Sequence[TableSpec], now: datetime, at_once: int = AT_ONCE
) -> int:
    """Delete runs that ended 90 days ago and made nothing; returns how many. At most ``at_once`` are looked at: those that come
    after the ones of the last time, and after the newest of them the oldest again.

    To delete a run takes its events: without its materializations a window would count as missing, so runs that made something
    stay. So do the failed runs of tables that have a failing window: they are its tries.
    """
    tried = {spec.name for spec in specs if any(h.tries for h in healing_of(instance, settings, spec, now))}
    kept = {key for spec in specs if spec.name in tried for key in assets_of(spec)}
    filters = dg.RunsFilter(statuses=FINISHED_STATUSES, updated_before=now - HISTORY)
    place = instance.daemon_cursor_storage.get_cursor_values({LOOKED_AT}).get(LOOKED_AT) or None
    if place is not None and not instance.has_run(place):
        place = None  # somebody has deleted it
    gone = 0
    found = instance.get_run_records(filters, limit=at_once, ascending=True, cursor=place)
    for record in found:
        run = record.dagster_run
        if _made_nothing(instance, run, kept):
            instance.delete_run(run.run_id)
            gone += 1
        else:
            place = run.run_id
    more = len(found) == at_once
    instance.daemon_cursor_storage.set_cursor_values({LOOKED_AT: place if more and place else ""})
    return gone


def _made_nothing(instance: dg.DagsterInstance, run: dg.DagsterRun, kept: Collection[dg.AssetKey]) -> bool:
    if set(run.asset_selection or ()) & set(kept):
        return False
    return not instance.get_records_for_run(run.run_id, of_type=set(KEPT), limit=1).records
