"""`lakehouse quarantine`: list, show, release and discard quarantined rows.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

from datetime import timedelta
from typing import Annotated, Any

import typer

from lakehouse_assets.cli import common, terminal
from lakehouse_assets.errors import CheckFailedError, RefusedError
from lakehouse_assets.settings import Settings

quarantine_app = typer.Typer(no_args_is_help=True, help="Quarantined rows: list, show, release or discard them.")
WindowKey = Annotated[str, typer.Option(help="The window's key.")]
Seq = Annotated[int, typer.Option("--seq", help="Which extraction of the window (default: the newest).")]


@quarantine_app.command("list")
def quarantine_list(table: common.Tables = None, as_json: terminal.AsJson = False) -> None:
    """List batches with rows in quarantine."""
    from lakehouse_assets.reports.decision_rows import quarantine_rows

    terminal.show(quarantine_rows(common.read_decisions(*table or ())), as_json, "nothing is in quarantine")


@quarantine_app.command("show")
def quarantine_show(
    table: str,
    window: Annotated[str | None, typer.Option(help="The window's key, such as 2024-05-01. Not for gold tables.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The largest number of rows to show.")] = 20,
    as_json: terminal.AsJson = False,
) -> None:
    """Show quarantined rows of a window, or of a gold table (`gold_…`), with their reasons. Columns marked pii are masked."""
    from lakehouse_assets.contracts.source import source_name
    from lakehouse_assets.orchestration.assets.described_table import golds_of
    from lakehouse_assets.orchestration.jobs.operation_job import find_window
    from lakehouse_assets.queries.quarantine import gold_quarantine_sample, quarantine_sample
    from lakehouse_assets.reports.decision_rows import quarantine_rows

    settings = Settings.from_environment()
    if table.startswith("gold_"):
        tables = common.select_tables()
        if table.removeprefix("gold_") in golds_of(tables):
            rows = gold_quarantine_sample(settings, table, [each.spec for each in tables], limit)
            _show_rows(rows, as_json, f"none of {table} is in quarantine")
            return
    spec = common.select_tables(table)[0].spec
    if window is None:
        raise RefusedError(
            f"{table} has windows: name one with --window; `lakehouse quarantine list` shows which are quarantined"
        )
    start = find_window(spec, window).start
    rows = quarantine_sample(settings, spec, start, limit)
    of_window = [decision for decision in common.read_decisions(table) if decision.p_extracted_at == start]
    if not of_window:
        way = f"`lakehouse verdicts --table {table}` lists the windows that have one"
        raise RefusedError(f"{table} {window}: it has no verdict; {way}")
    quarantined = quarantine_rows(of_window)
    count = sum(row["quarantined"] for row in quarantined)
    reasons = "; ".join(row["why"] for row in quarantined)
    empty = (
        f"{table} {window} is quarantined without rows: {reasons}"
        if quarantined
        else f"none of {table} {window} is in quarantine"
    )
    _show_rows(rows if as_json else [{source_name(name): row[name] for name in row} for row in rows], as_json, empty)
    if len(rows) < count and not as_json:
        terminal.out.print(f"{len(rows)} of {count} rows; --limit shows more")


def _show_rows(rows: list[dict[str, Any]], as_json: bool, empty: str) -> None:
    """Print quarantined rows. Reasons that all of them share stand once, in a line before a table."""
    reasons = {row["reasons"] for row in rows}
    if as_json or len(rows) < 2 or len(reasons) > 1 or reasons == {""}:
        terminal.show(rows, as_json, empty)
        return
    terminal.show_lines([f"each of these rows: {reasons.pop()}"])
    terminal.show([{name: value for name, value in row.items() if name != "reasons"} for row in rows])


@quarantine_app.command("release")
def quarantine_release(
    table: str,
    window: WindowKey,
    because: common.Because,
    override: Annotated[
        list[str] | None, typer.Option(help="A check that no longer quarantines this window; repeat for more; '*' for all.")
    ] = None,
    teach: Annotated[
        bool | None,
        typer.Option("--teach/--no-teach", help="Whether it joins the baseline (default: yes, unless drift is overridden)."),
    ] = None,
    by: common.By = None,
    seq: Seq = 0,
) -> None:
    """Judge a quarantined window again by today's rules, or override checks by name. Code 8: it is still quarantined."""
    from lakehouse_assets.reports.decision_rows import describe_release

    joins = {None: "unless_overridden", True: "yes", False: "no"}[teach]
    decisions = _run("release_quarantine", table, window, because, by, seq, override=override or [], teach=joins)
    released = [d for d in decisions if d.kind == "released" and d.applied_at is not None and seq in (0, d.extraction_seq)]
    if not released:
        return
    last = max(released, key=lambda d: d.number)
    outcome = describe_release(last, decisions)
    if last.verdict == "quarantined":
        raise CheckFailedError(f"{table} {window}: {outcome}")
    terminal.out.print(outcome)


@quarantine_app.command("discard")
def quarantine_discard(table: str, window: WindowKey, because: common.Because, by: common.By = None, seq: Seq = 0) -> None:
    """Discard a window's quarantined rows; they are kept as evidence."""
    _run("discard_quarantine", table, window, because, by, seq)


def _run(job: str, table: str, window: str, because: str, by: str | None, seq: int, **options: Any) -> list[Any]:
    from lakehouse_assets.orchestration.jobs.operation_job import find_window

    spec = common.select_tables(table)[0].spec
    if ".." in window:
        several = f"`lakehouse run --table {table} --window {window} --rejudge --because WHY` judges a range by today's rules"
        raise RefusedError(f"--window {window}: name one window; {several}")
    start = find_window(spec, window).start
    config = {"table": table, "window": window, "extraction_seq": seq, "by": common.author(by), "because": because, **options}
    return common.run_decision(job, config, start, start + timedelta(microseconds=1))
