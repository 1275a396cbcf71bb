"""Audits in Dagster. Silver, gold and guarded tables have a job and a weekly schedule each, and each declared table of silver
and gold has an asset check.

Belongs here: what `defs.yaml` says of the tables, the ops, what the UI shows. Does not: how a table is audited (audit).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pydantic import Field

from lakehouse_assets.audit.pages import page_file, write_pages
from lakehouse_assets.audit.run import GUARDED, AuditReport, AuditRun, DeclaredTable, audit_layer
from lakehouse_assets.contracts.audit import AuditRecord, read_rules
from lakehouse_assets.contracts.gold_rules import personal_columns
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.audit.verdict import format_percent
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.guards.catalog import with_table_path
from lakehouse_assets.guards.observed_table import table_path
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.guard_assets import guarded_key
from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.jobs.operation_job import OperationJobs
from lakehouse_assets.orchestration.spark import SPARK, session_of
from lakehouse_assets.orchestration.step_boundary import step_of
from lakehouse_assets.reports.audit_site import page_path
from lakehouse_assets.reports.markdown import escape_controls
from lakehouse_assets.reports.markdown import table as markdown_table
from lakehouse_assets.settings import AUDIT_PORT, Settings

CHECK = "audit"
SERVED = f"http://127.0.0.1:{AUDIT_PORT}"
NEVER = dg.AutomationCondition.in_progress() & ~dg.AutomationCondition.in_progress()
WEEKLY = {"silver": "0 5 * * 1", "gold": "30 5 * * 1", GUARDED: "0 6 * * 1"}


class AuditRequest(dg.Config):
    """What to audit."""

    tables: list[str] = Field(default=[], description="names; none: every table on disk, or every guard's")
    as_of: int | None = Field(default=None, description="a Delta version of the one table that is named")
    seed: int | None = Field(default=None, description="draws the same sample again")
    escalate: bool = Field(default=True, description="read the whole table where the sample leaves a rule open")


def audit_definitions(jobs: OperationJobs, golds: Mapping[str, GoldQuery], guards: Sequence[GuardSpec] = ()) -> dg.Definitions:
    """Return the jobs `audit_silver`, `audit_gold` and, where there are guards of Delta tables, `audit_guarded`; their
    schedules; and the check `audit` of every asset of silver and gold.
    """
    declared = declared_tables(jobs.settings, jobs.specs, golds, guards)
    has_guards = any(table.startswith(f"{GUARDED}/") for table in declared)
    audit_jobs = {layer: _job(jobs, declared, layer) for layer in WEEKLY if has_guards or layer != GUARDED}
    schedules = [
        dg.ScheduleDefinition(
            name=f"{job.name}_weekly",
            job=job,
            cron_schedule=WEEKLY[layer],
            default_status=dg.DefaultScheduleStatus.RUNNING,
        )
        for layer, job in audit_jobs.items()
    ]
    # A guard's asset may be the user's own, whose jobs would run the audit with all its checks.
    checks = [_check(jobs.settings, declared, table) for table, each in declared.items() if each.location is None]
    return dg.Definitions(jobs=[*audit_jobs.values()], schedules=schedules, asset_checks=checks)


def declared_tables(
    settings: Settings, specs: Sequence[TableSpec], golds: Mapping[str, GoldQuery], guards: Sequence[GuardSpec]
) -> dict[str, DeclaredTable]:
    """Return what the project says of each table that is audited, by its path in the lake."""
    declared: dict[str, DeclaredTable] = {}
    for spec in specs:
        asset = asset_key(spec, f"silver_{spec.name}")
        declared[f"silver/{spec.name}"] = DeclaredTable(spec.silver_key, spec.pii_columns, asset.to_user_string())
        for gold in spec.gold:
            personal = personal_columns(golds[gold.name], specs)
            asset = asset_key(gold, f"gold_{gold.name}")
            declared[f"gold/{gold.name}"] = DeclaredTable(tuple(gold.key), personal, asset.to_user_string())
    return declared | {f"{GUARDED}/{guard.name}": _guarded(guard, settings) for guard in guards if guard.format == "delta"}


def marks_of(declared: Mapping[str, DeclaredTable]) -> dict[str, frozenset[str]]:
    """Return the personal columns of each table, which the audits' pages show no value of."""
    return {table: each.pii for table, each in declared.items()}


def _guarded(guard: GuardSpec, settings: Settings) -> DeclaredTable:
    def location(session: Callable[[], Any]) -> str:
        return table_path(with_table_path(guard, session()) if guard.table else guard, settings)

    return DeclaredTable(tuple(guard.key), guard.pii_columns, guarded_key(guard).to_user_string(), location)


def _run(settings: Settings, declared: Mapping[str, DeclaredTable], context: Any, request: AuditRequest) -> AuditRun:
    return AuditRun(
        settings=settings,
        rules=read_rules(own=settings.audits),
        session=lambda: session_of(context),
        run_id=context.run.run_id,
        declared=declared,
        step=context.log.info,
        **request.model_dump(exclude={"tables"}),
    )


