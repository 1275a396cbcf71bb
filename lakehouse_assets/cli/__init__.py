"""The `lakehouse` command: parse → call → exit code.

Belongs here: arguments, tables on the terminal, JSON. Does not: anything that another room could do.
"""

import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_args

import typer
from rich.markup import escape

from lakehouse_assets.cli import common, terminal
from lakehouse_assets.cli.audits import audit_command, audit_docs
from lakehouse_assets.cli.backups import backup, restore
from lakehouse_assets.cli.baseline import baseline_app
from lakehouse_assets.cli.checks import check_app
from lakehouse_assets.cli.contract import contract_app
from lakehouse_assets.cli.drift import drift_app
from lakehouse_assets.cli.guards import guard_app
from lakehouse_assets.cli.heal import heal_app
from lakehouse_assets.cli.kept_definitions import WITHIN
from lakehouse_assets.cli.new import new
from lakehouse_assets.cli.offsets import windows_of_offsets
from lakehouse_assets.cli.on_worker import execute_elsewhere
from lakehouse_assets.cli.quality_pages import pages
from lakehouse_assets.cli.quarantine import quarantine_app
from lakehouse_assets.cli.schema import schema_app
from lakehouse_assets.cli.stream import stream
from lakehouse_assets.cli.table_file import new_table_file, write_table_file
from lakehouse_assets.cli.table_tests import run_tests
from lakehouse_assets.cli.termination import INTERRUPTED, end_by_sigterm
from lakehouse_assets.cli.verify import verify
from lakehouse_assets.cli.worker import worker_app
from lakehouse_assets.errors import ConfigError, LakehouseError, RefusedError, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.collector import search_rarely

if TYPE_CHECKING:
    from lakehouse_assets.orchestration.healing.foreground import RunReport

app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, help="A lakehouse that keeps bad data out and mends its gaps."
)
app.add_typer(baseline_app, name="baseline")
app.add_typer(check_app, name="check")
app.add_typer(contract_app, name="contract")
app.add_typer(drift_app, name="drift")
app.add_typer(guard_app, name="guard")
app.add_typer(heal_app, name="heal")
app.add_typer(quarantine_app, name="quarantine")
app.add_typer(schema_app, name="schema")
app.add_typer(worker_app, name="worker")
app.command("audit-silver")(audit_command("silver"))
app.command("audit-gold")(audit_command("gold"))
app.command("audit-guarded")(audit_command("guarded"))
app.command()(audit_docs)
app.command()(backup)
app.command()(new)
app.command()(pages)
app.command()(restore)
app.command()(stream)
app.command("test")(run_tests)
app.command()(verify)


