"""The `lakehouse` command: parse → call → exit code.

Belongs here: arguments, tables on the terminal, JSON. Does not: anything that another room could do.
"""

import getpass
import sys
from pathlib import Path
from typing import Annotated

import typer

from lakehouse_assets.cli.audits import add_audits
from lakehouse_assets.cli.baseline import baseline_app
from lakehouse_assets.cli.common import (
    AsJson,
    dagster_instance,
    decisions_of,
    err,
    out,
    pick,
    show,
    tables_of,
    window_range,
)
from lakehouse_assets.cli.drift import drift_app
from lakehouse_assets.cli.heal import heal_app
from lakehouse_assets.cli.quarantine import quarantine_app
from lakehouse_assets.cli.schema import schema_app
from lakehouse_assets.cli.trials import check_app
from lakehouse_assets.errors import LakehouseError, RefusedError, SourceError
from lakehouse_assets.settings import PROJECT_ROOT, Settings

app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, help="A lakehouse that keeps bad data out and mends its gaps."
)
app.add_typer(baseline_app, name="baseline")
app.add_typer(check_app, name="check")
app.add_typer(drift_app, name="drift")
app.add_typer(heal_app, name="heal")
app.add_typer(quarantine_app, name="quarantine")
app.add_typer(schema_app, name="schema")
add_audits(app)


@app.command()
def run(
    table: Annotated[str | None, typer.Option(help="Only this table.")] = None,
    window: Annotated[str | None, typer.Option(help="Only these windows: a key, or A..B (both included).")] = None,
    rejudge: Annotated[
        bool, typer.Option("--rejudge", help="Judge these windows of this table again by today's rules; needs --because.")
    ] = False,
    because: Annotated[str | None, typer.Option(help="With --rejudge: why; kept with the decisions.")] = None,
    by: Annotated[str | None, typer.Option(help="With --rejudge: who says so (default: the login name).")] = None,
) -> None:
    """Bring in what has arrived or changed, once, with gold after it; or judge windows again that are in bronze."""
    from lakehouse_assets.orchestration.headless import run_once

    if rejudge:
        _judge_again(table, window, because, by)
        return
    settings = Settings.from_environment()
    tables = tables_of([table] if table else [])
    first, end = window_range(window, [found.spec for found in tables])
    with dagster_instance(settings) as (definitions, instance), err.status("starting") as status:
        report = run_once(
            definitions,
            instance,
            settings,
            tables,
            (lambda w: first <= w.start < end) if first and end else None,
            status.update,
        )
    for name, a, b, count in report.ranges:
        out.print(f"{name}: {a} to {b}, {count} window(s) in one run", markup=False)
    for name in report.gold:
        out.print(f"{name}: rewritten", markup=False)
    if report.unreachable:
        raise SourceError("\n".join(report.unreachable))
    for trouble in report.troubles:
        err.print(f"warning: {trouble}", markup=False)
    if not report.ranges and not report.gold and not report.left:
        out.print("nothing is missing, late or changed", markup=False)


def _judge_again(table: str | None, window: str | None, because: str | None, by: str | None) -> None:
    from lakehouse_assets.orchestration.headless import run_job, run_once
    from lakehouse_assets.reports.listings import verdict_rows
    from lakehouse_assets.storage import logs

    if table is None or window is None or because is None:
        raise RefusedError("--rejudge is an act: name --table, --window (a key, or A..B) and --because")
    settings = Settings.from_environment()
    tables = tables_of()
    start, end = window_range(window, [pick(tables, table).spec])
    first, _, last = window.partition("..")
    config = {"table": table, "first": first, "last": last, "by": by or getpass.getuser(), "because": because}
    with dagster_instance(settings) as (definitions, instance), err.status(f"judging again: {table} {window}") as status:
        run_job(definitions, instance, "rejudge_windows", "rejudge", config)
        run_once(definitions, instance, settings, tables, lambda _: False, status.update)
    found = logs.decisions(settings, table, evidence=False)
    chosen = [d for d in found if start and end and d.p_extracted_at and start <= d.p_extracted_at < end]
    show(verdict_rows(chosen, full=False), False, "")


@app.command()
def verdicts(
    table: Annotated[str | None, typer.Option(help="Only this table.")] = None,
    verdict: Annotated[str | None, typer.Option(help="Only this verdict, e.g. quarantined.")] = None,
    silver_version: Annotated[
        int | None,
        typer.Option(min=0, help="The decisions that this Delta version of the table's silver (or gold) applied, all checks."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Each batch's last applied decision, with the counts of its rows; or what was checked before a version."""
    from lakehouse_assets.reports.listings import verdict_rows

    if silver_version is not None:
        _checked_before(table, silver_version, verdict, as_json)
        return
    rows = verdict_rows(decisions_of(table), full=as_json)
    chosen = [row for row in rows if verdict in (None, row["verdict"])]
    show(chosen, as_json, "no batch has this verdict" if rows else "nothing has been judged yet; `lakehouse run`")


def _checked_before(table: str | None, version: int, verdict: str | None, as_json: bool) -> None:
    from lakehouse_assets.layers.provenance import checked_before
    from lakehouse_assets.reports.listings import checked_full, checked_rows

    if table is None:
        raise RefusedError("--silver-version counts one table's versions: name it with --table")
    decisions_of(table)
    found = checked_before(Settings.from_environment(), table, version)
    if found.note:
        err.print(f"note: {found.note}", markup=False)
    chosen = [d for d in found.decisions if verdict in (None, d.verdict)]
    show(checked_full(chosen) if as_json else checked_rows(chosen), as_json, "no decision of this version has this verdict")


@app.command()
def init(
    table: Annotated[str, typer.Argument(help="The new table's name.")],
    file: Annotated[Path, typer.Option("--from", help="One window's file: its header and first rows are read.")],
    start: Annotated[
        str | None, typer.Option(help="First window, YYYY-MM-DD (default: the window in the file's name).")
    ] = None,
) -> None:
    """Write tables/TABLE/defs.yaml from a file's header and sample."""
    from lakehouse_assets.contracts.draft import draft_table

    folder = PROJECT_ROOT / "lakehouse_assets" / "tables" / table
    target = folder / "defs.yaml"
    if target.exists():
        raise RefusedError(f"{target} is there already; remove it first, or choose another name")
    text, advice = draft_table(table, file, Path(Settings.from_environment().landing), start)
    folder.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    out.print(f"wrote {target.relative_to(PROJECT_ROOT)}", markup=False)
    for line in advice:
        out.print(f"- {line}", markup=False)


@app.command()
def rebuild(table: str, as_json: AsJson = False) -> None:
    """Fold silver anew from bronze and the accepted decisions, and say what differed."""
    from lakehouse_assets.orchestration.headless import run_job

    settings = Settings.from_environment()
    tables_of([table])
    with dagster_instance(settings) as (definitions, instance), err.status(f"rebuilding silver {table}"):
        found = run_job(definitions, instance, "rebuild_silver", "rebuild", {"table": table}).output_for_node("rebuild")
    show([{"table": table, **found}], as_json, "")
    if not as_json and not found["gained"] and not found["lost"]:
        out.print("silver equals the fold of bronze and the decisions", markup=False)


def main() -> None:
    """Run the command; an error of ours ends with its exit code and one clear message."""
    try:
        app(standalone_mode=True)
    except LakehouseError as error:
        err.print(f"error: {error}", style="red", markup=False, highlight=False)
        sys.exit(error.exit_code)
