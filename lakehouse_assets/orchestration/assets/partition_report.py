"""Partitions that several windows share, reported from the log outside a run: by the streams, and by a person's operations.

Belongs here: which windows a partition has, its materializations and check results as events. Does not: what they show
(partition_metadata, window_checks), or when they are reported (streams, jobs).
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.assets.partition_metadata import bronze_partition, silver_partition
from lakehouse_assets.orchestration.assets.partitions import partition_key, windows_by_partition
from lakehouse_assets.orchestration.assets.quarantine_check import CHECK, quarantine_check_result
from lakehouse_assets.orchestration.assets.window_checks import not_checked_metadata, window_results
from lakehouse_assets.orchestration.partition_results import report_partition_results
from lakehouse_assets.orchestration.quality_pages import window_url
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

NotChecked = Mapping[str, Sequence[tuple[str, str]]]


def windows_beside(settings: Settings, spec: TableSpec, windows: Collection[Window]) -> list[Window]:
    """Return these windows, and those with a decision that share a partition with them, oldest first."""
    if not spec.extraction.shares_partitions:
        return sorted(windows)
    chosen = {partition_key(spec.extraction, window) for window in windows}
    decided = {spec.extraction.window_at(start) for start in _current(settings, spec)}
    return sorted({window for window in decided if partition_key(spec.extraction, window) in chosen} | set(windows))


def partition_events(
    settings: Settings, spec: TableSpec, windows: Collection[Window], not_checked: NotChecked | None = None
) -> list[dg.AssetMaterialization]:
    """Return the materializations of bronze, silver and baseline of partitions, as the logs are now. ``windows``: all of these
    partitions (`windows_beside`). ``not_checked``: as of `window_results`.
    """
    page_of = partial(window_url, settings, spec.name, spec.extraction.window_cadence)
    current = _current(settings, spec)
    newest = ledger.latest_extractions(logs.extractions(settings, spec.name))
    events = []
    for part, some in windows_by_partition(spec.extraction, windows).items():
        records = {window: newest[window.start] for window in some if window.start in newest}
        decided = [current[window.start] for window in some if window.start in current]
        metadata = {
            "bronze": bronze_partition(some, records),
            "silver": {
                **silver_partition(spec.extraction, some, current, page_of),
                **not_checked_metadata((not_checked or {}).get(part, ()) if decided else ()),
            },
            "baseline": {"teaches": sum(decision.accepted and decision.teaches for decision in decided)},
        }
        events += [
            dg.AssetMaterialization(asset_key(spec, f"{layer}_{spec.name}"), partition=part, metadata=values)
            for layer, values in metadata.items()
        ]
    return events


def report_partitions(instance: dg.DagsterInstance, settings: Settings, spec: TableSpec, windows: Collection[Window]) -> None:
    """Report the partitions of these windows: materialized anew, with every check's result, and what is in quarantine."""
    beside = windows_beside(settings, spec, windows)
    checked = window_results(spec, settings, beside, {})
    for event in partition_events(settings, spec, beside, checked.not_checked):
        instance.report_runless_asset_event(event)
    # After the materializations, which the results are of.
    report_partition_results(instance, checked.results)
    silver = asset_key(spec, f"silver_{spec.name}")
    instance.report_runless_asset_event(evaluation(instance, silver, CHECK, quarantine_check_result(spec, settings)))


def _current(settings: Settings, spec: TableSpec) -> Mapping[datetime, Decision]:
    return ledger.newest_by_window(ledger.current_decisions(logs.decisions(settings, spec.name)).values())