def _job(jobs: OperationJobs, declared: Mapping[str, DeclaredTable], layer: str) -> dg.JobDefinition:
    def audit(context: dg.OpExecutionContext, config: AuditRequest) -> dict[str, Any]:
        run = _run(jobs.settings, declared, context, config)
        report = audit_layer(run, layer, config.tables)
        index_page = write_pages(jobs.settings, run.rules, datetime.now(UTC), marks_of(declared))
        for record in report.audits:
            asset = declared.get(record.table, DeclaredTable()).asset
            if asset and not record.as_of:
                result = _result(jobs.settings, record)
                key = dg.AssetKey.from_user_string(asset)
                context.log_event(dg.AssetObservation(key, metadata=result.metadata))
                if layer != GUARDED:
                    context.instance.report_runless_asset_event(evaluation(context.instance, key, CHECK, result))
        values = summary(report, str(index_page))
        context.add_output_metadata({"pages": dg.MetadataValue.url(SERVED), "stops": len(values["stops"])})
        return values

    those = "guarded table" if layer == GUARDED else f"{layer} table that is on disk"
    audit.__doc__ = f"Audit every {those}, by sample, and write the pages."
    return jobs.job(f"audit_{layer}", f"audit_{layer}_tables", audit)


def summary(report: AuditReport, pages: str) -> dict[str, Any]:
    """Return a report as JSON. ``stops``: why the audit as a whole does not pass."""
    stops = [f"{record.table} ({_why(record)})" for record in report.audits if record.verdict == "stopped"]
    stops += [f"the critical rule {u.rule} fits no column of any table" for u in report.unmatched if u.fails]
    troubles = [
        f"{u.rule}: " + ("fits no column of any table" if u.pattern is None else f"the pattern {u.pattern} fits no column")
        for u in report.unmatched
    ]
    troubles += [f"{r.table}: {rule} lost its column {column}" for r in report.audits for rule, column in r.lost]
    return {"audits": [_line(record) for record in report.audits], "stops": stops, "troubles": troubles, "pages": pages}


def _line(record: AuditRecord) -> dict[str, Any]:
    return {
        "table": record.table,
        "verdict": record.verdict,
        "version": record.version,
        "rows": record.total_raw_records,
        "sampled": record.total_sampled_records,
        "not passed": [_rule_id(r) for r in record.results if r["status"] != "pass"],
        "columns of no rule": len(record.uncovered),
        "seed": record.seed,
        "error": record.error_message,
        "results": [dict(result) for result in record.results],
    }


def _rule_id(result: Mapping[str, Any]) -> str:
    return f"{result['rule']}({', '.join(result['columns'])})"


def _why(record: AuditRecord) -> str:
    if record.error_message:
        return f"exception: {record.error_message}"
    bad = [r for r in record.results if r["status"] == "exception" or (r["status"] == "fail" and r["severity"] == "critical")]
    return first_of([_rule_id(result) for result in bad], 5)


def _result(settings: Settings, record: AuditRecord) -> dg.AssetCheckResult:
    has_stopped = record.verdict == "stopped"
    return dg.AssetCheckResult(
        passed=record.verdict in ("passed", "passed_with_infos"),
        severity=dg.AssetCheckSeverity.ERROR if has_stopped else dg.AssetCheckSeverity.WARN,
        description=record.verdict.replace("_", " ") + (f": {escape_controls(_why(record))}" if has_stopped else ""),
        metadata=_metadata(settings, record),
    )


def _metadata(settings: Settings, record: AuditRecord) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "audit": record.verdict,
        "audit_page": dg.MetadataValue.url(f"{SERVED}/{page_path(record.table)}"),
        "audit_page_file": dg.MetadataValue.path(str(page_file(settings, record.table))),
        "sampled": f"{record.total_sampled_records} of {record.total_raw_records} rows, seed {record.seed}",
        "rules_asked": len(record.results),
        "columns_of_no_rule": len(record.uncovered),
    }
    rows = [
        (_rule_id(r), r["status"], r["severity"], format_percent(r["share"]["estimate"]) if r["share"] else "", r["message"])
        for r in record.results
        if r["status"] != "pass"
    ]
    if rows:
        header = ("rule", "answer", "severity", "observed", "why")
        metadata["not_passed"] = dg.MetadataValue.md(markdown_table(header, rows))
    return metadata


def _check(settings: Settings, declared: Mapping[str, DeclaredTable], table: str) -> Any:
    asset = dg.AssetKey.from_user_string(declared[table].asset or table)
    layer, _, name = table.partition("/")

    # The weekly job reports its result. A condition, even one that is never true, keeps it out of its asset's runs; a person
    # can start it in the UI.
    @dg.asset_check(
        asset=asset,
        name=CHECK,
        description="The last audit of the published table, by sample: rules bound by patterns of column names.",
        required_resource_keys={SPARK},
        automation_condition=NEVER,
    )
    @step_of(any(each.pii for each in declared.values()))
    def audited(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        run = _run(settings, declared, context, AuditRequest())
        (record,) = audit_layer(run, layer, [name]).audits
        write_pages(settings, run.rules, datetime.now(UTC), marks_of(declared))
        return _result(settings, record)

    return audited
