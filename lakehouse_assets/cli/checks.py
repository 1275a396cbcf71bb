"""`lakehouse check`: the rules, their kinds, whether they are right, and what they would say.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from lakehouse_assets.cli.common import AsJson, err, out, show, stop_spark, tables_of, window_range
from lakehouse_assets.errors import CheckFailedError, ConfigError, RefusedError
from lakehouse_assets.settings import PROJECT_ROOT, Settings

check_app = typer.Typer(
    no_args_is_help=True, help="The rules: kinds, those declared, whether they are right, what they would say."
)
Windows = Annotated[str | None, typer.Option("--window", "--windows", help="A window's key, or A..B (both included).")]


@check_app.command("kinds")
def check_kinds(as_json: AsJson = False) -> None:
    """Every kind of check, what it promises, and an example. With --json: its parameters, and what it says of NULL, too."""
    from lakehouse_assets.checks.describe import described
    from lakehouse_assets.checks.registry import kinds

    rows = [described(kind) for _, kind in sorted(kinds().items())]
    show(rows if as_json else [{name: row[name] for name in ("kind", "what", "example")} for row in rows], as_json, "")


@check_app.command("list")
def check_list(table: Annotated[str | None, typer.Option(help="Only this table.")] = None, as_json: AsJson = False) -> None:
    """Every declared check: what a failure does, its parameters, and where it is written. With --json: all parameters."""
    rows = []
    for found in tables_of([table] if table else []):
        groups: list[tuple[str, Any, tuple[Any, ...]]] = [(found.spec.name, found.spec.checks, ("checks",))]
        groups += [(f"gold_{g.name}", g.checks, ("gold", place, "checks")) for place, g in enumerate(found.spec.gold)]
        for name, checks, keys in groups:
            for place, check in enumerate(checks):
                parameters = check.model_dump(mode="json", exclude_defaults=not as_json, exclude={"check", "name", "severity"})
                rows.append(
                    {
                        "table": name,
                        "check": check.id,
                        "kind": check.check,
                        "severity": check.severity,
                        "on failure": check.effect,
                        "parameters": parameters if as_json else json.dumps(parameters),
                        "from": found.places.at((*keys, place)).removeprefix(f"{PROJECT_ROOT}/lakehouse_assets/"),
                    }
                )
    show(rows, as_json, "no checks are declared")


@check_app.command("validate")
def check_validate() -> None:
    """Whether every defs.yaml and its SQL is right, and names columns that the source has. No JVM, nothing is run."""
    from lakehouse_assets.orchestration.validate import source_mistakes, unused_packs

    tables = tables_of()
    mistakes = source_mistakes(tables, Settings.from_environment()) + unused_packs(tables)
    for table in tables:
        for gold in table.spec.gold:
            table.query_of(gold, [t.spec for t in tables])
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    out.print(f"{len(tables)} table(s), {sum(len(t.spec.checks) for t in tables)} checks: right", markup=False)


@check_app.command("run")
def check_run(
    table: str,
    check: Annotated[str, typer.Argument(help="A declared check's name, or one as YAML: '{check: not_null, column: x}'.")],
    window: Windows = None,
    on: Annotated[Literal["source", "bronze", "silver"], typer.Option(help="What is looked at.")] = "bronze",
    as_json: AsJson = False,
) -> None:
    """Ask one check of real data, alone: nothing is written, and nothing changes. Without --window: of the newest window.

    Ends with code 8 unless it passes.
    """
    found = tables_of([table])[0]
    one = _check_of(found, check)
    with _trial_run(found.spec, f"{one.id}: {table}") as run:
        from lakehouse_assets.layers.trial import try_checks

        tried = try_checks(run, [one], _windows(found.spec, window, newest=run.settings), on)
    trials = tried.trials if window else tried.trials[-1:]
    rows = []
    for trial in trials:
        o = trial.outcome
        row = {
            "window": trial.window.key,
            "rows": trial.rows,
            "check": o.check,
            "status": o.status,
            "failed rows": o.failed_rows,
        }
        rows.append(row | {"would hold": trial.would_hold, "why": o.message, "observed": o.observed if as_json else None})
    if as_json:
        show([{**row, "samples": tried.samples.get(one.id, [])} for row in rows], True, "")
    else:
        show([{k: v for k, v in row.items() if k != "observed"} for row in rows], False, "")
        for sample in tried.samples.get(one.id, []):
            out.print(f"  {sample}", markup=False)
    bad = [row for row in rows if row["status"] != "passed"]
    if bad:
        raise CheckFailedError(f"{one.id}: {bad[-1]['status']} in {len(bad)} of {len(rows)} window(s) of {table}")


@check_app.command("backtest")
def check_backtest(
    table: str,
    check: Annotated[str, typer.Option("--check", help="A declared check's name, or a new one as YAML.")],
    windows: Windows = None,
    as_json: AsJson = False,
) -> None:
    """Which past windows a check would have held. Nothing is written. Without --windows: all that are in bronze."""
    found = tables_of([table])[0]
    one = _check_of(found, check)
    with _trial_run(found.spec, f"{one.id}: {table}") as run:
        from lakehouse_assets.layers.trial import try_checks

        trials = try_checks(run, [one], _windows(found.spec, windows)).trials
    rows = [
        {
            "window": trial.window.key,
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
    with _trial_run(found.spec, f"looking at silver {table}") as run:
        from lakehouse_assets.layers.suggest import suggest

        proposals = suggest(run)
    if as_json:
        show([{"check": p.check, "because": p.because} for p in proposals], True, "")
        return
    for proposal in proposals:
        flow = yaml.safe_dump(proposal.check, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
        out.print(f"- {flow.strip()}  # {proposal.because}", markup=False, highlight=False, soft_wrap=True)
    if not proposals:
        out.print("nothing to add to what is declared", markup=False)


def _check_of(table: Any, given: str) -> Any:
    """The declared check of this name, or the one that is written here, with the project's defaults and variables. Raises
    RefusedError or ConfigError.
    """
    spec = table.spec
    if not given.lstrip().startswith("{"):
        found = next((check for check in spec.checks if check.id == given), None)
        if found is None:
            names = ", ".join(check.id for check in spec.checks) or "none"
            raise RefusedError(f"{spec.name} has no check {given!r}; there are {names} (or write one: '{{check: …}}')")
        return found
    from pydantic import ValidationError

    from lakehouse_assets.contracts.document import read_text
    from lakehouse_assets.contracts.frozen import reason_of
    from lakehouse_assets.contracts.sharing import CHECK, Shared, Unshared, whole
    from lakehouse_assets.layers.trial import with_check

    (document,) = read_text(given, "--check") or [None]
    shared = table.places.files.values
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


def _windows(spec: Any, text: str | None, newest: Settings | None = None) -> list[Any]:
    """Windows that have ended; those of ``text``; or the one that was extracted last."""
    windows = spec.extraction.windows(datetime.now(UTC))
    first, last = window_range(text, [spec])
    if first and last:
        return [window for window in windows if first <= window.start <= last]
    if newest:
        from lakehouse_assets.storage import logs

        starts = [record.p_extracted_at for record in logs.extractions(newest, spec.name)]
        return [window for window in windows if starts and window.start == max(starts)]
    return windows


@contextmanager
def _trial_run(spec: Any, what: str) -> Iterator[Any]:
    """A run that is on no record: its layers are asked to write nothing."""
    from lakehouse_assets.layers.run import Run
    from lakehouse_assets.storage.session import build_session

    settings = Settings.from_environment()
    try:
        with err.status(what):
            yield Run(settings, spec, lambda: build_session(settings), "trial")
    finally:
        stop_spark()
