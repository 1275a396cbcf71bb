"""`lakehouse heal`: which windows need a step, and which step is next.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

from datetime import UTC, datetime
from typing import Annotated

import typer

from lakehouse_assets.cli.common import AsJson, OneTable, open_instance, select_tables, show
from lakehouse_assets.settings import Settings

heal_app = typer.Typer(no_args_is_help=True, help="Windows that are missing, late, stale, failing or quarantined.")


@heal_app.command("status")
def heal_status(
    table: OneTable = None,
    everything: Annotated[bool, typer.Option("--all", help="Also late windows that are in silver.")] = False,
    as_json: AsJson = False,
) -> None:
    """List windows that are missing, late, stale, failing or quarantined, with the next step and its time. Starts nothing."""
    from lakehouse_assets.storage.arrow_alone import load_arrow_alone

    load_arrow_alone(numpy=False)
    from lakehouse_assets.orchestration.healing.window_state import read_statuses
    from lakehouse_assets.reports.healing_status import status_rows

    settings, now = Settings.from_environment(), datetime.now(UTC)
    specs = [each.spec for each in select_tables(table)]
    with open_instance(settings) as instance:
        statuses = {spec.name: read_statuses(instance, settings, spec, now) for spec in specs}
    show(status_rows(statuses, full=as_json, everything=everything), as_json, "every closed window is in silver and accepted")
