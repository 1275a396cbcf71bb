"""The assets of one table: source, bronze, silver with its baseline, gold.

Belongs here: @asset and what wires it to a layer. Does not: any step of the flow (layers), or when it runs (automation).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.readers import readers_of
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window, window_at
from lakehouse_assets.decisions import gate, ledger
from lakehouse_assets.decisions.schema_gate import rejected
from lakehouse_assets.errors import SourceError
from lakehouse_assets.layers.bronze import extract
from lakehouse_assets.layers.explain import drift_plot
from lakehouse_assets.layers.gold import publish_gold
from lakehouse_assets.layers.gold_batch import GoldRun, inputs_of, ruleset_hash
from lakehouse_assets.layers.grain import told
from lakehouse_assets.layers.held import held_values
from lakehouse_assets.layers.others import tables_read
from lakehouse_assets.layers.reality import effective_spec
from lakehouse_assets.layers.silver import publish
from lakehouse_assets.orchestration import metadata as show
from lakehouse_assets.orchestration.automation import gold_follows, heal_windows
from lakehouse_assets.orchestration.checks import check_results, gold_check_results, gold_check_specs, silver_check_specs
from lakehouse_assets.orchestration.component import LakehouseTable, personal_columns
from lakehouse_assets.orchestration.maintenance import maintenance_asset
from lakehouse_assets.orchestration.overdue import overdue_check
from lakehouse_assets.orchestration.partitions import partitions_of
from lakehouse_assets.orchestration.retries import left_failed_check
from lakehouse_assets.orchestration.schema import gold_schema_check, refused_windows, schema_failure, silver_schema_check
from lakehouse_assets.orchestration.spark import table_run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs


def table_definitions(
    table: LakehouseTable,
    settings: Settings,
    others: Sequence[TableSpec] = (),
    golds: Mapping[str, GoldQuery] | None = None,
) -> dg.Definitions:
    """Everything that one table defines. ``others``: tables whose silver its gold may also read. ``golds``: what gold tables
    read, of all tables; without it, its own.
    """
    spec = table.spec
    queries = {gold.name: table.query_of(gold, others) for gold in spec.gold}
    readers = readers_of(spec, golds or queries)
    assets: list[Any] = [_source(spec), _bronze(spec, settings), _silver(spec, settings, readers)]
    assets.append(maintenance_asset(spec, settings, _common(spec, "maintenance")))
    for gold in spec.gold:
        query = queries[gold.name]
        assets.append(_gold(spec, gold, query, settings, personal_columns(query, [spec, *others])))
    checks = [left_failed_check(settings, spec), silver_schema_check(settings, spec, readers)]
    checks += [overdue_check(spec)] if spec.extraction.overdue_after else []
    checks += [gold_schema_check(settings, gold) for gold in spec.gold]
    return dg.Definitions(assets=assets, asset_checks=checks)


def _common(spec: TableSpec, layer: str) -> dict[str, Any]:
    return {
        "group_name": spec.name,
        "owners": list(spec.owners) or None,
        "tags": {**spec.tags, "layer": layer, "table": spec.name},
    }


def _source(spec: TableSpec) -> dg.AssetSpec:
    return dg.AssetSpec(
        f"source_{spec.name}",
        partitions_def=partitions_of(spec.extraction),
        description=f"{spec.description} As it arrives at `{spec.source.place}`; the watcher reports each window.",
        metadata={"path": spec.source.place, "format": spec.source.medium},
        kinds={"source", spec.source.medium},
        **_common(spec, "source"),
    )


def _windows(spec: TableSpec, context: dg.AssetExecutionContext) -> list[Window]:
    return sorted(spec.extraction.window(key) for key in context.partition_keys)


def _bronze(spec: TableSpec, settings: Settings) -> Any:
    @dg.asset(
        name=f"bronze_{spec.name}",
        deps=[f"source_{spec.name}"],
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
        required_resource_keys={"spark"},
    )
    def bronze(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        windows = _windows(spec, context)
        records = extract(table_run(spec, settings, context, context.resources.spark), windows)
        if not records:
            names = ", ".join(w.key for w in windows[:5]) + (", …" if len(windows) > 5 else "")
            raise SourceError(
                f"{spec.name}: nothing has arrived at {spec.source.place} for {names}; it heals when the data is there"
            )
        for window in windows:
            context.add_asset_metadata(show.extraction_metadata(records.get(window)), partition_key=window.key)
        return dg.MaterializeResult(metadata={"windows": len(windows), "arrived": len(records)})

    return bronze


def _silver(spec: TableSpec, settings: Settings, readers: Mapping[str, Sequence[str]]) -> Any:
    silver, baseline = f"silver_{spec.name}", f"baseline_{spec.name}"
    partitions = partitions_of(spec.extraction)
    checks = silver_check_specs(spec)
    looked_into = tables_read(spec.checks)
    # A window may refer to any row of another table, whatever window brought it.
    deps: list[Any] = [f"bronze_{spec.name}"]
    deps += [dg.AssetDep(f"silver_{table}", partition_mapping=dg.AllPartitionMapping()) for table in looked_into]
    healing = heal_windows(spec.extraction, looked_into)

    @dg.multi_asset(
        name=silver,
        specs=[
            dg.AssetSpec(
                silver,
                deps=deps,
                partitions_def=partitions,
                automation_condition=healing,
                description=f"{spec.description} Checked, compared with history, deduplicated by key: the rows to use.",
                metadata={"dagster/column_schema": show.silver_schema(spec), "dagster/uri": settings.path("silver", spec.name)},
                kinds={"silver", "pyspark", "delta"},
                **_common(spec, "silver"),
            ),
            dg.AssetSpec(
                baseline,
                deps=deps,
                partitions_def=partitions,
                automation_condition=healing,
                description=f"Profiles of the accepted windows of {spec.name}: what normal means to the drift check.",
                metadata={"dagster/uri": settings.path("baseline", spec.name)},
                kinds={"pyspark", "delta"},
                **_common(spec, "baseline"),
            ),
        ],
        check_specs=checks,
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=f"table_{spec.name}",
        required_resource_keys={"spark"},
    )
    def gate(context: dg.AssetExecutionContext) -> Iterator[Any]:
        windows = _windows(spec, context)
        run = table_run(spec, settings, context, context.resources.spark, readers)
        published = publish(run, windows)
        refused = refused_windows(spec, settings, published.standing)
        for window in windows:
            decision = published.standing.get(window)
            told = show.decision_metadata(decision)
            learned = {"teaches": bool(decision and decision.accepted and decision.teaches)}
            if not refused:
                context.add_asset_metadata(told, asset_key=silver, partition_key=window.key)
                context.add_asset_metadata(learned, asset_key=baseline, partition_key=window.key)
            elif window.key not in refused:
                # The step is going to fail: what is published is said now, window by window.
                context.log_event(dg.AssetMaterialization(silver, partition=window.key, metadata=told))
                context.log_event(dg.AssetMaterialization(baseline, partition=window.key, metadata=learned))
        results = silver_check_results(spec, settings, windows, published.samples)
        if refused:
            yield from results
            raise schema_failure(silver, refused)
        columns = {"dagster/column_schema": show.silver_schema(effective_spec(settings, spec))}
        yield dg.MaterializeResult(asset_key=silver, metadata=columns)
        yield dg.MaterializeResult(asset_key=baseline)
        yield from results

    return gate


def silver_check_results(
    spec: TableSpec, settings: Settings, windows: Sequence[Window], samples: Mapping[str, Sequence[str]]
) -> Iterator[dg.AssetCheckResult]:
    """Results over these windows and over those that are still held: a check stays red while it holds something."""
    known = logs.decisions(settings, spec.name, evidence=False)
    starts, held = {window.start for window in windows}, ledger.held(known)
    shown = {d.p_extracted_at: d for d in held}
    newest = sorted(ledger.standing(known).values(), key=lambda d: d.extraction_seq)
    shown |= {d.p_extracted_at: d for d in newest if d.p_extracted_at in starts}
    told = logs.with_evidence(settings, spec.name, [shown[start] for start in sorted(start for start in shown if start)])
    told = [gate.masked_now(decision, spec.checks, spec.pii_columns) for decision in told]
    keyed = {window_at(d.p_extracted_at, spec.extraction.cadence).key: d for d in told if d.p_extracted_at}
    # What is still held shows its values too, though an earlier run has found it.
    samples = {**held_values(settings, spec, held), **samples}
    yield from check_results(silver_check_specs(spec), keyed, samples, _advice(spec), lambda d: drift_plot(settings, spec, d))


def _advice(spec: TableSpec) -> Any:
    def advice(check: str, windows: Sequence[str]) -> str:
        window = windows[-1]
        others = f"Here for {window}; likewise for {', '.join(windows[:-1][:20])}.\n\n" if len(windows) > 1 else ""
        return others + (
            f"1. Look at what is held: `lakehouse quarantine show {spec.name} --window {window}`\n"
            "2. If the source is wrong: land the corrected file; the window heals by itself.\n"
            f"3. If the data is right: `lakehouse quarantine release {spec.name} --window {window} "
            f'--override {check} --because "…"`,\n'
            f"   or mend the check in `tables/{spec.name}/defs.yaml` and release without `--override`.\n"
            f'4. If it is worthless: `lakehouse quarantine discard {spec.name} --window {window} --because "…"`'
        )

    return advice


def _gold(spec: TableSpec, gold: GoldSpec, query: GoldQuery, settings: Settings, pii: frozenset[str]) -> Any:
    name = f"gold_{gold.name}"
    checks = gold_check_specs(gold)

    @dg.asset(
        name=name,
        deps=inputs_of(gold, query),
        automation_condition=gold_follows(),
        description=f"{gold.description}\n\n```sql\n{query.sql}\n```",
        metadata={
            "dagster/column_schema": show.gold_schema(gold, query),
            "dagster/column_lineage": show.gold_lineage(query),
            "dagster/uri": settings.path("gold", gold.name),
        },
        check_specs=checks,
        code_version=ruleset_hash(gold, query),
        kinds={"gold", "sql", "delta"},
        pool=f"table_{name}",
        **_common(spec, "gold"),
        required_resource_keys={"spark"},
    )
    def derive(context: dg.AssetExecutionContext) -> Iterator[Any]:
        run = GoldRun(
            settings=settings,
            spec=gold,
            query=query,
            session=lambda: context.resources.spark.spark_session,
            run_id=context.run.run_id,
            clock=lambda: datetime.now(UTC),
            pii=pii,
            step=lambda step: context.log.info(f"{name}: {step.replace('_', ' ')}"),
        )
        published = publish_gold(run)
        decision = published.decision
        if rejected(published.judged):
            yield from gold_check_results(gold, published, f"tables/{spec.name}/defs.yaml")
            raise schema_failure(name, {"whole table": published.judged})
        shown = show.decision_metadata(decision)
        shown.pop("dagster/partition_row_count")
        path = settings.path("gold", gold.name)
        shown["dagster/row_count"] = sum(delta.row_counts(path)["num_records"].to_pylist()) if delta.exists(path) else 0
        shown |= {"input_versions": decision.inputs, "rewritten": published.new and decision.accepted}
        if gold.grain:
            parts = decision.recomputed
            shown["recomputed"] = "whole table" if parts is None else f"{gold.grain.column}: {told(parts) or 'nothing changed'}"
        yield dg.MaterializeResult(asset_key=name, metadata=shown)
        yield from gold_check_results(gold, published, f"tables/{spec.name}/defs.yaml")

    return derive
