"""The `lakehouse` command: parse → call → exit code.

Belongs here: arguments, tables on the terminal, JSON. Does not: anything that another room could do.
"""

import getpass
import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakehouse_assets.errors import ConfigError, LakehouseError, RefusedError, SourceError
from lakehouse_assets.settings import PROJECT_ROOT, Settings

app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, help="A lakehouse that keeps bad data out and mends its gaps."
)
check_app = typer.Typer(no_args_is_help=True, help="The rules: their kinds, those declared, whether the YAML is right.")
quarantine_app = typer.Typer(no_args_is_help=True, help="What is held, and what to do with it.")
app.add_typer(check_app, name="check")
app.add_typer(quarantine_app, name="quarantine")
# Piped into a file or another program, a table is as wide as it needs.
out, err = Console(width=None if sys.stdout.isatty() else 200), Console(stderr=True)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def show(rows: Sequence[dict[str, Any]], as_json: bool, empty: str) -> None:
    """A listing, as a table or as JSON."""
    if as_json:
        print(json.dumps(list(rows), default=_plain, indent=2))  # noqa: T201
        return
    if not rows:
        out.print(empty, markup=False)
        return
    drawn = Table(*rows[0], box=None, header_style="bold", pad_edge=False)
    for row in rows:
        drawn.add_row(*[_cell(value) for value in row.values()])
    out.print(drawn)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _cell(value: Any) -> Text:
    if isinstance(value, datetime):
        return Text(f"{value:%Y-%m-%d}" if value.hour == value.minute == 0 else f"{value:%Y-%m-%d %H:%M}")
    return Text("" if value is None else str(value))


def _tables(names: Iterable[str] = ()) -> list[Any]:
    from lakehouse_assets.orchestration.tables import load_tables

    tables = load_tables()
    known = {table.spec.name: table for table in tables}
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise RefusedError(f"there is no table {name!r}; there are {', '.join(known) or 'none yet'}")
    return [known[name] for name in wanted] if wanted else tables


def _decisions(table: str | None) -> list[Any]:
    """From the log alone, so that a listing is quick; only a table without any is looked up."""
    from lakehouse_assets.storage import logs

    found = logs.decisions(Settings.from_environment(), table, evidence=False)
    if table and not found:
        golds = {f"gold_{gold.name}" for known in _tables() for gold in known.spec.gold}
        if table not in golds:
            _tables([table])
    return found


@contextmanager
def _dagster(settings: Settings):
    """The definitions and the instance of DAGSTER_HOME. Dagster's paths are relative to the project's folder."""
    import logging

    os.environ["DAGSTER_HOME"] = str(settings.dagster_home)
    os.chdir(PROJECT_ROOT)
    logging.getLogger("dagster").setLevel(logging.WARNING)
    import dagster as dg

    from lakehouse_assets.definitions import build_definitions

    try:
        with dg.DagsterInstance.get() as instance:
            yield build_definitions(settings), instance
    finally:
        _stop_spark()


def _stop_spark() -> None:
    """End the JVM in order, if this process started one."""
    if "pyspark" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()


