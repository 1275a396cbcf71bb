"""Audits in Dagster: a job and a weekly schedule for silver and for gold, and an asset check of each table that is described.

Belongs here: what is known of the tables, the ops, what the UI shows. Does not: how a table is audited (layers/audit).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from lakehouse_assets.contracts.audit import read_rules
from lakehouse_assets.contracts.audit_record import AuditRecord
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.audit import percent
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.layers.audit import AuditRun, Known, Report, audit_layer
from lakehouse_assets.layers.audit_pages import page, write_pages
from lakehouse_assets.orchestration.component import LakehouseTable, personal_columns
from lakehouse_assets.reports.audit_site import page_of
from lakehouse_assets.reports.markdown import table as markdown_table
from lakehouse_assets.settings import AUDIT_PORT, Settings

CHECK = "audit"
SERVED = f"http://127.0.0.1:{AUDIT_PORT}"
NEVER = dg.AutomationCondition.in_progress() & ~dg.AutomationCondition.in_progress()
WEEKLY = {"silver": "0 5 * * 1", "gold": "30 5 * * 1"}


class Audit(dg.Config):
    """What to audit."""

    tables: list[str] = Field(default=[], description="names; none: every table on disk")
    as_of: int | None = Field(default=None, description="a Delta version of the one table that is named")
    seed: int | None = Field(default=None, description="draws the same sample again")
    escalate: bool = Field(default=True, description="look at the whole table where the sample leaves a rule open")


def known_tables(tables: Sequence[LakehouseTable]) -> dict[str, Known]:
    """What `defs.yaml` says of each table, by its place in the lake."""
    specs = [table.spec for table in tables]
    found: dict[str, Known] = {}
    for each in tables:
        spec: TableSpec = each.spec
        found[f"silver/{spec.name}"] = Known(spec.silver_key, spec.pii_columns, f"silver_{spec.name}")
        for gold in spec.gold:
            pii = personal_columns(each.query_of(gold, specs), specs)
            found[f"gold/{gold.name}"] = Known(tuple(gold.key), pii, f"gold_{gold.name}")
    return found


def audit_definitions(settings: Settings, tables: Sequence[LakehouseTable]) -> dg.Definitions:
    """The jobs `audit_silver` and `audit_gold`, their schedules, and the check `audit` of every table's asset."""
    known = known_tables(tables)
    jobs = [_job(settings, known, stage) for stage in WEEKLY]
    schedules = [
        dg.ScheduleDefinition(
            name=f"{job.name}_weekly", job=job, cron_schedule=cron, default_status=dg.DefaultScheduleStatus.RUNNING
        )
        for job, cron in zip(jobs, WEEKLY.values(), strict=True)
    ]
    checks = [_check(settings, known, table) for table in known]
    return dg.Definitions(jobs=jobs, schedules=schedules, asset_checks=checks)


def _run(settings: Settings, known: Mapping[str, Known], context: Any, config: Audit | None = None) -> AuditRun:
    config = config or Audit()
    spark = context.resources.spark
    return AuditRun(
        settings=settings,
        rules=read_rules(),
        session=lambda: spark.spark_session,
        run_id=context.run.run_id,
        known=known,
        seed=config.seed,
        escalate=config.escalate,
        as_of=config.as_of,
        step=context.log.info,
    )


def _job(settings: Settings, known: Mapping[str, Known], stage: str) -> dg.JobDefinition:
    @dg.op(name=f"audit_{stage}_tables", required_resource_keys={"spark"})
    def audit(context: dg.OpExecutionContext, config: Audit) -> dict[str, Any]:
        run = _run(settings, known, context, config)
        report = audit_layer(run, stage, config.tables)
        first = write_pages(settings, run.rules, datetime.now(UTC))
        for record in report.audits:
            asset = known.get(record.table, Known()).asset
            if asset and not record.as_of:
                told = _told(settings, record)
                context.log_event(dg.AssetObservation(asset, metadata=told["metadata"]))
                evaluation = dg.AssetCheckEvaluation(asset_key=dg.AssetKey(asset), check_name=CHECK, **told)
                context.instance.report_runless_asset_event(evaluation)
        found = summary(report, str(first))
        context.add_output_metadata({"pages": dg.MetadataValue.url(SERVED), "stops": len(found["stops"])})
        return found

    @dg.job(name=f"audit_{stage}", description=f"Audit every {stage} table that is on disk, by sample, and write the pages.")
    def audit_layer_job() -> None:
        audit()

    return audit_layer_job


