"""`lakehouse check`: the check types, the configured checks, whether they are valid, their results on real data, and proposals.

Belongs here: arguments → call → listing; nothing is written. Does not: evaluating a check (operations), or rules (checks).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lakehouse_assets.cli import common, terminal
from lakehouse_assets.cli.dry_runs import Layer, open_session, try_on_gold, try_on_windows
from lakehouse_assets.cli.frames import check_table
from lakehouse_assets.cli.rehearsal import check_rehearse
from lakehouse_assets.decisions.naming import examples_of
from lakehouse_assets.errors import CheckFailedError, ConfigError, RefusedError
from lakehouse_assets.settings import Settings

check_app = typer.Typer(
    no_args_is_help=True, help="Checks: the available types, those configured, whether they are valid, and dry runs."
)
check_app.command("rehearse")(check_rehearse)
Windows = Annotated[str | None, typer.Option("--window", "--windows", help="A window's key, or A..B (both included).")]


@check_app.command("kinds")
def check_kinds(as_json: terminal.AsJson = False) -> None:
    """List the available check types with their rule and an example. With --json: also parameters and treatment of NULL."""
    from lakehouse_assets.checks.registry import describe_kind, kinds

    rows = [describe_kind(kind) for _, kind in sorted(kinds().items())]
    terminal.show(rows if as_json else [{name: row[name] for name in ("kind", "what", "example")} for row in rows], as_json)


@check_app.command("list")
def check_list(table: common.Tables = None, as_json: terminal.AsJson = False) -> None:
    """List the configured checks: the effect of a failure, parameters, and their file. With --json: all parameters."""
    rows, above = [], common.tables_folder().parent
    for each in common.select_with_guards(*table or ()):
        groups: list[tuple[str, Any, tuple[Any, ...]]] = [(each.spec.name, each.spec.checks, ("checks",))]
        golds = [(gold, each.written_keys(("gold", i, "checks"))) for i, gold in enumerate(each.spec.gold)]
        groups += [(f"gold_{gold.name}", gold.checks, keys) for gold, keys in golds]
        listed = [(name, check, (*keys, i)) for name, checks, keys in groups for i, check in enumerate(checks)]
        for name, check, keys in listed:
            parameters = check.model_dump(mode="json", exclude_defaults=not as_json, exclude={"check", "name", "severity"})
            rows.append(
                {
                    "table": name, "check": check.id, "kind": check.check, "severity": check.severity,
                    "on failure": check.effect, "parameters": parameters if as_json else json.dumps(parameters),
                    "from": each.source_map.at(keys).removeprefix(f"{above}/"),
                }
            )  # fmt: skip
    terminal.show(rows, as_json, "no checks are configured")


@check_app.command("report")
def check_report(table: common.Tables = None, as_json: terminal.AsJson = False) -> None:
    """Report every window's check results to Dagster again, as the log has them, after its history was lost. Starts no JVM."""
    from lakehouse_assets.orchestration.jobs.operation_job import run_job

    specs, rows = [each.spec for each in common.select_tables(*table or ())], []
    with common.open_dagster(Settings.from_environment()) as (definitions, instance):
        for spec in specs:
            with terminal.err.status(f"reporting: {spec.name}"):
                rows.append({"table": spec.name, **run_job(definitions, instance, "report_checks", {"table": spec.name})})
    terminal.show(rows, as_json)


