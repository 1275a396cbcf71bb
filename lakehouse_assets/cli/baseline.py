"""`lakehouse baseline`: what is normal to the drift check, and a person's say in it.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

import getpass
from pathlib import Path
from typing import Annotated, Any

import typer

from lakehouse_assets.cli.common import AsJson, dagster_instance, err, out, show, show_one, tables_of
from lakehouse_assets.settings import Settings

baseline_app = typer.Typer(no_args_is_help=True, help="What is normal to the drift check, and a person's say in it.")
Because = Annotated[str, typer.Option("--because", help="Why: kept with what was done.")]
By = Annotated[str | None, typer.Option("--by", help="Who says so (default: the login name).")]


@baseline_app.command("show")
def baseline_show(
    table: str,
    version: Annotated[int | None, typer.Option(min=0, help="As it was after this decision (default: now).")] = None,
    as_json: AsJson = False,
) -> None:
    """What the baseline holds of each feature and stratum, whether it is pinned, and whether it learns. No JVM."""
    from lakehouse_assets.layers.baseline import baseline_at
    from lakehouse_assets.reports.baselines import feature_rows, short_rows

    settings = Settings.from_environment()
    spec = tables_of([table])[0].spec
    found = baseline_at(settings, spec, version)
    baseline = found.book.baseline
    rows = feature_rows(baseline, [entry.measured for entry in found.entries])
    moved = baseline.moved()
    stopped = bool(moved) and moved[0].distance > found.book.spec.max_shift
    events = [{"event": e.kind, "after": e.after, "at": e.at, "by": e.by, "because": e.because} | e.told for e in found.events]
    head: dict[str, Any] = {
        "table": table,
        "version": found.version,
        "windows": len(found.entries),
        "seeded": sum(entry.seeded for entry in found.entries),
        "first": min((entry.window for entry in found.entries), default=None),
        "last": max((entry.window for entry in found.entries), default=None),
        "pinned": baseline.pinned,
        "learning": not stopped,
        "max_shift": found.book.spec.max_shift,
    }
    if as_json:
        show_one({**head, "events": events, "features": rows})
        return
    show([head], False, "")
    for event in events:
        told = f"{event['event']} after decision {event['after']} by {event['by']}: {event['because']}"
        out.print(told, markup=False)
    show(short_rows(rows), False, f"{table}: no window has been learnt yet")


@baseline_app.command("pin")
def baseline_pin(
    table: str,
    because: Because,
    clear: Annotated[bool, typer.Option("--clear", help="Let go of what is pinned.")] = False,
    by: By = None,
) -> None:
    """What the baseline is now becomes what it must stay near; further off than `max_shift`, it stops learning."""
    _act("pin_baseline", "pin", table, because, by, {"clear": clear})


@baseline_app.command("reset")
def baseline_reset(table: str, because: Because, by: By = None) -> None:
    """Forget every window of the baseline, and learn anew. What is pinned stays; earlier decisions can still be replayed."""
    _act("reset_baseline", "reset", table, because, by, {})


@baseline_app.command("seed")
def baseline_seed(
    table: str,
    source: Annotated[str, typer.Option("--from", help="A Delta table: a folder or a URL.")],
    because: Because,
    window_column: Annotated[
        str, typer.Option("--window-column", help="Its timestamp that tells a row's window (default: p_extracted_at).")
    ] = "",
    by: By = None,
) -> None:
    """Learn from an existing Delta table, window by window, as if they had come one after the other."""
    # Dagster's paths are relative to the project's folder, a person's to where they are.
    place = source if "://" in source else str(Path(source).expanduser().resolve())
    _act("seed_baseline", "seed", table, because, by, {"source": place, "window_column": window_column})


def _act(job: str, op: str, table: str, because: str, by: str | None, more: dict[str, Any]) -> None:
    from lakehouse_assets.orchestration.headless import run_job

    settings = Settings.from_environment()
    tables_of([table])
    config = {"table": table, "by": by or getpass.getuser(), "because": because, **more}
    with dagster_instance(settings) as (definitions, instance), err.status(f"{op}: the baseline of {table}"):
        found = run_job(definitions, instance, job, op, config).output_for_node(op)
    show([{"table": table, **found}], False, "")
