"""The Dagster entry: every table's assets, the sensors, the jobs, the schedules.

Belongs here: putting them together, once, with overrides for tests. Does not: any of the parts.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.references import readers_of
from lakehouse_assets.orchestration.assets.broken_tables import broken_definitions
from lakehouse_assets.orchestration.assets.component import LakehouseTable, find_tables, golds_of
from lakehouse_assets.orchestration.assets.evidence_check import evidence_schedule
from lakehouse_assets.orchestration.assets.table_assets import table_definitions
from lakehouse_assets.orchestration.assets.table_files import LoadedTables
from lakehouse_assets.orchestration.healing.automation import automation_sensor
from lakehouse_assets.orchestration.healing.retries import retry_sensor
from lakehouse_assets.orchestration.healing.source_sensor import source_sensor
from lakehouse_assets.orchestration.jobs.audits import audit_definitions
from lakehouse_assets.orchestration.jobs.dry_run import dry_run_job
from lakehouse_assets.orchestration.jobs.maintenance import maintenance_schedule, sweep_schedule
from lakehouse_assets.orchestration.jobs.operation_job import OperationJobs
from lakehouse_assets.orchestration.jobs.operations import operation_definitions
from lakehouse_assets.orchestration.notify import alert_sensor, decision_event_sensor
from lakehouse_assets.orchestration.spark import spark_resource
from lakehouse_assets.settings import Settings

# `backfill_policy` is beta in this Dagster; one run per contiguous gap depends on it.
warnings.filterwarnings("ignore", category=dg.BetaWarning)


def build_definitions(
    settings: Settings, tables: Sequence[LakehouseTable] | None = None, overrides: Mapping[str, Any] | None = None
) -> dg.Definitions:
    """Return all definitions. ``tables``: default the project's. ``overrides``: resources by name, for tests.

    A table with a mistake stops, and is reported; the others are defined. Raises ConfigError if all have one.
    """
    loaded = find_tables() if tables is None else LoadedTables(tuple(tables))
    tables = loaded.tables
    specs = [table.spec for table in tables]
    golds = golds_of(tables)
    operations = OperationJobs(settings, specs, {spec.name: readers_of(spec, golds) for spec in specs})
    parts = [*(table_definitions(spec, golds, settings, specs) for spec in specs), audit_definitions(operations, golds)]
    sensors = [
        source_sensor(settings, specs),
        alert_sensor(settings, specs),
        decision_event_sensor(settings),
        automation_sensor(settings, parts),
    ]
    schedules = [sweep_schedule(operations)]
    if specs:
        schedules += [maintenance_schedule(specs), evidence_schedule(specs)]
        sensors.append(retry_sensor(settings, specs, [(gold, golds[gold.name]) for spec in specs for gold in spec.gold]))
    shared = dg.Definitions(
        sensors=sensors,
        jobs=[dry_run_job(operations, tables)],
        schedules=schedules,
        resources={"spark": spark_resource(settings), **(overrides or {})},
        # One process per run: the default would start a JVM for every step.
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(*parts, operation_definitions(operations), shared, broken_definitions(loaded.broken))


@dg.definitions
def defs() -> dg.Definitions:
    """Return the project's definitions, for `dagster dev` and `dg`."""
    return build_definitions(Settings.from_environment())
