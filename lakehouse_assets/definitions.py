"""The Dagster entry: every table's assets, the sensors, the jobs, the schedules.

Belongs here: putting them together, once, with overrides for tests. Does not: any of the parts.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.readers import readers_of
from lakehouse_assets.orchestration.announce import announcer_sensor
from lakehouse_assets.orchestration.assets import table_definitions
from lakehouse_assets.orchestration.audits import audit_definitions
from lakehouse_assets.orchestration.baseline_jobs import baseline_jobs
from lakehouse_assets.orchestration.component import LakehouseTable
from lakehouse_assets.orchestration.healer import healing_sensor
from lakehouse_assets.orchestration.jobs import act_jobs, housekeeping, proofs
from lakehouse_assets.orchestration.maintenance import maintenance_schedule
from lakehouse_assets.orchestration.migrations import migrate_job
from lakehouse_assets.orchestration.publish import publisher_sensor
from lakehouse_assets.orchestration.retries import retry_sensor
from lakehouse_assets.orchestration.spark import spark_resource
from lakehouse_assets.orchestration.tables import golds_of, load_tables
from lakehouse_assets.orchestration.trials import trial_job
from lakehouse_assets.orchestration.watching import watcher_sensor
from lakehouse_assets.settings import Settings

# `backfill_policy` is beta in this version: one run per contiguous gap rests on it, knowingly.
warnings.filterwarnings("ignore", category=dg.BetaWarning)


def build_definitions(
    settings: Settings, tables: Sequence[LakehouseTable] | None = None, overrides: Mapping[str, Any] | None = None
) -> dg.Definitions:
    """All definitions. ``tables``: those to define (default: the project's). ``overrides``: resources by name, for tests."""
    tables = load_tables() if tables is None else tables
    specs = [table.spec for table in tables]
    golds = golds_of(tables)
    readers = {spec.name: readers_of(spec, golds) for spec in specs}
    jobs = [*act_jobs(settings, specs, readers), migrate_job(settings, specs, readers)]
    each = [*(table_definitions(t, settings, specs, golds) for t in tables), audit_definitions(settings, tables)]
    sensors = [
        watcher_sensor(settings, specs),
        announcer_sensor(settings, specs),
        publisher_sensor(settings),
        healing_sensor(settings, each),
    ]
    if specs:
        sensors.append(retry_sensor(settings, specs, [(gold, golds[gold.name]) for spec in specs for gold in spec.gold]))
    shared = dg.Definitions(
        sensors=sensors,
        jobs=[*jobs, *baseline_jobs(settings, specs), trial_job(settings, tables)],
        schedules=[*housekeeping(settings, specs), *proofs(jobs, specs), *maintenance_schedule(specs)],
        resources={"spark": spark_resource(settings), **(overrides or {})},
        # One process per run: the default would start a JVM for every step.
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(*each, shared)


@dg.definitions
def defs() -> dg.Definitions:
    """What `dagster dev` and `dg` load."""
    return build_definitions(Settings.from_environment())
