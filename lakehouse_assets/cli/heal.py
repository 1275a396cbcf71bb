"""`lakehouse heal`: which windows need a step, and which step is next.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from lakehouse_assets.cli.common import Tables, open_instance, select_tables
from lakehouse_assets.cli.terminal import AsJson, show, show_lines
from lakehouse_assets.settings import Settings

heal_app = typer.Typer(no_args_is_help=True, help="Windows that are missing, late, stale, failing or quarantined.")


@heal_app.command("status")
def heal_status(
    table: Tables = None,
    everything: Annotated[bool, typer.Option("--all", help="Also late windows that are in silver.")] = False,
    as_json: AsJson = False,
) -> None:
    """List windows that are missing, late, stale, failing or quarantined, with the next step and its time; and how far each
    stream is behind. Starts nothing.
    """
    from lakehouse_assets.storage.arrow_alone import load_arrow_alone

    load_arrow_alone(numpy=False)
    from lakehouse_assets.orchestration.healing.window_state import read_statuses
    from lakehouse_assets.reports.healing_status import describe_many, status_rows

    settings, now = Settings.from_environment(), datetime.now(UTC)
    specs = [each.spec for each in select_tables(*table or ())]
    with open_instance(settings) as instance:
        statuses = {spec.name: read_statuses(instance, settings, spec, now) for spec in specs}
        rows = status_rows(statuses, full=as_json, everything=everything)
        rows += stream_rows(instance, settings, specs, now, full=as_json)
    show(rows, as_json, "every closed window is in silver and accepted")
    if not as_json:
        show_lines(describe_many(statuses))


def stream_rows(instance: Any, settings: Settings, specs: Sequence[Any], now: datetime, *, full: bool) -> list[dict[str, Any]]:
    """Return a row for each stream."""
    streams = [spec for spec in specs if spec.extraction.stream is not None]
    if not streams:
        return []
    from lakehouse_assets.orchestration.streams.recorded_report import read_report
    from lakehouse_assets.queries.stream_lag import lag_row, read_lag

    return [lag_row(spec.name, read_lag(settings, spec, now), read_report(instance, spec), full=full) for spec in streams]
