"""Decisions of an operation, reported on the assets of their table, so that gold follows: silver changed outside its own run.

Belongs here: which decisions are reported, and their materializations. Does not: results of checks (check_report), or deciding.
"""

from collections.abc import Mapping, Sequence

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.metadata import decision_metadata
from lakehouse_assets.orchestration.assets.partition_report import partition_events, windows_beside
from lakehouse_assets.orchestration.assets.partitions import partition_key
from lakehouse_assets.orchestration.assets.window_checks import not_checked_metadata, window_results
from lakehouse_assets.orchestration.jobs.check_report import report_results, report_table_checks
from lakehouse_assets.orchestration.quality_pages import window_link
from lakehouse_assets.pipeline.run import Run


def report_decisions(context: dg.OpExecutionContext, run: Run, decisions: Mapping[Window, Decision]) -> None:
    """Report windows' new decisions: materializations, every check's result, and what is in quarantine; then the checks of the
    table as a whole, which are of the materialization before.
    """
    spec, settings = run.spec, run.settings
    reported = [window for window, decision in decisions.items() if _needs_report(context, run, window, decision)]
    if not reported:
        return
    beside = windows_beside(settings, spec, reported)
    checked = window_results(spec, settings, beside, {})
    if spec.extraction.shares_partitions:
        events = partition_events(settings, spec, beside, checked.not_checked)
    else:
        chosen = {window: decisions[window] for window in reported}
        events = [event for item in chosen.items() for event in _events(run, *item, checked.not_checked)]
    for event in events:
        context.log_event(event)
    report_results(context, settings, spec, checked)
    report_table_checks(context, settings, spec, run.readers)


def _events(
    run: Run, window: Window, decision: Decision, not_checked: Mapping[str, Sequence[tuple[str, str]]]
) -> list[dg.AssetMaterialization]:
    spec, part = run.spec, partition_key(run.spec.extraction, window)
    link = window_link(run.settings, spec.name, decision, spec.extraction.window_cadence)
    metadata = {
        "silver": {**decision_metadata(decision), **link, **not_checked_metadata(not_checked.get(part, ()))},
        "baseline": {"teaches": decision.teaches},
    }
    return [
        dg.AssetMaterialization(asset_key(spec, f"{layer}_{spec.name}"), partition=part, metadata=values)
        for layer, values in metadata.items()
    ]


def _needs_report(context: dg.OpExecutionContext, run: Run, window: Window, decision: Decision) -> bool:
    """Whether the decision is of this run, or of one that was killed before it reported."""
    if decision.run_id == run.run_id:
        return True
    at = f"{decision.decided_at:%Y-%m-%d %H:%M}"
    earlier = f"{run.spec.name} {window.key} was {decision.kind} by decision {decision.number} of {at}"
    silver = asset_key(run.spec, f"silver_{run.spec.name}")
    records = context.instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=silver, asset_partitions=[partition_key(run.spec.extraction, window)]), limit=1
    ).records
    if records and decision.applied_at is not None and records[0].timestamp > decision.applied_at.timestamp():
        context.log.info(f"{earlier}; nothing is done again. Another --because makes it another request")
        return False
    context.log.info(f"{earlier}, and its run was killed before it could report it")
    return True