@check_app.command("validate")
def check_validate() -> None:
    """Validate every defs.yaml, its SQL and its tests.yaml, and that its columns exist in the source. Starts no JVM.

    What may be the landed files' fault alone is a note: no file of any window, a column that only the newest window lacks,
    files that match no table's path. Notes, too, are a range of a text column, and a feature that drift does not watch by the
    table's newest verdict in the lake.
    """
    from lakehouse_assets.contracts.schema_file import SCHEMA_FILE, is_current
    from lakehouse_assets.orchestration.assets.project_tables import load_tables
    from lakehouse_assets.orchestration.unwatched_features import unwatched_features
    from lakehouse_assets.orchestration.validate import (
        source_findings,
        text_ranges,
        undeclared_folders,
        unmatched_patterns,
        unused_packs,
    )
    from lakehouse_assets.testing.table_tests import declared_tests

    tables, guards = load_tables(), common.load_all_tables().guards
    unmatched, notes = unmatched_patterns(tables)
    settings = Settings.from_environment()
    lacking, landed = source_findings(tables, settings)
    mistakes, notes = lacking + unused_packs(tables) + unmatched, landed + notes
    try:
        declared_tests(tables)
    except ConfigError as error:
        mistakes += str(error).splitlines()
    if not is_current(common.tables_folder()):
        notes.append(f"{SCHEMA_FILE} is out of date: `lakehouse check schema` writes it again, for editors")
    notes += text_ranges(tables) + undeclared_folders(common.tables_folder()) + unwatched_features((*tables, *guards), settings)
    terminal.show_lines(notes)
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    checks = sum(len(each.spec.checks) for each in (*tables, *guards))
    listed = f"{len(tables)} table(s)" + (f", {len(guards)} guard(s)" if guards else "")
    terminal.out.print(f"{listed}, {checks} checks: valid")


@check_app.command("schema")
def check_schema() -> None:
    """Write table.schema.json beside the tables: editors complete and check every key, with the project's own check types."""
    from lakehouse_assets.contracts.schema_file import write_schema

    terminal.out.print(f"wrote {write_schema(common.tables_folder())}", soft_wrap=True, highlight=False)


