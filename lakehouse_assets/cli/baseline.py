"""`lakehouse baseline`: what is normal to the drift check; show, pin, reset and seed it.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from lakehouse_assets.cli.common import Because, By, author, load_all_tables, run_operation, select_tables, select_with_guards
from lakehouse_assets.cli.terminal import AsJson, out, show, show_json
from lakehouse_assets.contracts.windows import Cadence
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.settings import Settings

# The same requests on a guard, whose baseline has no asset of its own.
OF_GUARDS = {f"{request}_baseline": f"{request}_guard_baseline" for request in ("pin", "reset", "seed")}
baseline_app = typer.Typer(no_args_is_help=True, help="What is normal to the drift check: show, pin, reset and seed it.")


@baseline_app.command("show")
def baseline_show(
    table: str,
    version: Annotated[int | None, typer.Option(min=0, help="Show it as it was after this decision (default: now).")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the baseline's features and strata, whether it is pinned, and whether it learns. No JVM."""
    from lakehouse_assets.decisions.drift.watching import find_next_watches
    from lakehouse_assets.operations.baseline import read_baseline_version
    from lakehouse_assets.reports.baselines import feature_rows, short_rows

    settings = Settings.from_environment()
    current = read_baseline_version(settings, select_with_guards(table)[0].spec, version)
    baseline = current.state.baseline
    newest = max(current.state.history.windows, default=None)
    # Of a stream: by the levels that its next window will have.
    spec = current.state.spec if newest is None else current.state.spec_at(newest)
    watches = find_next_watches(current.state.history, spec)
    rows = feature_rows(baseline, [entry.measured for entry in current.entries], watches)
    shifts = baseline.shifts()
    has_stopped = bool(shifts) and shifts[0].distance > current.state.spec.max_shift
    events = [
        {"event": e.kind, "after": e.after, "at": e.at, "by": e.by, "because": e.because} | e.details for e in current.events
    ]
    head: dict[str, Any] = {
        "table": table,
        "version": current.version,
        "windows": len(current.entries),
        "seeded": sum(entry.seeded for entry in current.entries),
        "first": min((entry.window for entry in current.entries), default=None),
        "last": max((entry.window for entry in current.entries), default=None),
        "waiting": len(current.state.waiting),
        "slices": current.state.history.count_slices(),
        "pinned": baseline.pinned,
        "learning": not has_stopped,
        "max_shift": current.state.spec.max_shift,
    }
    if as_json:
        show_json({**head, "events": events, "features": rows})
        return
    show([head])
    for event in events:
        out.print(f"{event['event']} after decision {event['after']} by {event['by']}: {event['because']}")
    show(short_rows(rows), False, f"{table}: the baseline has no window yet")


@baseline_app.command("pin")
def baseline_pin(
    table: str,
    because: Because,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the pin.")] = False,
    by: By = None,
) -> None:
    """Make today's baseline the reference: further from it than `max_shift`, the baseline stops learning."""
    _run("pin_baseline", table, because, by, clear=clear)


@baseline_app.command("reset")
def baseline_reset(table: str, because: Because, by: By = None) -> None:
    """Forget every window of the baseline, and learn anew. A pinned baseline stays; earlier decisions can still be replayed."""
    _run("reset_baseline", table, because, by)


@baseline_app.command("seed")
def baseline_seed(
    table: str,
    source: Annotated[str, typer.Option("--from", help="A Delta table: a folder or a URL.")],
    because: Because,
    window_column: Annotated[
        str,
        typer.Option(
            "--window-column",
            help="The timestamp or date of a row's window (default: p_extracted_at, or a guard's own column).",
        ),
    ] = "",
    cadence: Annotated[
        Cadence | None, typer.Option(help="For a guard of versions: the length of what is like one appended version.")
    ] = None,
    by: By = None,
) -> None:
    """Learn from an existing Delta table, window by window, oldest first."""
    # Dagster's paths are relative to the project's folder, a person's to the current one.
    path = source if "://" in source else str(Path(source).expanduser().resolve())
    options = {"source": path, "window_column": window_column} | ({"cadence": cadence} if cadence else {})
    _run("seed_baseline", table, because, by, **options)


def _run(job: str, table: str, because: str, by: str | None, **options: Any) -> None:
    if table in {guard.spec.name for guard in load_all_tables().guards}:
        job = OF_GUARDS[job]
    else:
        select_tables(table)
        if "cadence" in options:
            raise RefusedError(f"{table} has windows of its own; leave out --cadence")
    config = {"table": table, "by": author(by), "because": because, **options}
    show([{"table": table, **run_operation(job, config)}])
