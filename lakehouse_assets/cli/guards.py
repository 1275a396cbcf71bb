"""`lakehouse guard`: judge, list and settle the versions of tables that others write.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

from typing import Annotated, Any

import typer

from lakehouse_assets.cli import common, terminal
from lakehouse_assets.errors import CheckFailedError, ConfigError, LakehouseError, RefusedError
from lakehouse_assets.settings import Settings

guard_app = typer.Typer(no_args_is_help=True, help="Guards of tables that others write: judge, list and settle versions.")
Version = Annotated[int | None, typer.Option("--version", min=0, help="The version of the Delta table.")]
Window = Annotated[str | None, typer.Option("--window", help="Instead, the start of a window, of a guard with `windows`.")]
Guard = Annotated[str, typer.Argument(help="The guard's name.")]


@guard_app.command("run")
def guard_run(
    name: Annotated[str | None, typer.Argument(help="Only this guard (default: all).")] = None,
    check: Annotated[
        str | None,
        typer.Option("--check", help="Only try this check on the table as it is; nothing is recorded."),
    ] = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Judge the versions that nobody has judged. Ends with code 8 while a version is in quarantine, 4 without a table."""
    if check is not None:
        _try_check(name, check, as_json)
        return
    from lakehouse_assets.decisions.guard_decision import batch_name
    from lakehouse_assets.guards.observed_table import GuardState
    from lakehouse_assets.reports.decision_rows import verdict_rows

    settings, specs = Settings.from_environment(), _select(name)
    before = {spec.name: len(GuardState.read(settings, spec).decisions) for spec in specs}
    failures = _run_jobs(settings, specs)
    states = {spec.name: GuardState.read(settings, spec) for spec in specs}
    new = [d for spec in specs for d in states[spec.name].decisions[before[spec.name] :] if d.superseded_by is None]
    terminal.show([_with_version(row, new) for row in verdict_rows(new, full=as_json)], as_json, "no new version")
    for failed, error in failures:
        terminal.err_lines([f"error: {failed}: {error}"])
    if failures:
        raise failures[0][1]
    by_name = {spec.name: spec for spec in specs}
    quarantined = [f"{each} {batch_name(by_name[each], d)}" for each, state in states.items() for d in state.quarantined]
    if quarantined:
        raise CheckFailedError(f"in quarantine: {', '.join(quarantined[:20])}; `lakehouse guard show` says why")


def _run_jobs(settings: Settings, specs: list[Any]) -> list[tuple[str, LakehouseError]]:
    """Run each guard's job; one that fails stops no other. Returns the failures."""
    from lakehouse_assets.orchestration.jobs.guard_jobs import run_guard

    failures: list[tuple[str, LakehouseError]] = []
    with common.open_dagster(settings) as (definitions, instance):
        for spec in specs:
            with terminal.err.status(f"judging {spec.name}"):
                try:
                    run_guard(definitions, instance, spec)
                except LakehouseError as error:
                    failures.append((spec.name, error))
    return failures


@guard_app.command("status")
def guard_status(as_json: terminal.AsJson = False) -> None:
    """List the guards: the last version judged, the newest one, and how many are in quarantine. Starts no JVM."""
    from lakehouse_assets.guards.catalog import located_by_log
    from lakehouse_assets.guards.observed_table import GuardState, foreign_table

    settings, rows = Settings.from_environment(), []
    for spec in _select(None):
        state, newest, problem = GuardState.read(settings, spec), "", ""
        try:
            if at_path := located_by_log(spec, state):
                newest = str(foreign_table(at_path, settings).log().newest)
            elif spec.is_of_catalog:
                problem = f"the newest version of {spec.table} is known to its catalog alone, which runs and the sensor ask"
            else:
                problem = f"no run has asked the catalog yet where {spec.table} lies"
        except LakehouseError as error:
            problem = str(error)
        last = state.last
        rows.append(
            {
                "guard": spec.name, "judged": last.version if last else None, "newest": newest,
                "quarantined": len(state.quarantined), "problem": problem,
            }
        )  # fmt: skip
    terminal.show(rows, as_json, "no guard is configured")


