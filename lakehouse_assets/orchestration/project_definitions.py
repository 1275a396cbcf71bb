"""A project's definitions: each table's assets, and what all tables share: sensors, schedules, jobs, the Spark resource.

Belongs here: putting them together. Does not: any of the parts, or finding the tables (component).
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.references import readers_of
from lakehouse_assets.orchestration.assets.broken_tables import broken_definitions
from lakehouse_assets.orchestration.assets.described_table import DescribedTable, golds_of
from lakehouse_assets.orchestration.assets.evidence_check import evidence_schedule
from lakehouse_assets.orchestration.assets.guard_assets import guard_definitions, guard_job
from lakehouse_assets.orchestration.assets.guard_files import DescribedGuard
from lakehouse_assets.orchestration.assets.table_assets import table_definitions
from lakehouse_assets.orchestration.assets.table_files import BrokenTable
from lakehouse_assets.orchestration.healing.automation import automation_sensor
from lakehouse_assets.orchestration.healing.guard_sensor import guard_sensor
from lakehouse_assets.orchestration.healing.retries import retry_sensor
from lakehouse_assets.orchestration.healing.source_sensor import source_sensor
from lakehouse_assets.orchestration.healing.window_state import window_assets
from lakehouse_assets.orchestration.jobs.audits import audit_definitions
from lakehouse_assets.orchestration.jobs.dry_run import dry_run_job
from lakehouse_assets.orchestration.jobs.guard_jobs import guard_jobs
from lakehouse_assets.orchestration.jobs.maintenance import maintenance_schedule, sweep_schedule
from lakehouse_assets.orchestration.jobs.operation_job import OperationJobs
from lakehouse_assets.orchestration.jobs.operations import operation_definitions
from lakehouse_assets.orchestration.lineage import lineage_sensor, project_lineage
from lakehouse_assets.orchestration.notify import alert_sensor, decision_event_sensor
from lakehouse_assets.orchestration.quality_pages import pages_sensor
from lakehouse_assets.orchestration.spark import SPARK, spark_resource
from lakehouse_assets.settings import Settings

# `backfill_policy` is beta in this Dagster; one run per contiguous gap depends on it.
warnings.filterwarnings("ignore", category=dg.BetaWarning)


@dataclass(frozen=True)
class ProjectDefinitions:
    """The definitions of each table by its name, and the ``shared`` ones, which a code location needs once."""

    of_tables: Mapping[str, dg.Definitions]
    shared: dg.Definitions

    def merged(self) -> dg.Definitions:
        """Return all of them."""
        return dg.Definitions.merge(*self.of_tables.values(), self.shared)


def project_definitions(
    settings: Settings,
    tables: Sequence[DescribedTable],
    broken: Sequence[BrokenTable] = (),
    overrides: Mapping[str, Any] | None = None,
    guards: Sequence[DescribedGuard] = (),
) -> ProjectDefinitions:
    """Return the definitions of these tables and guards, which are all of a project, and the reports of those that stop.

    ``overrides``: resources by name, for tests.
    """
    specs = [table.spec for table in tables]
    golds = golds_of(tables)
    operations = OperationJobs(settings, specs, {spec.name: readers_of(spec, golds) for spec in specs})
    of_tables = {spec.name: table_definitions(spec, golds, settings, specs) for spec in specs}
    guarded = [guard.spec for guard in guards]
    of_guards = {spec.name: guard_definitions(spec, settings) for spec in guarded}
    audits = audit_definitions(operations, golds, guarded)
    by_asset = {key: spec for spec in specs for key in window_assets(spec)}
    sensors = [
        source_sensor(settings, specs),
        alert_sensor(settings, [*specs, *guarded]),
        decision_event_sensor(settings),
        lineage_sensor(settings, project_lineage(tables, guards)),
        pages_sensor(settings),
        automation_sensor(settings, [*of_tables.values(), audits], by_asset),
    ]
    schedules = [sweep_schedule(operations)]
    if specs:
        schedules += [maintenance_schedule(specs), evidence_schedule(specs)]
        sensors.append(retry_sensor(settings, specs, [(gold, golds[gold.name]) for spec in specs for gold in spec.gold]))
    jobs = [dry_run_job(operations, tables)]
    if guarded:
        judging = [guard_job(spec) for spec in guarded]
        sensors.append(guard_sensor(settings, guarded, judging))
        jobs += [*judging, *guard_jobs(settings, guarded)]
    own = dg.Definitions(
        sensors=sensors,
        jobs=jobs,
        schedules=schedules,
        resources={SPARK: spark_resource(settings), **(overrides or {})},
        # In one process a run starts one JVM; another executor may start one for every step (healing/one_process).
        executor=dg.in_process_executor if settings.executor == "in_process" else None,
    )
    reports = broken_definitions(broken, settings.asset_prefix)
    return ProjectDefinitions(
        {**of_tables, **of_guards}, dg.Definitions.merge(audits, operation_definitions(operations), own, reports)
    )
