"""`lakehouse quarantine`: what is held, and what to do with it.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

import getpass
from typing import Annotated, Any

import typer

from lakehouse_assets.cli.common import AsJson, dagster_instance, decisions_of, err, pick, show, tables_of, window_start
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.settings import Settings

quarantine_app = typer.Typer(no_args_is_help=True, help="What is held, and what to do with it.")


@quarantine_app.command("list")
def quarantine_list(
    table: Annotated[str | None, typer.Option(help="Only this table.")] = None, as_json: AsJson = False
) -> None:
    """Batches with rows in quarantine."""
    from lakehouse_assets.reports.listings import held_rows

    rows = held_rows(decisions_of(table))
    show(rows, as_json, "nothing is in quarantine")


@quarantine_app.command("show")
def quarantine_show(
    table: str,
    window: Annotated[str | None, typer.Option(help="The window's key, for all but gold tables.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many rows.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Rows that are held of a window, or of a gold table (`gold_…`), each with its reasons. Columns marked pii are masked."""
    from lakehouse_assets.layers.held import held_gold_sample, held_sample
    from lakehouse_assets.orchestration.component import personal_columns
    from lakehouse_assets.orchestration.tables import golds_of

    settings, tables = Settings.from_environment(), tables_of()
    gold = golds_of(tables).get(table.removeprefix("gold_")) if table.startswith("gold_") else None
    if gold is not None:
        rows = held_gold_sample(settings, table, personal_columns(gold, [each.spec for each in tables]), limit)
        show(rows, as_json, f"none of {table} is in quarantine")
        return
    spec = pick(tables, table).spec
    if window is None:
        raise RefusedError(f"{table} is held window by window: say which with --window (`lakehouse quarantine list`)")
    show(held_sample(settings, spec, window_start(spec, window), limit), as_json, f"none of {table} {window} is in quarantine")


Because = Annotated[str, typer.Option("--because", help="Why: kept with the decision.")]
By = Annotated[str | None, typer.Option("--by", help="Who says so (default: the login name).")]
Seq = Annotated[int, typer.Option("--seq", help="Which extraction of the window (default: the newest).")]


@quarantine_app.command("release")
def quarantine_release(
    table: str,
    window: Annotated[str, typer.Option(help="The window's key.")],
    because: Because,
    override: Annotated[
        list[str] | None, typer.Option(help="A check that loses its effect; again for more; * for all.")
    ] = None,
    teach: Annotated[
        bool | None,
        typer.Option("--teach/--no-teach", help="Whether it joins the baseline (default: unless drift is overridden)."),
    ] = None,
    by: By = None,
    seq: Seq = 0,
) -> None:
    """Judge a held window again by today's rules, or override checks by name."""
    more = {"override": override or [], "teach": {None: "unless_overridden", True: "yes", False: "no"}[teach]}
    _act("release_quarantine", "release", table, window, because, by, seq, more)


@quarantine_app.command("discard")
def quarantine_discard(
    table: str, window: Annotated[str, typer.Option(help="The window's key.")], because: Because, by: By = None, seq: Seq = 0
) -> None:
    """Give up what is held of a window; the rows stay as evidence."""
    _act("discard_quarantine", "discard", table, window, because, by, seq, {})


def _act(job: str, op: str, table: str, window: str, because: str, by: str | None, seq: int, more: dict[str, Any]) -> None:
    from lakehouse_assets.orchestration.headless import run_job, run_once
    from lakehouse_assets.reports.listings import verdict_rows
    from lakehouse_assets.storage import logs

    settings = Settings.from_environment()
    tables = tables_of()
    start = window_start(pick(tables, table).spec, window)
    config = {
        "table": table,
        "window": window,
        "extraction_seq": seq,
        "by": by or getpass.getuser(),
        "because": because,
        **more,
    }
    with dagster_instance(settings) as (definitions, instance), err.status(f"{op}: {table} {window}") as status:
        run_job(definitions, instance, job, op, config)
        # Gold follows at once: nobody need wait for the daemon.
        run_once(definitions, instance, settings, tables, lambda _: False, status.update)
    decisions = [d for d in logs.decisions(settings, table, evidence=False) if d.p_extracted_at == start]
    show(verdict_rows(decisions, full=False), False, "")
