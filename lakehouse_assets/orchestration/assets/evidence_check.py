"""Damaged evidence in Dagster: the check `evidence_complete` of silver, its nightly schedule, and its alerts.

Belongs here: what the UI and a table's recipients see. Does not: finding damage (pipeline), or mending it (jobs/evidence).
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.evidence.findings import Finding, format_findings
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.events.alerts import alert_channels, send_message
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.dagster_internals import read_cursor, write_cursors
from lakehouse_assets.orchestration.step_boundary import masked_check
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.reports.markdown import escape_controls
from lakehouse_assets.reports.markdown import table as markdown_table
from lakehouse_assets.settings import Settings

CHECK = "evidence_complete"
NIGHTLY = "45 2 * * *"
SHOWN = 50


def report_findings(context: Any, settings: Settings, spec: TableSpec, findings: Sequence[Finding]) -> None:
    """Report the check's result from a step that is not the check, and send alerts."""
    asset = asset_key(spec, f"silver_{spec.name}")
    context.instance.report_runless_asset_event(evaluation(context.instance, asset, CHECK, _result(findings)))
    _send_alerts(context, settings, spec, findings)


def _send_alerts(context: Any, settings: Settings, spec: TableSpec, findings: Sequence[Finding]) -> None:
    """Send each recipient of a table the findings that it was not sent before. An alert that fails is a warning in the log, and
    the next report sends it again.
    """
    digest = hashlib.sha256("\n".join(f"{f.where}: {f.message}" for f in findings).encode()).hexdigest() if findings else ""
    for recipient in alert_channels(spec):
        key = f"lakehouse_evidence/{spec.name}/{' '.join(recipient)}"
        if (read_cursor(context.instance, key) or "") == digest:
            continue
        try:
            if findings:
                send_message(spec, settings, recipient, f"{spec.name}: evidence is damaged", format_findings(findings))
            write_cursors(context.instance, {key: digest})
        except (LakehouseError, ConnectionError) as error:
            context.log.warning(str(error))


def _result(findings: Sequence[Finding]) -> dg.AssetCheckResult:
    text = format_findings(findings) if findings else "bronze, silver, quarantine and baseline are what the logs say"
    metadata: dict[str, Any] = {"findings": len(findings)}
    if findings:
        cells = [(f.where, f.message, f.mend) for f in findings]
        metadata["evidence"] = dg.MetadataValue.md(markdown_table(("where", "finding", "mend"), cells, SHOWN))
    shown = escape_controls(text)
    return dg.AssetCheckResult(passed=not findings, severity=dg.AssetCheckSeverity.ERROR, description=shown, metadata=metadata)


def evidence_check(settings: Settings, spec: TableSpec) -> dg.AssetChecksDefinition:
    """Return `evidence_complete` of silver. It starts no JVM."""

    def result(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        findings = findings_of(settings, spec)
        _send_alerts(context, settings, spec, findings)
        return _result(findings)

    description = "Bronze, silver, quarantine and baseline hold what the logs say: `lakehouse verify`."
    return masked_check(asset_key(spec, f"silver_{spec.name}"), CHECK, description, bool(spec.pii_columns), result)


def evidence_schedule(specs: Sequence[TableSpec]) -> dg.ScheduleDefinition:
    """Return `verify_nightly`, on by default: one run that evaluates the check of every table."""
    keys = [dg.AssetCheckKey(asset_key(spec, f"silver_{spec.name}"), CHECK) for spec in specs]
    job = dg.define_asset_job(
        "verify_evidence",
        selection=dg.AssetSelection.checks(*keys),
        executor_def=dg.in_process_executor,
        description="Compares each table's logs with its data: `lakehouse verify`.",
    )
    return dg.ScheduleDefinition(
        name="verify_nightly", job=job, cron_schedule=NIGHTLY, default_status=dg.DefaultScheduleStatus.RUNNING
    )