@app.command()
def run(
    table: Annotated[str | None, typer.Option(help="Only this table.")] = None,
    window: Annotated[str | None, typer.Option(help="Only these windows: a key, or A..B (both included).")] = None,
) -> None:
    """Bring in what has arrived or changed, once, with gold after it."""
    from lakehouse_assets.orchestration.headless import run_once

    settings = Settings.from_environment()
    tables = _tables([table] if table else [])
    first, last = _range(window, [found.spec for found in tables])
    with _dagster(settings) as (definitions, instance), err.status("starting") as status:
        report = run_once(
            definitions,
            instance,
            settings,
            tables,
            lambda w: first is None or last is None or first <= w.start <= last,
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
    if not report.ranges and not report.gold:
        out.print("nothing is missing, late or changed", markup=False)


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
    rows = verdict_rows(_decisions(table), full=as_json)
    chosen = [row for row in rows if verdict in (None, row["verdict"])]
    show(chosen, as_json, "no batch has this verdict" if rows else "nothing has been judged yet; `lakehouse run`")


def _checked_before(table: str | None, version: int, verdict: str | None, as_json: bool) -> None:
    from lakehouse_assets.layers.provenance import checked_before
    from lakehouse_assets.reports.listings import checked_full, checked_rows

    if table is None:
        raise RefusedError("--silver-version counts one table's versions: name it with --table")
    _decisions(table)
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
    _tables([table])
    with _dagster(settings) as (definitions, instance), err.status(f"rebuilding silver {table}"):
        found = run_job(definitions, instance, "rebuild_silver", "rebuild", {"table": table}).output_for_node("rebuild")
    show([{"table": table, **found}], as_json, "")
    if not as_json and not found["gained"] and not found["lost"]:
        out.print("silver equals the fold of bronze and the decisions", markup=False)


@check_app.command("kinds")
def check_kinds(as_json: AsJson = False) -> None:
    """Every kind of check, what it promises, and an example."""
    from lakehouse_assets.checks.registry import kinds

    rows = [{"kind": n, "what": k.summary, "example": " ".join(k.example.split())} for n, k in sorted(kinds().items())]
    show(rows, as_json, "")


@check_app.command("list")
def check_list(table: Annotated[str | None, typer.Option(help="Only this table.")] = None, as_json: AsJson = False) -> None:
    """Every declared check, with what a failure does."""
    rows = []
    for found in _tables([table] if table else []):
        groups = [(found.spec.name, found.spec.checks), *((f"gold_{g.name}", g.checks) for g in found.spec.gold)]
        for name, checks in groups:
            for check in checks:
                parameters = check.model_dump(mode="json", exclude_defaults=True, exclude={"check", "name", "severity"})
                rows.append(
                    {
                        "table": name,
                        "check": check.id,
                        "kind": check.check,
                        "severity": check.severity,
                        "on failure": check.effect,
                        "parameters": parameters if as_json else json.dumps(parameters),
                    }
                )
    show(rows, as_json, "no checks are declared")


@check_app.command("validate")
def check_validate() -> None:
    """Whether every defs.yaml and its SQL is right, and names columns that the source has. No JVM, nothing is run."""
    from lakehouse_assets.orchestration.validate import source_mistakes

    tables = _tables()
    mistakes = source_mistakes(tables, Settings.from_environment())
    for table in tables:
        for gold in table.spec.gold:
            table.query_of(gold, [t.spec for t in tables])
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    out.print(f"{len(tables)} table(s), {sum(len(t.spec.checks) for t in tables)} checks: right", markup=False)


@quarantine_app.command("list")
def quarantine_list(
    table: Annotated[str | None, typer.Option(help="Only this table.")] = None, as_json: AsJson = False
) -> None:
    """Batches with rows in quarantine."""
    from lakehouse_assets.reports.listings import held_rows

    rows = held_rows(_decisions(table))
    show(rows, as_json, "nothing is in quarantine")


@quarantine_app.command("show")
def quarantine_show(
    table: str,
    window: Annotated[str, typer.Option(help="The window's key.")],
    limit: Annotated[int, typer.Option(help="At most so many rows.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Rows that are held of a window, each with its reasons. Columns marked pii are masked."""
    from lakehouse_assets.layers.held import held_sample

    found = _tables([table])[0]
    rows = held_sample(Settings.from_environment(), found.spec, _start(found.spec, window), limit)
    show(rows, as_json, f"none of {table} {window} is in quarantine")


def _range(text: str | None, specs: Sequence[Any]) -> tuple[datetime | None, datetime | None]:
    """Starts of the first and the last window of ``A`` or ``A..B``, which must be keys of one of the tables."""
    if text is None:
        return None, None
    first, dots, last = text.partition("..")
    for spec in specs:
        try:
            starts = [spec.extraction.window(key).start for key in (first, last if dots else first)]
        except ValueError:
            continue
        if starts[0] > starts[1]:
            raise RefusedError(f"--window {text}: the first window is after the last")
        return starts[0], starts[1]
    keys = ", ".join(dict.fromkeys(spec.extraction.first.key for spec in specs))
    raise RefusedError(f"--window {text}: give a window's key, or two as A..B; keys look like {keys}")


def _start(spec: Any, key: str) -> datetime:
    try:
        return spec.extraction.window(key).start
    except ValueError:
        raise RefusedError(f"{spec.name}: {key!r} is no window's key; keys look like {spec.extraction.first.key}") from None


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
    by: By = None,
    seq: Seq = 0,
) -> None:
    """Judge a held window again by today's rules, or override checks by name."""
    _act("release_quarantine", "release", table, window, because, by, seq, {"override": override or []})


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
    spec = _tables([table])[0].spec
    start = _start(spec, window)
    config = {
        "table": table,
        "window": window,
        "extraction_seq": seq,
        "by": by or getpass.getuser(),
        "because": because,
        **more,
    }
    with _dagster(settings) as (definitions, instance), err.status(f"{op}: {table} {window}") as status:
        run_job(definitions, instance, job, op, config)
        # Gold follows at once: nobody need wait for the daemon.
        run_once(definitions, instance, settings, _tables(), lambda _: False, status.update)
    decisions = [d for d in logs.decisions(settings, table, evidence=False) if d.p_extracted_at == start]
    show(verdict_rows(decisions, full=False), False, "")


def main() -> None:
    """Run the command; an error of ours ends with its exit code and one clear message."""
    try:
        app(standalone_mode=True)
    except LakehouseError as error:
        err.print(f"error: {error}", style="red", markup=False, highlight=False)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
