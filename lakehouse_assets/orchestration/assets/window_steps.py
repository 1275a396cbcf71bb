"""The steps that bring a table's windows into bronze and silver: two, or one, where a step costs a process.

Belongs here: @multi_asset and its call of the pipeline. Does not: any step of the flow (pipeline), or when it runs (healing).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import dagster as dg

from lakehouse_assets.checks.dependencies import tables_read
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.errors import SourceError
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets import metadata as show
from lakehouse_assets.orchestration.assets import schema_checks, window_checks
from lakehouse_assets.orchestration.assets.metadata import asset_labels
from lakehouse_assets.orchestration.assets.partition_metadata import bronze_partition, silver_partition
from lakehouse_assets.orchestration.assets.partition_report import report_partitions
from lakehouse_assets.orchestration.assets.partitions import (
    partition_key,
    partitions_of,
    windows_by_partition,
    windows_of_partitions,
)
from lakehouse_assets.orchestration.assets.quarantine_check import CHECK as QUARANTINE_CHECK
from lakehouse_assets.orchestration.assets.quarantine_check import quarantine_check_result
from lakehouse_assets.orchestration.healing.automation import heal_windows
from lakehouse_assets.orchestration.healing.reading_attempts import attempt_metadata
from lakehouse_assets.orchestration.healing.unread_windows import unread_windows, windows_still_unread
from lakehouse_assets.orchestration.partition_results import finished_check, store_partition_results
from lakehouse_assets.orchestration.quality_pages import window_link, window_url
from lakehouse_assets.orchestration.spark import SPARK, table_run
from lakehouse_assets.orchestration.step_boundary import step_of
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import Published, publish
from lakehouse_assets.pipeline.read_windows import whole_windows, why_nothing_arrived
from lakehouse_assets.queries.schema_status import effective_spec
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

Readers = Mapping[str, Sequence[str]]
Events = Iterator[Any]


def window_steps(spec: TableSpec, settings: Settings, readers: Readers) -> list[dg.AssetsDefinition]:
    """Return bronze, and silver with its baseline; as one step that may be selected in part, if the project wants it."""
    if not settings.single_step:
        return [_bronze_step(spec, settings, readers), _silver_step(spec, settings, readers)]
    bronze, silver, baseline = (asset_key(spec, f"{layer}_{spec.name}") for layer in ("bronze", "silver", "baseline"))

    def ingest_and_publish(context: dg.AssetExecutionContext) -> Events:
        if bronze in context.selected_asset_keys:
            yield from _ingest(context, spec, settings, readers)
        if {silver, baseline} & context.selected_asset_keys:
            yield from _publish(context, spec, settings, readers)

    name = asset_key(spec, f"table_{spec.name}")
    specs = [_bronze_spec(spec, settings), *_silver_specs(spec, settings)]
    return [_step(spec, name, specs, ingest_and_publish, check_specs=window_checks.silver_check_specs(spec), can_subset=True)]


def _step(
    spec: TableSpec, name: dg.AssetKey, specs: Sequence[dg.AssetSpec], function: Callable[..., Events], **options: Any
) -> dg.AssetsDefinition:
    decorate = dg.multi_asset(
        name=name.to_python_identifier(),
        specs=specs,
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=f"table_{spec.name}",
        required_resource_keys={SPARK},
        **options,
    )
    return decorate(step_of(bool(spec.pii_columns))(function))


def _bronze_step(spec: TableSpec, settings: Settings, readers: Readers) -> dg.AssetsDefinition:
    def ingest(context: dg.AssetExecutionContext) -> Events:
        yield from _ingest(context, spec, settings, readers)

    return _step(spec, asset_key(spec, f"bronze_{spec.name}"), [_bronze_spec(spec, settings)], ingest)


def _bronze_spec(spec: TableSpec, settings: Settings) -> dg.AssetSpec:
    return dg.AssetSpec(
        asset_key(spec, f"bronze_{spec.name}"),
        deps=[asset_key(spec, f"source_{spec.name}")],
        partitions_def=partitions_of(spec.extraction),
        automation_condition=heal_windows(spec.extraction),
        description=f"{spec.description} Every row as it came, all columns strings, by extraction window.",
        metadata={
            "dagster/column_schema": show.bronze_schema(spec),
            "dagster/uri": settings.path("bronze", spec.name),
            "dagster/partition_expr": "p_extracted_at",
        },
        kinds={"bronze", "pyspark", "delta"},
        **asset_labels(spec, "bronze"),
    )


def _ingest(context: dg.AssetExecutionContext, spec: TableSpec, settings: Settings, readers: Readers) -> Events:
    bronze = asset_key(spec, f"bronze_{spec.name}")
    run = table_run(spec, settings, context)
    closed = _windows(context, spec, settings)
    windows = whole_windows(settings, spec, closed, run.clock())
    try:
        records = extract(run, windows)
    except SourceError:
        if spec.extraction.shares_partitions and asset_key(spec, f"silver_{spec.name}") in (context.run.asset_selection or ()):
            _publish_ingested(context, spec, settings, readers, windows)
        raise
    if not records:
        keys = context.partition_keys
        names = ", ".join(keys[:5]) + (", …" if len(keys) > 5 else "")
        why = why_nothing_arrived(settings, spec, closed, run.clock())
        raise SourceError(f"{spec.name}: {why} for {names}; they are ingested as soon as that changes")
    unread = windows_still_unread(run)
    for key, some in windows_by_partition(spec.extraction, windows).items():
        shared = spec.extraction.shares_partitions
        metadata = bronze_partition(some, records) if shared else show.extraction_metadata(records.get(some[0]))
        attempt = attempt_metadata(spec) if any(window.start in unread for window in some) else {}
        context.add_asset_metadata({**metadata, **attempt}, asset_key=bronze, partition_key=key)
    yield dg.MaterializeResult(asset_key=bronze, metadata={"windows": len(windows), "arrived": len(records)})


def _publish_ingested(
    context: dg.AssetExecutionContext, spec: TableSpec, settings: Settings, readers: Readers, windows: Sequence[Window]
) -> None:
    """Publish what is in bronze of partitions that have a window which the source cannot deliver. No run of the partition
    could publish the others before that window is there.
    """
    waiting = ledger.undecided_extractions(logs.extractions(settings, spec.name), logs.decisions(settings, spec.name))
    run = table_run(spec, settings, context, readers)
    starts = {record.p_extracted_at for record in waiting} - unread_windows(context.instance, run, has_failed=True)
    ingested = [window for window in windows if window.start in starts]
    if ingested:
        report_partitions(context.instance, settings, spec, publish(run, ingested).current)


def _silver_step(spec: TableSpec, settings: Settings, readers: Readers) -> dg.AssetsDefinition:
    def gate(context: dg.AssetExecutionContext) -> Events:
        yield from _publish(context, spec, settings, readers)

    name = asset_key(spec, f"silver_{spec.name}")
    return _step(spec, name, _silver_specs(spec, settings), gate, check_specs=window_checks.silver_check_specs(spec))


def _silver_specs(spec: TableSpec, settings: Settings) -> list[dg.AssetSpec]:
    """Return silver, and its baseline, which one commit brings forward."""
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
    return [
        dg.AssetSpec(
            asset_key(spec, f"silver_{spec.name}"),
            description=f"{spec.description} Checked, compared with history, deduplicated by key: the rows to use.",
            metadata={"dagster/column_schema": show.silver_schema(spec), "dagster/uri": settings.path("silver", spec.name)},
            kinds={"silver", "pyspark", "delta"},
            **common,
            **asset_labels(spec, "silver"),
        ),
        dg.AssetSpec(
            asset_key(spec, f"baseline_{spec.name}"),
            description=f"Profiles of the accepted windows of {spec.name}: what normal means to the drift check.",
            metadata={"dagster/uri": settings.path("baseline", spec.name)},
            kinds={"pyspark", "delta"},
            **common,
            **asset_labels(spec, "baseline"),
        ),
    ]


def _publish(context: dg.AssetExecutionContext, spec: TableSpec, settings: Settings, readers: Readers) -> Events:
    silver, baseline = (asset_key(spec, f"{layer}_{spec.name}") for layer in ("silver", "baseline"))
    windows = _windows(context, spec, settings)
    run = table_run(spec, settings, context, readers)
    unread = unread_windows(context.instance, run)
    if left := [window.key for window in windows if window.start in unread]:
        why = "bronze has other rows than are on record, or today's `source:` reads them otherwise"
        context.log.warning(f"not judged, since {why}: {first_of(left, 5)}; run bronze, too")
    published = publish(run, windows, unread)
    by_key = schema_checks.rejected_windows(spec, settings, published.current)
    checked = window_checks.window_results(spec, settings, windows, published.samples)
    _report_windows(context, settings, spec, windows, published, by_key, checked.not_checked)
    selected = {key.name for key in context.selected_asset_check_keys if key.asset_key == silver}
    in_quarantine = [quarantine_check_result(spec, settings)] if QUARANTINE_CHECK in selected else []
    if by_key:
        store_partition_results(context, checked.results)
        yield from in_quarantine
        raise schema_checks.schema_failure(f"silver_{spec.name}", by_key)
    columns = {"dagster/column_schema": show.silver_schema(effective_spec(settings, spec))}
    for asset, metadata in ((silver, columns), (baseline, None)):
        if asset in context.selected_asset_keys:
            yield dg.MaterializeResult(asset_key=asset, metadata=metadata)
    # After the windows' materializations, which the results are of; also where no check is selected.
    store_partition_results(context, checked.results)
    yield from (finished_check(check) for check in window_checks.window_check_specs(spec) if check.name in selected)
    yield from in_quarantine


def _windows(context: dg.AssetExecutionContext, spec: TableSpec, settings: Settings) -> list[Window]:
    return windows_of_partitions(settings, spec, context.partition_keys, datetime.now(UTC))


def _report_windows(
    context: dg.AssetExecutionContext,
    settings: Settings,
    spec: TableSpec,
    windows: Sequence[Window],
    published: Published,
    by_key: Mapping[str, Any],
    not_checked: Mapping[str, Sequence[tuple[str, str]]],
) -> None:
    """Report each partition's decisions with its materialization. Where the step is about to fail because of the windows in
    ``by_key``, report them as a materialization of each partition without one. ``not_checked``: by partition, the checks that
    did not look at it.
    """
    refused = {partition_key(spec.extraction, window) for window in windows if window.key in by_key}
    for part, some in windows_by_partition(spec.extraction, windows).items():
        if spec.extraction.shares_partitions:
            starts = {window.start: decision for window, decision in published.current.items()}
            page_of = partial(window_url, settings, spec.name, spec.extraction.window_cadence)
            values = {
                **silver_partition(spec.extraction, some, starts, page_of),
                **window_checks.not_checked_metadata(not_checked.get(part, ()) if any(w.start in starts for w in some) else ()),
            }
            teaches = _count_teaching(published, some)
        else:
            decision = published.current.get(some[0])
            teaches = bool(decision and decision.accepted and decision.teaches)
            values = {
                **show.decision_metadata(decision),
                **window_checks.not_checked_metadata(not_checked.get(part, ()) if decision else ()),
                **window_link(settings, spec.name, decision, spec.extraction.window_cadence),
            }
        by_asset = {
            asset_key(spec, f"silver_{spec.name}"): values, asset_key(spec, f"baseline_{spec.name}"): {"teaches": teaches}
        }  # fmt: skip
        for asset, metadata in by_asset.items():
            if not by_key and asset in context.selected_asset_keys:
                context.add_asset_metadata(metadata, asset_key=asset, partition_key=part)
            elif part not in refused:
                # Of a step that fails, or of the asset that was not selected: one commit writes both.
                context.log_event(dg.AssetMaterialization(asset, partition=part, metadata=metadata))


def _count_teaching(published: Published, windows: Sequence[Window]) -> int:
    """Return how many of these windows are in the baseline."""
    decisions = [published.current[window] for window in windows if window in published.current]
    return sum(decision.accepted and decision.teaches for decision in decisions)
