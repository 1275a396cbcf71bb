"""Silver's check results reported again, where the log changed outside a run of silver, or Dagster lost its history.

Belongs here: from the log to Dagster, in an op. Does not: how a result reads (assets/window_checks), or deciding (operations).
"""

from collections.abc import Sequence

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.assets.partition_report import windows_beside
from lakehouse_assets.orchestration.assets.quarantine_check import CHECK, quarantine_check_result
from lakehouse_assets.orchestration.assets.window_checks import (
    WindowResults,
    every_window,
    window_check_specs,
    window_results,
)
from lakehouse_assets.orchestration.dagster_internals import partitions_with_results, store_partition_results
from lakehouse_assets.orchestration.jobs.operation_job import OperationJobs, TableRequest
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
    context.instance.report_runless_asset_event(evaluation(silver, CHECK, quarantine_check_result(spec, settings)))


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
