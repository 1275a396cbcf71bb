"""The assets of one table: source, bronze and silver (window_steps), gold.

Belongs here: @asset and its call of the pipeline. Does not: any step of the flow (pipeline), or when it runs (healing).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import inputs_of, personal_columns, reads_personal, ruleset_hash
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.references import readers_of
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.schema.gate import is_rejected
from lakehouse_assets.orchestration.asset_keys import asset_key, input_key
from lakehouse_assets.orchestration.assets import checks, schema_checks
from lakehouse_assets.orchestration.assets import metadata as show
from lakehouse_assets.orchestration.assets.evidence_check import evidence_check
from lakehouse_assets.orchestration.assets.metadata import asset_labels
from lakehouse_assets.orchestration.assets.partitions import partitions_of
from lakehouse_assets.orchestration.assets.window_steps import window_steps
from lakehouse_assets.orchestration.healing.automation import gold_follows
from lakehouse_assets.orchestration.healing.overdue import has_overdue_check, overdue_check
from lakehouse_assets.orchestration.healing.retries import stopped_windows_check
from lakehouse_assets.orchestration.jobs.maintenance import maintenance_asset
from lakehouse_assets.orchestration.quality_pages import check_link, window_link
from lakehouse_assets.orchestration.spark import SPARK, run_values
from lakehouse_assets.orchestration.step_boundary import step_of
from lakehouse_assets.pipeline.gold import GoldPublished, publish_gold
from lakehouse_assets.pipeline.gold_rows import format_values
from lakehouse_assets.pipeline.run import GoldRun
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta


def table_definitions(
    spec: TableSpec, golds: Mapping[str, GoldQuery], settings: Settings, specs: Sequence[TableSpec] = ()
) -> dg.Definitions:
    """Return everything that one table defines. ``golds``: the queries of all gold tables, at least of its own. ``specs``: the
    tables whose silver its gold may read.
    """
    specs = [spec, *specs]
    readers = readers_of(spec, golds)
    assets = [_source(spec), *window_steps(spec, settings, readers)]
    assets.append(maintenance_asset(spec, settings, asset_labels(spec, "maintenance")))
    asset_checks = [
        stopped_windows_check(settings, spec),
        schema_checks.silver_schema_check(settings, spec, readers),
        evidence_check(settings, spec),
    ]
    asset_checks += [overdue_check(settings, spec)] if has_overdue_check(spec) else []
    for gold in spec.gold:
        assets.append(_gold(spec, gold, golds[gold.name], settings, specs))
        asset_checks.append(schema_checks.gold_schema_check(settings, gold, reads_personal(golds[gold.name], specs)))
    return dg.Definitions(assets=assets, asset_checks=asset_checks)


def _source(spec: TableSpec) -> Any:
    return dg.AssetSpec(
        asset_key(spec, f"source_{spec.name}"),
        partitions_def=partitions_of(spec.extraction),
        description=f"{spec.description} As it arrives at `{spec.source.location}`; "
        + ("`lakehouse stream` takes it." if spec.extraction.stream else "`watch_sources` reports each window."),
        metadata={"path": spec.source.location, "format": spec.source.medium},
        kinds={"source", spec.source.medium},
        **asset_labels(spec, "source"),
    )


def _gold(spec: TableSpec, gold: GoldSpec, query: GoldQuery, settings: Settings, specs: Sequence[TableSpec]) -> Any:
    name, pii, is_personal = f"gold_{gold.name}", personal_columns(query, specs), reads_personal(query, specs)

    @dg.asset(
        key=asset_key(gold, name),
        deps=[input_key(gold, each) for each in inputs_of(gold, query)],
        automation_condition=gold_follows(),
        description=f"{gold.description}\n\n```sql\n{query.sql}\n```",
        metadata={
            "dagster/column_schema": show.gold_schema(gold, query),
            "dagster/column_lineage": show.gold_lineage(gold, query),
            "dagster/uri": settings.path("gold", gold.name),
        },
        check_specs=checks.gold_check_specs(gold),
        code_version=ruleset_hash(gold, query),
        kinds={"gold", "sql", "delta"},
        pool=f"table_{name}",
        **asset_labels(spec, "gold"),
        required_resource_keys={SPARK},
    )
    @step_of(is_personal)
    def derive(context: dg.AssetExecutionContext) -> Iterator[Any]:
        values = run_values(settings, name, context)
        published = publish_gold(GoldRun(spec=gold, query=query, pii=pii, reads_personal=is_personal, **values))
        fails = is_rejected(published.judged)
        if not fails:
            yield dg.MaterializeResult(asset_key=asset_key(gold, name), metadata=_gold_metadata(gold, settings, published))
        for result in checks.gold_check_results(gold, published, f"tables/{spec.name}/defs.yaml"):
            link = check_link(settings, name, str(result.check_name))
            yield result._replace(metadata={**result.metadata, **link}) if link else result
        if fails:
            raise schema_checks.schema_failure(name, {"whole table": published.judged})

    return derive


def _gold_metadata(gold: GoldSpec, settings: Settings, published: GoldPublished) -> dict[str, Any]:
    decision, path = published.decision, settings.path("gold", gold.name)
    metadata = show.decision_metadata(decision)
    metadata.pop("dagster/partition_row_count")
    metadata["dagster/row_count"] = sum(delta.row_counts(path)["num_records"].to_pylist()) if delta.exists(path) else 0
    metadata |= {"input_versions": decision.inputs, "rewritten": published.new and decision.accepted}
    if gold.grain:
        parts = decision.recomputed
        metadata["recomputed"] = (
            "whole table" if parts is None else f"{gold.grain.column}: {format_values(parts) or 'nothing changed'}"
        )
    return metadata | window_link(settings, f"gold_{gold.name}", decision, None)