@guard_app.command("show")
def guard_show(
    name: Guard,
    version: Version = None,
    window: Window = None,
    rows: Annotated[bool, typer.Option("--rows", help="Its quarantined rows instead, of a guard that publishes.")] = False,
    limit: Annotated[int, typer.Option(help="The largest number of rows to show.")] = 20,
    as_json: terminal.AsJson = False,
) -> None:
    """Show every check of a version: which rows were judged, what failed, in how many rows. Starts no JVM."""
    from lakehouse_assets.guards.settlement import chosen_batch, current_decision
    from lakehouse_assets.queries.quarantine import decision_sample
    from lakehouse_assets.reports.decision_rows import check_details, check_rows
    from lakehouse_assets.storage import logs

    settings, (spec,) = Settings.from_environment(), _select(name)
    decisions = [d for d in logs.decisions(settings, spec.name, checks=True) if d.superseded_by is None]
    last = current_decision(spec, decisions, chosen_batch(spec, version, window))
    if rows and spec.publish is None:
        raise RefusedError(f"{name} has no `publish`: its quarantined rows are in the table itself, and nowhere else")
    if rows:
        sample = decision_sample(settings, last, spec.pii_columns, spec.columns, limit)
        terminal.show(sample, as_json, f"no row of {name} {window or f'version {version}'} is in quarantine")
        return
    terminal.show(check_details([last]) if as_json else check_rows([last]), as_json)


@guard_app.command("release")
def guard_release(
    name: Guard,
    because: common.Because,
    override: Annotated[list[str], typer.Option(help="A check that no longer quarantines this version; repeat; '*' for all.")],
    version: Version = None,
    window: Window = None,
    by: common.By = None,
) -> None:
    """Accept a quarantined version, overriding checks by name. Uses its recorded results; `publish` reads its rows again."""
    _settle("release_guarded_version", name, version, window, because, by, override=override)


@guard_app.command("discard")
def guard_discard(
    name: Guard, because: common.Because, version: Version = None, window: Window = None, by: common.By = None
) -> None:
    """Close a quarantined version without accepting it: its rows are of no use, or are gone from the table."""
    _settle("discard_guarded_version", name, version, window, because, by)


def _settle(job: str, name: str, version: int | None, window: str | None, because: str, by: str | None, **options: Any) -> None:
    from lakehouse_assets.guards.settlement import chosen_batch, current_decision
    from lakehouse_assets.reports.decision_rows import verdict_rows
    from lakehouse_assets.storage import logs

    (spec,) = _select(name)
    chosen = chosen_batch(spec, version, window)
    of_batch = {name: value for name, value in (("version", version), ("window", window)) if value is not None}
    common.run_operation(job, {"table": spec.name, **of_batch, "by": common.author(by), "because": because, **options})
    decided = [current_decision(spec, logs.decisions(Settings.from_environment(), spec.name), chosen)]
    terminal.show([_with_version(row, decided) for row in verdict_rows(decided, full=False)])


def _try_check(name: str | None, check: str, as_json: bool) -> None:
    from lakehouse_assets.guards.trial import try_check
    from lakehouse_assets.orchestration.step_boundary import mask_errors
    from lakehouse_assets.storage.session import build_session

    if name is None:
        raise RefusedError("--check tries one check of one table: name the guard")
    settings, (spec,) = Settings.from_environment(), _select(name)
    with mask_errors(bool(spec.pii_columns)), common.stop_own_spark():
        outcome = try_check(spec, settings, build_session(settings), check)
    row = {"guard": spec.name, "check": outcome.check, "status": outcome.status, "failed": outcome.failed_rows}
    terminal.show([{**row, "why": outcome.message}], as_json)
    if outcome.status in ("failed", "error"):
        raise CheckFailedError(f"{spec.name}: {check}: {outcome.status}")


def _with_version(row: dict[str, Any], decisions: list[Any]) -> dict[str, Any]:
    """Return a listing's row with the Delta version in front of its window."""
    window = row.get("window") or row.get("p_extracted_at")
    number = next((d.bronze_version for d in decisions if d.p_extracted_at == window), None)
    return {"version": number, **row}


def _select(name: str | None) -> list[Any]:
    """Return the guard of this name, or all. Raises RefusedError for an unknown name, ConfigError for one that stops."""
    loaded = common.load_all_tables()
    specs = {guard.spec.name: guard.spec for guard in loaded.guards}
    if name is None:
        terminal.err_lines(f"warning: {line}" for line in loaded.mistakes)
        return list(specs.values())
    for broken in loaded.broken:
        if broken.name == name:
            raise ConfigError("\n".join(broken.mistakes))
    if name not in specs:
        raise RefusedError(f"there is no guard {name!r}; there are {', '.join(specs) or 'none yet'}")
    return [specs[name]]