@app.command()
def run(
    table: common.Tables = None,
    window: Annotated[str | None, typer.Option(help="Only these windows: a key, or A..B (both included).")] = None,
    rejudge: Annotated[
        bool, typer.Option("--rejudge", help="Judge these windows of this table again by today's rules; needs --because.")
    ] = False,
    because: Annotated[
        str | None, typer.Option(help="With --rejudge: why; recorded with the decisions.", callback=common.require_reason)
    ] = None,
    by: Annotated[str | None, typer.Option(help="With --rejudge: who decides (default: the login name).")] = None,
    offsets: Annotated[
        str | None, typer.Option(help="With --rejudge, in place of --window: PARTITION@FIRST..LAST of the table's topic.")
    ] = None,
) -> None:
    """Ingest windows that arrived or changed, once, then rewrite gold. With --rejudge: judge windows in bronze again.

    A table with a mistake in its YAML or SQL stops, and the others go on: the command then ends with code 2.
    """
    from lakehouse_assets.orchestration.healing.foreground import ForegroundRun

    settings = Settings.from_environment()
    if offsets is not None:
        if not rejudge or len(table or ()) != 1 or window is not None:
            raise RefusedError("--offsets stands in place of --window, and needs --rejudge and one --table")
        (spec,) = (each.spec for each in common.select_tables(*table or ()))
        window = windows_of_offsets(offsets, settings, spec)
        terminal.err.print(f"{spec.name}: these messages are in the windows {window}")
    if rejudge:
        _judge_again(table or [], window, because, by)
        return
    tables = common.select_tables(*table or ())
    selected = None
    if window is not None:
        start, end = common.window_range(window, [each.spec for each in tables])
        selected = lambda w: start <= w.start < end  # noqa: E731
    with common.open_dagster(settings) as opened, terminal.err.status("starting") as status:
        progress = lambda text: status.update(escape(text))  # noqa: E731
        datasets = common.project_datasets(settings)
        report = ForegroundRun(*opened, settings, tables, selected, progress, datasets).run()
    _print_outcome(report)
    if report.unreachable:
        raise SourceError("\n".join(report.unreachable))
    for warning in report.warnings:
        terminal.err.print(f"warning: {warning}")
    if not report.ranges and not report.gold and not report.skipped and not report.warnings:
        # Of other windows, and of streams, which it does not poll, it knows nothing.
        is_whole = window is None and not any(each.spec.extraction.stream for each in tables)
        terminal.out.print(f"nothing to do{': each window that has arrived is judged' if is_whole else ''}")
    if not table and (mistakes := common.load_all_tables().mistakes):
        raise ConfigError("\n".join(["these tables stop, all others went on:", *mistakes]))


def _print_outcome(report: "RunReport") -> None:
    from lakehouse_assets.contracts.decision import ACCEPTED

    for name, first_key, last_key, count in report.ranges:
        terminal.out.print(f"{name}: {first_key} to {last_key}, {count} window(s) in one run")
    for name in report.gold:
        terminal.out.print(f"{name}: {'rewritten' if ACCEPTED.intersection(report.verdicts[name]) else 'not rewritten'}")
    for name, numbers in report.verdicts.items():
        terminal.out.print(f"{name}: {', '.join(f'{number} {verdict}' for verdict, number in sorted(numbers.items()))}")
    if any(numbers.keys() - {"published"} for numbers in report.verdicts.values()):
        terminal.out.print("why: `lakehouse verdicts`, `lakehouse quarantine list`")


def _judge_again(tables: list[str], window: str | None, because: str | None, by: str | None) -> None:
    if len(tables) != 1 or window is None or because is None:
        raise RefusedError("--rejudge changes decisions: name one --table, --window (a key, or A..B) and --because")
    (table,) = tables
    start, end = common.window_range(window, [common.select_tables(table)[0].spec])
    first, _, last = window.partition("..")
    config = {"table": table, "first": first, "last": last, "by": common.author(by), "because": because}
    common.run_decision("rejudge_windows", config, start, end)


@app.command()
def verdicts(
    table: common.Tables = None,
    verdict: Annotated[str | None, typer.Option(help="Only this verdict, e.g. quarantined.")] = None,
    silver_version: Annotated[
        int | None,
        typer.Option(min=0, help="List all checks of the decisions that this Delta version of silver (or gold) applied."),
    ] = None,
    as_json: terminal.AsJson = False,
) -> None:
    """List each batch's last applied decision with its row counts. With --silver-version: the checks behind a version."""
    from lakehouse_assets.contracts.decision import Verdict
    from lakehouse_assets.reports.decision_rows import verdict_rows

    if verdict not in (None, *(names := (*get_args(Verdict), "superseded"))):
        raise RefusedError(f"--verdict {verdict}: there is no such verdict; there are {', '.join(names)}")
    if silver_version is not None:
        _checked_before(table or [], silver_version, verdict, as_json)
        return
    rows = verdict_rows(common.read_decisions(*table or ()), full=as_json)
    listed = [row for row in rows if verdict in (None, row["verdict"])]
    terminal.show(listed, as_json, "no batch has this verdict" if rows else "nothing has been judged yet; run `lakehouse run`")


