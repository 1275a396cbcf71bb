"""The job `migrate_schema`: bring silver to its contract, and say so to Dagster.

Belongs here: the job. Does not: the plan (decisions), carrying it out (layers), or the check itself (schema).
"""

from collections.abc import Mapping, Sequence

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.decisions import ledger
from lakehouse_assets.layers.migrate import migrate
from lakehouse_assets.orchestration.jobs import report_check, spec_named
from lakehouse_assets.orchestration.schema import CHECK, Readers, silver_schema_result
from lakehouse_assets.orchestration.spark import table_run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs


class Migrate(dg.Config):
    """Which table to bring to its contract. ``renames``: old column → new."""

    table: str
    renames: dict[str, str] = {}


def migrate_job(settings: Settings, specs: Sequence[TableSpec], readers: Mapping[str, Readers]) -> dg.JobDefinition:
    """``readers``: by table, what reads its columns downstream."""

    @dg.op(name="migrate", required_resource_keys={"spark"})
    def migrate_op(context: dg.OpExecutionContext, config: Migrate) -> dict[str, int]:
        spec = spec_named(specs, config.table)
        steps = migrate(table_run(spec, settings, context, context.resources.spark), config.renames)
        found = {"steps": len(steps), "version": delta.version(settings.path("silver", spec.name))}
        context.add_output_metadata(found)
        accepted = [start for start, _ in ledger.accepted(logs.decisions(settings, spec.name, evidence=False)) if start]
        if steps and accepted:
            # Silver is another one, though no window is: said of the last one, so that gold follows.
            key = window_at(max(accepted), spec.extraction.cadence).key
            context.log_event(dg.AssetMaterialization(f"silver_{spec.name}", partition=key, metadata=found))
        report_check(context, spec, CHECK, silver_schema_result(settings, spec, readers.get(spec.name, {})))
        return found

    @dg.job(name="migrate_schema", description="Bring silver to its contract, in one commit: see `lakehouse schema migrate`.")
    def migrate_schema() -> None:
        migrate_op()

    return migrate_schema
