"""`lakehouse check rehearse`: the scorecard of a table's checks, on the terminal, as JSON, and as a page.

Belongs here: arguments → the rehearsal, its listing, the page's file. Does not: the rehearsal (operations), its wording
(reports).
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from lakehouse_assets.cli import common, terminal
from lakehouse_assets.errors import CheckFailedError, RefusedError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.atomic_write import write_atomically


def check_rehearse(
    table: str,
    windows: Annotated[int, typer.Option(min=1, max=50, help="How many accepted windows are copied with faults.")] = 3,
    clean: Annotated[int, typer.Option(min=1, max=100, help="How many are copied as they are, for false alarms.")] = 20,
    columns: Annotated[
        int, typer.Option(min=1, max=100, help="The most columns of each window that one fault is put into, one copy each.")
    ] = 2,
    fault: Annotated[list[str] | None, typer.Option(help="Only this kind of fault; repeat for more (default: all).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which windows, columns and rows; the same seed gives the same copies.")] = 0,
    page: Annotated[Path | None, typer.Option(help="Write the scorecard to this HTML file too.")] = None,
    at_least: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The share of faulty copies that must be seen; else the code is 8.")
    ] = 0.0,
    as_json: terminal.AsJson = False,
) -> None:
    """Put faults of known kinds and sizes into copies of accepted windows, and count which of them the gate sees.

    Nothing is written to the lake. Code 5: no accepted window, or an unknown fault. Code 8: fewer seen than --at-least, or
    no fault would do harm.
    """
    if table.startswith("gold_"):
        raise RefusedError(f"{table}: gold has no windows to copy; rehearse the tables that it is made of")
    if page and not page.parent.is_dir():
        raise RefusedError(f"--page {page}: there is no folder {page.parent}; make it first")
    spec = common.select_tables(table)[0].spec
    from lakehouse_assets.operations.rehearse import RehearsalRequest, rehearse
    from lakehouse_assets.pipeline.run import Run
    from lakehouse_assets.storage.session import build_session

    request, settings = RehearsalRequest(windows, clean, columns, seed, tuple(fault or ())), Settings.from_environment()
    with common.stop_own_spark(), terminal.err.status(f"rehearsing {escape(table)}") as status:
        run = Run(settings, spec, lambda: build_session(settings), "rehearsal")
        result = rehearse(run, request, lambda text: status.update(escape(f"{table}: {text}")))
    _show(result, page, as_json)
    if at_least and result.without_harm:
        raise CheckFailedError(f"{table}: {result.without_harm}, and --at-least asks for {at_least:.0%} of the faulty copies")
    if result.share_detected < at_least:
        raise CheckFailedError(
            f"{table}: {result.share_detected:.0%} of the faulty copies were seen, and --at-least asks for {at_least:.0%}"
        )


def _show(result: Any, page: Path | None, as_json: bool) -> None:
    from lakehouse_assets.reports import rehearsal as report

    if page:
        write_atomically(page, report.rehearsal_page(result, datetime.now(UTC)).encode("utf-8", "backslashreplace"))
    if as_json:
        terminal.show_json(report.as_dict(result))
        return
    terminal.show(report.fault_rows(result), empty="no fault changed any row")
    for rows in (report.unseen_rows(result), report.remedy_rows(result)):
        if rows:
            terminal.out.print()
            terminal.show(rows)
    terminal.out.print()
    lines = [report.describe_rehearsal(result), report.describe_clean(result.clean)]
    lines += [f"{name} has no fault: {why}" for name, why in result.left_out.items()]
    lines += [f"page: {page}"] if page else []
    terminal.show_lines(map(escape, lines))
