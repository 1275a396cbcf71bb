"""Silver's check results reported again, where the log changed outside a run of silver, or Dagster lost its history.

Belongs here: from the log to Dagster, in an op. Does not: how a result reads (assets/window_checks), or deciding (operations).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.measures.error_text import error_text
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets import schema_checks
from lakehouse_assets.orchestration.assets.evidence_check import report_findings
from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.assets.partition_report import windows_beside
from lakehouse_assets.orchestration.assets.quarantine_check import CHECK, quarantine_check_result
from lakehouse_assets.orchestration.assets.window_checks import (
    WindowResults,
    every_window,
    window_check_specs,
    window_results,
)
from lakehouse_assets.orchestration.healing.retries import stopped_evaluation
from lakehouse_assets.orchestration.healing.window_state import read_statuses
from lakehouse_assets.orchestration.jobs.operation_job import OperationJobs, TableRequest
from lakehouse_assets.orchestration.partition_results import partitions_with_results, store_partition_results
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.settings import Settings


def report_window_checks(
    context: dg.OpExecutionContext, settings: Settings, spec: TableSpec, windows: Sequence[Window]
) -> None:
    """Report every check of silver in these windows, and what is in quarantine, as the log has it now."""
    report_results(context, settings, spec, window_results(spec, settings, windows_beside(settings, spec, windows), {}))


def report_results(context: dg.OpExecutionContext, settings: Settings, spec: TableSpec, checked: WindowResults) -> None:
    """Report these results, and what is in quarantine."""
    store_partition_results(context, checked.results)
    silver = asset_key(spec, f"silver_{spec.name}")
    event = evaluation(context.instance, silver, CHECK, quarantine_check_result(spec, settings))
    context.instance.report_runless_asset_event(event)


def report_table_checks(
    context: dg.OpExecutionContext, settings: Settings, spec: TableSpec, readers: Mapping[str, Sequence[str]]
) -> None:
    """Report the checks of silver without windows that a run of silver evaluates: schema, failed windows, evidence. The
    operation is done: one that cannot be evaluated is a warning. ``readers``: as `Run` has them.
    """
    instance, silver = context.instance, asset_key(spec, f"silver_{spec.name}")

    def report_schema() -> None:
        result = schema_checks.silver_schema_result(settings, spec, readers)
        instance.report_runless_asset_event(evaluation(instance, silver, schema_checks.CHECK, result))

    def report_failed_windows() -> None:
        statuses = read_statuses(instance, settings, spec, datetime.now(UTC))
        instance.report_runless_asset_event(stopped_evaluation(instance, spec, statuses))

    def report_evidence() -> None:
        report_findings(context, settings, spec, findings_of(settings, spec))

    for report in (report_schema, report_failed_windows, report_evidence):
        try:
            report()
        except Exception as error:
            why = error_text(error, bool(spec.pii_columns))
            context.log.warning(f"{spec.name}: a check is not reported again, the next run of silver does: {why}")


def report_every_window(context: dg.OpExecutionContext, settings: Settings, spec: TableSpec) -> int:
    """Report every window that has a decision, and those that Dagster has results of and the log does not. Returns how many."""
    reported = partitions_with_results(context.instance, [check.key for check in window_check_specs(spec)])
    count = 0
    for windows in every_window(spec, settings, sorted(reported)):
        report_window_checks(context, settings, spec, windows)
        count += len(windows)
    return count


def report_checks_job(jobs: OperationJobs) -> dg.JobDefinition:
    """Return the job `report_checks`. It starts no JVM."""

    def report(context: dg.OpExecutionContext, config: TableRequest) -> dict[str, int]:
        """Report every window's check results again, as the log has them: see `lakehouse check report`."""
        return {"windows": report_every_window(context, jobs.settings, jobs.spec(config.table))}

    return jobs.job("report_checks", "report_checks_of_table", report)
