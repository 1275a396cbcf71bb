"""`lakehouse verify`: whether bronze, silver, quarantine, baseline and the logs hold what is on record, and mending them.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

from typing import Annotated, Any

import typer

from lakehouse_assets.cli.common import Tables, author, open_dagster, require_reason, select_tables, stop_own_spark
from lakehouse_assets.cli.terminal import AsJson, err, out, show
from lakehouse_assets.errors import EvidenceError, RefusedError
from lakehouse_assets.settings import Settings


def verify(
    table: Tables = None,
    rows: Annotated[bool, typer.Option("--rows", help="Compare rows too, cell by cell. Spark reads all rows.")] = False,
    replay: Annotated[
        int | None, typer.Option(min=1, help="Judge so many of each table's newest decisions again by what they kept.")
    ] = None,
    mend: Annotated[
        bool, typer.Option("--mend", help="With --table: write again what the rest of the lake determines.")
    ] = False,
    restore_logs: Annotated[
        bool, typer.Option("--restore-logs", help="Restore lost entries of ops/ from the tables' commits.")
    ] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="With --restore-logs and --table: give up entries that no commit has.")
    ] = False,
    because: Annotated[
        str | None, typer.Option(help="With --accept-loss: why; recorded with the loss.", callback=require_reason)
    ] = None,
    by: Annotated[str | None, typer.Option(help="With --accept-loss: who decides (default: the login name).")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the logs with the lake's files and rows. Ends with code 9 if something is missing, doubled or older."""
    from lakehouse_assets.pipeline.evidence import findings_of

    settings = Settings.from_environment()
    specs = [each.spec for each in select_tables(*table or ())]
    if accept_loss and (table is None or because is None or not restore_logs):
        raise RefusedError("--accept-loss gives up records: name --table, --restore-logs and --because")
    if restore_logs:
        loss = {"accept_loss": True, "by": author(by), "because": because} if accept_loss else {}
        _run_each(specs, "restore_logs", as_json, loss)
    if mend:
        if table is None:
            raise RefusedError("--mend rewrites a table: name it with --table")
        _run_each(specs, "mend_evidence", as_json, {})
    findings = [finding for spec in specs for finding in findings_of(settings, spec)]
    # Rows are compared only where all of them exist.
    damaged = {finding.table for finding in findings}
    if (rows or replay) and (complete := [spec for spec in specs if spec.name not in damaged]):
        findings += _findings_by_spark(settings, complete, rows, replay)
    show([finding.as_row() for finding in findings], as_json, f"{len(specs)} table(s): everything on record is there")
    if findings:
        names = ", ".join(dict.fromkeys(finding.table for finding in findings))
        raise EvidenceError(f"{names}: {len(findings)} finding(s); docs/evidence.md says what mends each")


def _run_each(specs: list[Any], job: str, as_json: bool, options: dict[str, Any]) -> None:
    from lakehouse_assets.orchestration.jobs.operation_job import run_job

    with open_dagster(Settings.from_environment()) as (definitions, instance):
        for spec in specs:
            with err.status(f"{job.replace('_', ' ')}: {spec.name}"):
                values = run_job(definitions, instance, job, {"table": spec.name, **options})
            if not as_json:
                text = ", ".join(f"{name} {value}" for name, value in values.items() if value not in (0, False, []))
                out.print(f"{spec.name}: {text or 'nothing to do'}")


def _findings_by_spark(settings: Settings, specs: list[Any], rows: bool, replay: int | None) -> list[Any]:
    from lakehouse_assets.operations.replay import find_other_verdicts
    from lakehouse_assets.orchestration.step_boundary import any_personal, mask_errors
    from lakehouse_assets.pipeline.run import Run
    from lakehouse_assets.queries.row_hashes import compare_row_hashes
    from lakehouse_assets.storage.session import build_session

    findings: list[Any] = []
    with mask_errors(any_personal(specs)), stop_own_spark():
        spark = build_session(settings)
        for spec in specs:
            findings += compare_row_hashes(settings, spec, spark) if rows else []
            run = Run(settings, spec, lambda: spark, "verify")
            findings += find_other_verdicts(run, replay) if replay else []
    return findings