@check_app.command("run")
def check_run(
    table: Annotated[str | None, typer.Argument(help="A table, or a gold table as gold_NAME.")] = None,
    check: Annotated[
        str | None, typer.Argument(help="A configured check's name, or one as YAML: '{check: not_null, column: x}'.")
    ] = None,
    window: Windows = None,
    on: Annotated[Layer | None, typer.Option(help="The layer to read; default: bronze. Not for gold.")] = None,
    table_path: Annotated[
        str | None, typer.Option(help="Instead of TABLE and CHECK: a Delta table anywhere, judged by --rules.")
    ] = None,
    rules: Annotated[Path | None, typer.Option(help="With --table-path: a file of rules, or a table's defs.yaml.")] = None,
    log: Annotated[str | None, typer.Option(help="With --table-path: a folder for decisions and profiles.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="With --table-path: what drift compares with, a log's folder or a Delta table.")
    ] = None,
    reference: Annotated[
        list[str] | None, typer.Option(help="With --table-path: NAME=PATH of a table that checks read; repeat for more.")
    ] = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Evaluate one check on real data: nothing is written or changed. Without --window: on the newest window.

    Of a gold table, the published table is read as a whole. Ends with code 8 unless the check passes; with --table-path,
    unless all blocking checks of the rules pass.
    """
    if table_path is not None:
        if table or check or on:
            raise RefusedError("--table-path replaces TABLE, CHECK and --on: leave these out")
        check_table(table_path, rules, window, log, baseline, reference or (), as_json)
        return
    if table is None or check is None or rules or log or baseline or reference:
        raise RefusedError("name TABLE and CHECK; or --table-path with --rules, and with --log, --baseline and --reference")
    if table.startswith("gold_"):
        if window or on:
            raise RefusedError(f"{table}: gold has no windows and no other layer; leave out --window and --on")
        one, result = try_on_gold(table, check)
    else:
        one, result = try_on_windows(table, check, window, on or "bronze", newest_only=window is None)
    trials = result.outcomes if window else result.outcomes[-1:]
    _show_trials(table, one.id, trials, result.samples.get(one.id, []), as_json)


def _show_trials(table: str, check: str, trials: Sequence[Any], failing: Sequence[str], as_json: bool) -> None:
    """Print a check's outcomes and samples. Raises CheckFailedError unless it passes in each."""
    samples = [*failing]
    samples += [f"{trial.of}: {text}" for trial in trials for text in examples_of(trial.outcome.observed)]
    rows = [
        {
            "window": trial.of,
            "rows": trial.rows,
            "check": trial.outcome.check,
            "status": trial.outcome.status,
            "failed rows": trial.outcome.failed_rows,
            "would hold": trial.would_quarantine,
            "why": trial.outcome.message,
            **({"observed": trial.outcome.observed, "samples": samples} if as_json else {}),
        }
        for trial in trials
    ]
    terminal.show(rows, as_json)
    if not as_json:
        for sample in samples:
            terminal.out.print(f"  {sample}")
    bad = [row for row in rows if row["status"] != "passed"]
    if bad:
        where = f"{len(bad)} of {len(rows)} window(s) of {table}" if trials[-1].window else table
        raise CheckFailedError(f"{check}: {bad[-1]['status']} in {where}")


@check_app.command("backtest")
def check_backtest(
    table: str,
    check: Annotated[str, typer.Option("--check", help="A configured check's name, or a new one as YAML.")],
    windows: Windows = None,
    as_json: terminal.AsJson = False,
) -> None:
    """List past windows that a check would have quarantined. Nothing is written. Without --windows: all that are in bronze."""
    if table.startswith("gold_"):
        raise RefusedError(f"{table}: gold has no past windows; `lakehouse check run {table} CHECK` reads what is published")
    one, result = try_on_windows(table, check, windows, "bronze")
    rows = [
        {
            "window": trial.of,
            "rows": trial.rows,
            "status": trial.outcome.status,
            "would hold": trial.would_quarantine,
            "verdict then": trial.current.verdict if trial.current else None,
            "why": trial.outcome.message,
        }
        for trial in result.outcomes
    ]
    listed = rows if as_json else [row for row in rows if row["status"] != "passed"]
    terminal.show(listed, as_json, f"{one.id} passes in all {len(rows)} window(s)")
    if not as_json and listed:
        holds = sum(row["would hold"] != "nothing" for row in rows)
        terminal.out.print(f"{len(rows)} window(s), {len(listed)} not passed, {holds} with rows quarantined")


@check_app.command("suggest")
def check_suggest(
    table: str,
    apply: Annotated[bool, typer.Option("--apply", help="Write them under `checks:` of the table's defs.yaml.")] = False,
    as_json: terminal.AsJson = False,
) -> None:
    """Propose checks as YAML, from the published data, with the number of past windows that each would have flagged. Read them
    before you paste them under `checks:`. Those that flag more than one window in twenty are comments, and are not written.

    Code 5: silver has fewer than 100 rows, or the layout of the YAML leaves no place for them.
    """
    component = common.select_tables(table)[0]
    with open_session(f"reading silver {table}") as values:
        from lakehouse_assets.decisions.proposals import count_together
        from lakehouse_assets.operations.suggest import suggest, try_proposals
        from lakehouse_assets.pipeline.run import Run

        run = Run(spec=component.spec, **values)
        proposals = try_proposals(run, suggest(run))
    if as_json:
        names = ("check", "because", "windows", "flagged", "flags_too_many")
        terminal.show([{name: getattr(p, name) for name in names} for p in proposals], True)
    else:
        terminal.show_lines(f"{'# ' if p.flags_too_many else ''}- {p.yaml}  # {p.reason}" for p in proposals)
        if not proposals:
            terminal.out.print("nothing to add to the configured checks")
        few_flags = [p for p in proposals if not p.flags_too_many]
        flagged, windows = count_together(few_flags)
        if windows:
            terminal.show_lines([f"# the {len(few_flags)} together: at most {flagged} of {windows} past windows flagged"])
    if apply and (chosen := [p.yaml for p in proposals if not p.flags_too_many]):
        terminal.err_lines([f"wrote {len(chosen)} check(s) to {add_to_file(component, chosen)}"])


def add_to_file(component: Any, checks: Sequence[str]) -> Path:
    """Write the checks into the table's file, and return its path."""
    from lakehouse_assets.contracts.added_checks import add_checks
    from lakehouse_assets.storage.atomic_write import write_atomically

    document = component.source_map.document
    if document is None:
        raise RefusedError(f"{component.spec.name}: its YAML is in no file; paste the checks by hand")
    file = document.path.resolve()  # what a link points to
    text = add_checks(document, file.read_bytes().decode("utf-8"), component.source_map.root, checks)
    write_atomically(file, text.encode())
    return file