def summary(report: Report, pages: str) -> dict[str, Any]:
    """A report as JSON. ``stops``: why the audit as a whole does not pass."""
    stops = [f"{record.table} ({_why(record)})" for record in report.audits if record.verdict == "stopped"]
    stops += [f"the critical rule {u.rule} fits no column of any table" for u in report.unmatched if u.fails]
    troubles = [
        f"{u.rule}: " + ("fits no column of any table" if u.pattern is None else f"the pattern {u.pattern} fits no column")
        for u in report.unmatched
    ]
    troubles += [f"{r.table}: {rule} lost its column {column}" for r in report.audits for rule, column in r.lost]
    return {"audits": [_line(record) for record in report.audits], "stops": stops, "troubles": troubles, "pages": pages}


def _line(record: AuditRecord) -> dict[str, Any]:
    told = {
        "table": record.table,
        "verdict": record.verdict,
        "version": record.version,
        "rows": record.total_raw_records,
        "sampled": record.total_sampled_records,
        "not passed": [_id(r) for r in record.results if r["status"] != "pass"],
        "columns of no rule": len(record.uncovered),
        "seed": record.seed,
        "error": record.error_message,
    }
    return told | {"results": [dict(result) for result in record.results]}


def _id(result: Mapping[str, Any]) -> str:
    return f"{result['rule']}({', '.join(result['columns'])})"


def _why(record: AuditRecord) -> str:
    if record.error_message:
        return f"exception: {record.error_message}"
    bad = [r for r in record.results if r["status"] == "exception" or (r["status"] == "fail" and r["severity"] == "critical")]
    return first_of([_id(result) for result in bad], 5)


def _metadata(settings: Settings, record: AuditRecord) -> dict[str, Any]:
    bad = [r for r in record.results if r["status"] != "pass"]
    rows = [
        (_id(r), r["status"], r["severity"], percent(r["share"]["estimate"]) if r["share"] else "", r["message"]) for r in bad
    ]
    found: dict[str, Any] = {
        "audit": record.verdict,
        "audit_page": dg.MetadataValue.url(f"{SERVED}/{page_of(record.table)}"),
        "audit_page_file": dg.MetadataValue.path(str(page(settings, record.table))),
        "sampled": f"{record.total_sampled_records} of {record.total_raw_records} rows, seed {record.seed}",
        "rules_asked": len(record.results),
        "columns_of_no_rule": len(record.uncovered),
    }
    if rows:
        header = ("rule", "answer", "severity", "observed", "why")
        found["not_passed"] = dg.MetadataValue.md(markdown_table(header, rows))
    return found


def _told(settings: Settings, record: AuditRecord) -> dict[str, Any]:
    """The check's result, as the keyword arguments of a result or of an evaluation."""
    stopped = record.verdict == "stopped"
    return {
        "passed": record.verdict in ("passed", "passed_with_infos"),
        "severity": dg.AssetCheckSeverity.ERROR if stopped else dg.AssetCheckSeverity.WARN,
        "description": record.verdict.replace("_", " ") + (f": {_why(record)}" if stopped else ""),
        "metadata": _metadata(settings, record),
    }


def _check(settings: Settings, known: Mapping[str, Known], table: str) -> Any:
    asset = known[table].asset or table
    stage, _, name = table.partition("/")

    # The weekly job fills it in. With a condition of its own, even one that never holds, it does not run each time that its
    # asset is made; a person can start it in the UI.
    @dg.asset_check(
        asset=asset,
        name=CHECK,
        description="The last audit of the published table, by sample: rules bound by patterns of column names.",
        required_resource_keys={"spark"},
        automation_condition=NEVER,
    )
    def audited(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        run = _run(settings, known, context)
        (record,) = audit_layer(run, stage, [name]).audits
        write_pages(settings, run.rules, datetime.now(UTC))
        return dg.AssetCheckResult(**_told(settings, record))

    return audited
