"""The assets of one table: source, bronze, silver with its baseline, gold.

Belongs here: @asset and its call of the pipeline. Does not: any step of the flow (pipeline), or when it runs (healing).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.checks.dependencies import tables_read
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import inputs_of, personal_columns, reads_personal, ruleset_hash
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.references import readers_of
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.schema.gate import rejected
from lakehouse_assets.errors import SourceError
from lakehouse_assets.orchestration.asset_keys import asset_key, input_key
from lakehouse_assets.orchestration.assets import checks, schema_checks
from lakehouse_assets.orchestration.assets import metadata as show
from lakehouse_assets.orchestration.assets.evidence_check import evidence_check
from lakehouse_assets.orchestration.assets.metadata import partitions_of
from lakehouse_assets.orchestration.healing.automation import gold_follows, heal_windows
from lakehouse_assets.orchestration.healing.retries import stopped_windows_check
from lakehouse_assets.orchestration.healing.source_sensor import overdue_check
from lakehouse_assets.orchestration.jobs.maintenance import maintenance_asset
from lakehouse_assets.orchestration.quality_pages import window_link
from lakehouse_assets.orchestration.spark import SPARK, run_values, table_run
from lakehouse_assets.orchestration.step_boundary import step_of
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.gold import GoldPublished, publish_gold
from lakehouse_assets.pipeline.gold_rows import format_values
from lakehouse_assets.pipeline.run import GoldRun
from lakehouse_assets.pipeline.silver import Published, publish
from lakehouse_assets.queries.schema_status import effective_spec
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
    assets = [_source(spec), _bronze(spec, settings), _silver(spec, settings, readers)]
    assets.append(maintenance_asset(spec, settings, _common(spec, "maintenance")))
    asset_checks = [
        stopped_windows_check(settings, spec),
        schema_checks.silver_schema_check(settings, spec, readers),
        evidence_check(settings, spec),
    ]
    asset_checks += [overdue_check(spec)] if spec.extraction.overdue_after else []
    for gold in spec.gold:
        assets.append(_gold(spec, gold, golds[gold.name], settings, specs))
        asset_checks.append(schema_checks.gold_schema_check(settings, gold, reads_personal(golds[gold.name], specs)))
    return dg.Definitions(assets=assets, asset_checks=asset_checks)


def _common(spec: TableSpec, layer: str) -> dict[str, Any]:
    return {
        "group_name": spec.group or spec.name,
        "owners": list(spec.owners) or None,
        "tags": {**spec.tags, "layer": layer, "table": spec.name},
    }


def _source(spec: TableSpec) -> Any:
    return dg.AssetSpec(
        asset_key(spec, f"source_{spec.name}"),
        partitions_def=partitions_of(spec.extraction),
        description=f"{spec.description} As it arrives at `{spec.source.location}`; `watch_sources` reports each window.",
        metadata={"path": spec.source.location, "format": spec.source.medium},
        kinds={"source", spec.source.medium},
        **_common(spec, "source"),
    )


def _bronze(spec: TableSpec, settings: Settings) -> Any:
    @dg.asset(
        key=asset_key(spec, f"bronze_{spec.name}"),
        deps=[asset_key(spec, f"source_{spec.name}")],
        partitions_def=partitions_of(spec.extraction),
        backfill_policy=dg.BackfillPolicy.single_run(),
        automation_condition=heal_windows(spec.extraction),
        description=f"{spec.description} Every row as it came, all columns strings, by extraction window.",
        metadata={
            "dagster/column_schema": show.bronze_schema(spec),
            "dagster/uri": settings.path("bronze", spec.name),
            "dagster/partition_expr": "p_extracted_at",
        },
        kinds={"bronze", "pyspark", "delta"},
        pool=f"table_{spec.name}",
        **_common(spec, "bronze"),
        required_resource_keys={SPARK},
    )
    @step_of(bool(spec.pii_columns))
    def bronze(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        windows = sorted(spec.extraction.window(key) for key in context.partition_keys)
        records = extract(table_run(spec, settings, context), windows)
        if not records:
            names = ", ".join(w.key for w in windows[:5]) + (", …" if len(windows) > 5 else "")
            raise SourceError(
                f"{spec.name}: nothing has arrived at {spec.source.location} for {names}; they are ingested once it arrives"
            )
        for window in windows:
            context.add_asset_metadata(show.extraction_metadata(records.get(window)), partition_key=window.key)
        return dg.MaterializeResult(metadata={"windows": len(windows), "arrived": len(records)})

    return bronze


def _silver(spec: TableSpec, settings: Settings, readers: Mapping[str, Sequence[str]]) -> Any:
    silver, baseline = (asset_key(spec, f"{layer}_{spec.name}") for layer in ("silver", "baseline"))
    referenced = tables_read(spec.checks)
    # A window may refer to any row of another table, whatever window brought it.
    deps: list[Any] = [asset_key(spec, f"bronze_{spec.name}")]
    deps += [
        dg.AssetDep(asset_key(spec, f"silver_{table}"), partition_mapping=dg.AllPartitionMapping()) for table in referenced
    ]
    common: dict[str, Any] = {
        "deps": deps,
        "partitions_def": partitions_of(spec.extraction),
        "automation_condition": heal_windows(spec.extraction, referenced, spec.asset_prefix),
    }

    @dg.multi_asset(
        name=silver.to_python_identifier(),
        specs=[
            dg.AssetSpec(
                silver,
                description=f"{spec.description} Checked, compared with history, deduplicated by key: the rows to use.",
                metadata={"dagster/column_schema": show.silver_schema(spec), "dagster/uri": settings.path("silver", spec.name)},
                kinds={"silver", "pyspark", "delta"},
                **common,
                **_common(spec, "silver"),
            ),
            dg.AssetSpec(
                baseline,
                description=f"Profiles of the accepted windows of {spec.name}: what normal means to the drift check.",
                metadata={"dagster/uri": settings.path("baseline", spec.name)},
                kinds={"pyspark", "delta"},
                **common,
                **_common(spec, "baseline"),
            ),
        ],
        check_specs=checks.silver_check_specs(spec),
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=f"table_{spec.name}",
        required_resource_keys={SPARK},
    )
    @step_of(bool(spec.pii_columns))
    def gate(context: dg.AssetExecutionContext) -> Iterator[Any]:
        windows = sorted(spec.extraction.window(key) for key in context.partition_keys)
        published = publish(table_run(spec, settings, context, readers), windows)
        by_key = schema_checks.rejected_windows(spec, settings, published.current)
        _report_windows(context, settings, spec, windows, published, by_key)
        results = checks.silver_check_results(spec, settings, windows, published.samples)
        if by_key:
            yield from results
            raise schema_checks.schema_failure(f"silver_{spec.name}", by_key)
        columns = {"dagster/column_schema": show.silver_schema(effective_spec(settings, spec))}
        yield dg.MaterializeResult(asset_key=silver, metadata=columns)
        yield dg.MaterializeResult(asset_key=baseline)
        yield from results

    return gate


def _report_windows(
    context: dg.AssetExecutionContext,
    settings: Settings,
    spec: TableSpec,
    windows: Sequence[Window],
    published: Published,
    by_key: Mapping[str, Any],
) -> None:
    """Report each window's decision: with the materialization, or, where the step is about to fail because of the windows in
    ``by_key``, as a materialization of each other window.
    """
    for window in windows:
        decision = published.current.get(window)
        joins_baseline = bool(decision and decision.accepted and decision.teaches)
        metadata = {
            asset_key(spec, f"silver_{spec.name}"): {
                **show.decision_metadata(decision),
                **window_link(settings, spec.name, decision, spec.extraction.cadence),
            },
            asset_key(spec, f"baseline_{spec.name}"): {"teaches": joins_baseline},
        }
        for asset, values in metadata.items():
            if not by_key:
                context.add_asset_metadata(values, asset_key=asset, partition_key=window.key)
            elif window.key not in by_key:
                context.log_event(dg.AssetMaterialization(asset, partition=window.key, metadata=values))


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
        **_common(spec, "gold"),
        required_resource_keys={SPARK},
    )
    @step_of(is_personal)
    def derive(context: dg.AssetExecutionContext) -> Iterator[Any]:
        values = run_values(settings, name, context)
        published = publish_gold(GoldRun(spec=gold, query=query, pii=pii, reads_personal=is_personal, **values))
        is_rejected = rejected(published.judged)
        if not is_rejected:
            yield dg.MaterializeResult(asset_key=asset_key(gold, name), metadata=_gold_metadata(gold, settings, published))
        yield from checks.gold_check_results(gold, published, f"tables/{spec.name}/defs.yaml")
        if is_rejected:
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
    return metadata