def _checked_before(tables: list[str], version: int, verdict: str | None, as_json: bool) -> None:
    from lakehouse_assets.queries.provenance import find_checked_decisions
    from lakehouse_assets.reports.decision_rows import check_details, check_rows

    if len(tables) != 1:
        raise RefusedError("--silver-version is a version of one table: name it with --table")
    (table,) = tables
    common.read_decisions(table)  # refuses an unknown name
    provenance = find_checked_decisions(Settings.from_environment(), table, version)
    if provenance.note:
        terminal.err.print(f"note: {provenance.note}")
    listed = [d for d in provenance.decisions if verdict in (None, d.verdict)]
    rows = check_details(listed) if as_json else check_rows(listed)
    terminal.show(rows, as_json, "no decision of this version has this verdict")


@app.command()
def init(
    table: Annotated[str, typer.Argument(help="The new table's name.")],
    file: Annotated[Path, typer.Option("--from", help="One window's file: its header and first rows are read.")],
    start: Annotated[
        str | None, typer.Option(help="First window, YYYY-MM-DD (default: the window in the file's name).")
    ] = None,
) -> None:
    """Write TABLE/defs.yaml into the project's folder of tables, from a file's header and sample.

    The JSON schema for editors goes into the same folder.
    """
    from lakehouse_assets.contracts.draft import draft_table

    target = new_table_file(table)
    write_table_file(target, *draft_table(table, file, Path(Settings.from_environment().landing), start))


@app.command()
def rebuild(table: str, as_json: terminal.AsJson = False) -> None:
    """Rebuild silver from bronze and the accepted decisions, and report the differences."""
    common.select_tables(table)
    counts: dict[str, Any] = common.run_operation("rebuild_silver", {"table": table})
    terminal.show([{"table": table, **counts}], as_json)
    if not as_json and not counts["gained"] and not counts["lost"]:
        terminal.out.print("silver equals the fold of bronze and the decisions")


def main() -> None:
    """Run the command. An error of ours ends with its exit code and one clear message; SIGTERM with code 143 and one line."""
    is_own = sys.argv[1:2] == ["stream"] or WITHIN in os.environ  # a worker's process ends by SIGTERM
    try:
        with end_by_sigterm(is_own):
            _execute()
    except BaseException as error:
        _end_with(error)


def _execute() -> None:
    search_rarely()
    if (code := execute_elsewhere(sys.argv[1:])) is not None:
        sys.exit(code)
    app(prog_name="lakehouse", standalone_mode=True)  # a worker's process has another name


def _end_with(error: BaseException) -> NoReturn:
    """Print an error and end with its code. Raises it where it is nobody's, or no error."""
    if isinstance(error, LakehouseError):
        _exit_with(error)
    if not isinstance(error, Exception):
        # Dagster has an interrupt of its own for Ctrl-C.
        raise error if isinstance(error, (SystemExit, KeyboardInterrupt)) else SystemExit(INTERRUPTED)
    if (ours := _as_disk_error(error)) is not None:
        _exit_with(ours)
    from lakehouse_assets.measures.error_text import as_evidence_error, masked_text

    if (damage := as_evidence_error(error)) is not None:
        _exit_with(damage)
    if not common.may_be_personal():
        raise error
    # A traceback ends with the texts of the error and its causes: it is shown without them.
    terminal.err.print("".join(traceback.format_tb(error.__traceback__)), end="", highlight=False)
    terminal.err.print(f"error: {masked_text(error)}", style="red", highlight=False)
    sys.exit(1)


def _as_disk_error(error: Exception) -> LakehouseError | None:
    from lakehouse_assets.storage.disk_errors import as_disk_error

    try:
        settings = Settings.from_environment()
    except LakehouseError:
        return None  # no project, or one that cannot be read: there is no lake whose disks could be named
    return as_disk_error(error, settings)


def _exit_with(error: LakehouseError) -> NoReturn:
    terminal.err.print(f"error: {error}", style="red", highlight=False)
    sys.exit(error.exit_code)
