"""`lakehouse pages`: make the quality pages, and serve them.

Belongs here: arguments → the pages, a summary on the terminal, serving. Does not: what a page shows (pages).
"""

from pathlib import Path
from typing import Annotated

import typer

from lakehouse_assets.cli.terminal import AsJson, err_lines, out, show_json
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.settings import Settings

PAGES_PORT = 3080


def pages(
    serve: Annotated[bool, typer.Option("--serve", help="Serve them until Ctrl-C, and make them anew after runs.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --serve: the port; 0: a free one.")] = PAGES_PORT,
    windows: Annotated[
        int,
        typer.Option(min=1, help="How many of each table's newest windows have a page; those in quarantine have one anyway."),
    ] = 1_000,
    folder: Annotated[Path | None, typer.Option(help="The pages' folder (default: LAKEHOUSE_PAGES, or data/pages).")] = None,
    as_json: AsJson = False,
) -> None:
    """Make the quality pages from the logs: an overview, and pages of tables, windows and checks. Starts no JVM.

    Code 3: there is no lake, or the folder cannot be written. Code 5: the folder has other files. Code 9: the log is damaged.
    """
    from lakehouse_assets.storage.arrow_alone import load_arrow_alone

    load_arrow_alone()
    from lakehouse_assets.pages.site import make_site

    settings = Settings.from_environment()
    if folder is not None:
        settings = settings.model_copy(update={"quality_pages": folder.resolve()})
    report = make_site(settings, windows=windows)
    if as_json:
        show_json(vars(report))
    else:
        err_lines(f"warning: {note}" for note in report.notes)
        out.print(
            f"{report.tables} table(s), {report.refreshed} made anew, {report.written} file(s) written: {report.first_page}",
            highlight=False,
        )
        if not report.tables:
            out.print("nothing has been judged yet; run `lakehouse run`")

    def make_again() -> None:
        try:
            make_site(settings, windows=windows)
        except LakehouseError as error:
            err_lines([f"warning: {error}"])

    if serve:
        from lakehouse_assets.cli.serving import serve_folder

        serve_folder(report.first_page.parent, "127.0.0.1", port, make_again)
