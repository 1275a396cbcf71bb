"""`lakehouse heal`: which windows are not as they should be, and what will happen next.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

from datetime import UTC, datetime
from typing import Annotated

import typer

from lakehouse_assets.cli.common import AsJson, instance_of, show, tables_of
from lakehouse_assets.settings import Settings

heal_app = typer.Typer(no_args_is_help=True, help="What is missing, late, stale, failing or held.")


@heal_app.callback()
def _group() -> None:
    # Typer makes a lone command the whole application otherwise.
    pass


@heal_app.command("status")
def heal_status(
    table: Annotated[str | None, typer.Option(help="Only this table.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Windows too that were late and are in.")] = False,
    as_json: AsJson = False,
) -> None:
    """Windows that are missing, late, stale, failing or quarantined, and what comes next, and when. Starts nothing."""
    from lakehouse_assets.orchestration.healing import healing_of
    from lakehouse_assets.reports.healings import healing_rows

    settings = Settings.from_environment()
    specs = [found.spec for found in tables_of([table] if table else [])]
    now = datetime.now(UTC)
    with instance_of(settings) as instance:
        found = {spec.name: healing_of(instance, settings, spec, now) for spec in specs}
    show(healing_rows(found, full=as_json, everything=everything), as_json, "every window that is over is in and accepted")
