"""`lakehouse check run --table-path`: a Delta table anywhere, judged by a file of rules, without a project or a lake.

Belongs here: arguments → call → listing. Does not: judging (frames).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from lakehouse_assets.cli import common, terminal
from lakehouse_assets.errors import CheckFailedError, LakehouseError, RefusedError
from lakehouse_assets.object_store import is_url
from lakehouse_assets.settings import Settings


def check_table(
    path: str,
    rules: Path | None,
    window: str | None,
    log: str | None,
    baseline: str | None,
    references: Sequence[str],
    as_json: bool,
) -> None:
    """Judge a whole table by a file of rules, and list every check. Raises CheckFailedError unless the blocking ones pass."""
    if rules is None:
        raise RefusedError("--table-path needs --rules, a file with the checks")
    from lakehouse_assets.frames.gate import Gate

    settings = _read_settings()
    gate = Gate.from_yaml(rules, variables=settings.variables)
    from lakehouse_assets.storage.session import build_session

    with common.stop_own_spark(), terminal.err.status(escape(f"{gate.rules.name}: {path}")):
        spark = build_session(settings)
        tables = {name: _read_table(spark, location) for name, location in map(_name_and_path, references)}
        with gate.check(_read_table(spark, path), window, log=log, baseline=baseline, tables=tables) as result:
            pass
    counts = result.counts
    rows = [
        {
            "check": outcome.check,
            "severity": outcome.severity,
            "status": outcome.status,
            "failed rows": outcome.failed_rows,
            "effect": outcome.effect,
            "why": outcome.message,
        }
        for outcome in result.outcomes
    ]
    if as_json:
        samples = {name: list(values) for name, values in result.samples.items()}
        more = {"left_out": dict(result.left_out), "samples": samples, "drift": result.drift}
        terminal.show_json({"table": path, "verdict": result.verdict, **vars(counts), "checks": rows, **more})
    else:
        terminal.show(rows, False, "the rules have no check")
        for check, why in result.left_out.items():
            terminal.err.print(f"note: {check} is left out: {why}")
        for check, values in result.samples.items():
            terminal.show_lines(f"  {check}: {value}" for value in values)
        terminal.out.print(str(result), highlight=False, soft_wrap=True)
    if bad := [reason for reason in result.reasons if reason.effect in ("rows", "batch")]:
        raise CheckFailedError(f"{path}: {bad[0].check}: {bad[0].message}")


def _read_settings() -> Settings:
    """Return the project's settings; without a project, those of a session alone: no table of a lake is needed."""
    try:
        return Settings.from_environment()
    except LakehouseError:
        here = Path.cwd()
        return Settings(root=str(here), landing=str(here), dagster_home=here)


def _name_and_path(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not name or not path:
        raise RefusedError(f"--reference {text}: write NAME=PATH, the table's name in the rules and its Delta table")
    return name, path


def _read_table(spark: Any, path: str) -> Any:
    from lakehouse_assets.frames.destination import Destination

    table = Destination.of(spark, path if is_url(path) else Path(path))
    if table.detail() is None:
        raise RefusedError(f"there is no Delta table at {path}")
    return table.read()
