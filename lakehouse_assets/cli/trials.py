"""`lakehouse check run|backtest|suggest`: what checks say of real data, and what it would bear. Nothing is written.

Belongs here: arguments → call → listing. Does not: how a check is tried (layers), or the rules themselves (checks).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from lakehouse_assets.cli.checks import check_app
from lakehouse_assets.cli.common import AsJson, err, out, own_spark, show, tables_of, window_range
from lakehouse_assets.decisions.naming import examples_of
from lakehouse_assets.errors import CheckFailedError, ConfigError, RefusedError
from lakehouse_assets.settings import Settings

Windows = Annotated[str | None, typer.Option("--window", "--windows", help="A window's key, or A..B (both included).")]
Place = Literal["source", "bronze", "silver"]


@check_app.command("run")
def check_run(
    table: Annotated[str, typer.Argument(help="A table, or a gold table as gold_NAME.")],
    check: Annotated[str, typer.Argument(help="A declared check's name, or one as YAML: '{check: not_null, column: x}'.")],
    window: Windows = None,
    on: Annotated[Place | None, typer.Option(help="What is looked at; without it, bronze. Not of gold.")] = None,
    as_json: AsJson = False,
) -> None:
    """Ask one check of real data, alone: nothing is written, and nothing changes. Without --window: of the newest.

    Of a gold table, what is published is asked, as a whole. Ends with code 8 unless the check passes.
    """
    if table.startswith("gold_"):
        if window or on:
            raise RefusedError(f"{table}: gold has no windows and no other place; leave out --window and --on")
        one, tried = _of_gold(table, check)
    else:
        one, tried = _of_windows(table, check, window, on or "bronze")
    trials = tried.trials if window else tried.trials[-1:]
    samples = tried.samples.get(one.id, [])
    rows = []
    for trial in trials:
        o = trial.outcome
        row = {
            "window": trial.of,
            "rows": trial.rows,
            "check": o.check,
            "status": o.status,
            "failed rows": o.failed_rows,
        }
        samples = [*samples, *(f"{trial.of}: {text}" for text in examples_of(o.observed))]
        rows.append(row | {"would hold": trial.would_hold, "why": o.message, "observed": o.observed if as_json else None})
    if as_json:
        show([{**row, "samples": samples} for row in rows], True, "")
    else:
        show([{k: v for k, v in row.items() if k != "observed"} for row in rows], False, "")
        for sample in samples:
            out.print(f"  {sample}", markup=False)
    bad = [row for row in rows if row["status"] != "passed"]
    if bad:
        where = f"{len(bad)} of {len(rows)} window(s) of {table}" if trials[-1].window else table
        raise CheckFailedError(f"{one.id}: {bad[-1]['status']} in {where}")


def _of_windows(table: str, check: str, window: str | None, on: Place) -> tuple[Any, Any]:
    found = tables_of([table])[0]
    one = _check_of(table, found.places, found.spec, check)
    with _trial(f"{one.id}: {table}") as (settings, session):
        from lakehouse_assets.layers.run import Run
        from lakehouse_assets.layers.trial import newest_of, try_checks

        run, windows = Run(settings, found.spec, session, "trial"), _windows(found.spec, window)
        return one, try_checks(run, [one], windows if window else newest_of(run, windows, on), on)


def _of_gold(name: str, check: str) -> tuple[Any, Any]:
    from lakehouse_assets.orchestration.trials import gold_named, gold_run

    tables = tables_of()
    found, gold = gold_named(tables, name)
    one = _check_of(name, found.places, gold, check)
    with _trial(f"{one.id}: {name}") as (settings, session):
        from lakehouse_assets.layers.gold_trial import try_gold_checks

        run = gold_run(tables, name, settings, session, "trial")
        if missing := one.unknown_columns([*run.query.types, "p_extracted_at"]):
            raise ConfigError(f"--check: {name} has no column {', '.join(missing)}; it has {', '.join(run.query.types)}")
        return one, try_gold_checks(run, [one])


@check_app.command("backtest")
def check_backtest(
    table: str,
    check: Annotated[str, typer.Option("--check", help="A declared check's name, or a new one as YAML.")],
    windows: Windows = None,
    as_json: AsJson = False,
) -> None:
    """Which past windows a check would have held. Nothing is written. Without --windows: all that are in bronze."""
    if table.startswith("gold_"):
        raise RefusedError(f"{table}: gold has no past windows; `lakehouse check run {table} CHECK` asks what is published")
    found = tables_of([table])[0]
    one = _check_of(table, found.places, found.spec, check)
    with _trial(f"{one.id}: {table}") as (settings, session):
        from lakehouse_assets.layers.run import Run
        from lakehouse_assets.layers.trial import try_checks

        trials = try_checks(Run(settings, found.spec, session, "trial"), [one], _windows(found.spec, windows)).trials
    rows = [
        {
            "window": trial.of,
            "rows": trial.rows,
            "status": trial.outcome.status,
            "would hold": trial.would_hold,
            "verdict then": trial.stands.verdict if trial.stands else None,
            "why": trial.outcome.message,
        }
        for trial in trials
    ]
    told = rows if as_json else [row for row in rows if row["status"] != "passed"]
    show(told, as_json, f"{one.id} passes in all {len(rows)} window(s)")
    if not as_json and told:
        holds = sum(row["would hold"] != "nothing" for row in rows)
        out.print(f"{len(rows)} window(s), {len(told)} not passed, {holds} with something held", markup=False)


@check_app.command("suggest")
def check_suggest(table: str, as_json: AsJson = False) -> None:
    """Propose checks as YAML, from what is published. Read them before you paste them under `checks:`."""
    import yaml

    found = tables_of([table])[0]
    with _trial(f"looking at silver {table}") as (settings, session):
        from lakehouse_assets.layers.run import Run
        from lakehouse_assets.layers.suggest import suggest

        proposals = suggest(Run(settings, found.spec, session, "trial"))
    if as_json:
        show([{"check": p.check, "because": p.because} for p in proposals], True, "")
        return
    for proposal in proposals:
        flow = yaml.safe_dump(proposal.check, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
        out.print(f"- {flow.strip()}  # {proposal.because}", markup=False, highlight=False, soft_wrap=True)
    if not proposals:
        out.print("nothing to add to what is declared", markup=False)


def _check_of(name: str, places: Any, spec: Any, given: str) -> Any:
    """The check of this name that the table, or its gold table, declares; or the one that is written here, with the project's
    defaults and variables. Raises RefusedError or ConfigError.
    """
    if not given.lstrip().startswith("{"):
        found = next((check for check in spec.checks if check.id == given), None)
        if found is None:
            names = ", ".join(check.id for check in spec.checks) or "none"
            raise RefusedError(f"{name} has no check {given!r}; there are {names} (or write one: '{{check: …}}')")
        return found
    from pydantic import ValidationError

    from lakehouse_assets.contracts.document import read_text
    from lakehouse_assets.contracts.mistakes import reason_of
    from lakehouse_assets.contracts.sharing import CHECK, Shared, Unshared, whole
    from lakehouse_assets.layers.trial import with_check

    (document,) = read_text(given, "--check") or [None]
    shared = places.files.values
    try:
        # Of the defaults only those of checks: it is no table.
        general = shared.defaults.model_copy(update={"tables": {}})
        written = whole({"checks": [document.data if document else None]}, Shared(general, shared.packs, shared.variables))
        one = CHECK.validate_python(written.attributes["checks"][0])
        with_check(spec, one)
    except Unshared as error:
        raise ConfigError(f"--check: {error.text}") from None
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in mistake["loc"])
        raise ConfigError(f"--check: {key}: {reason_of(mistake)}") from None
    return one


def _windows(spec: Any, text: str | None) -> list[Any]:
    """Windows that have ended; or those of ``text``."""
    first, end = window_range(text, [spec])
    windows = spec.extraction.windows(datetime.now(UTC))
    return [window for window in windows if first <= window.start < end] if first and end else windows


@contextmanager
def _trial(what: str) -> Iterator[tuple[Settings, Any]]:
    """The settings, and what starts Spark, for something that is on no record: it is asked to write nothing."""
    from lakehouse_assets.storage.session import build_session

    settings = Settings.from_environment()
    with own_spark(), err.status(what):
        yield settings, lambda: build_session(settings)
