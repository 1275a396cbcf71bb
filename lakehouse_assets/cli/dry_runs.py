"""Checks tried by `lakehouse check run` and `backtest`: the check as it is named or written, and its run on real data.

Belongs here: arguments → check and windows → call. Does not: the commands (checks), or evaluating a check (operations).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

from rich.markup import escape

from lakehouse_assets.cli import common, terminal
from lakehouse_assets.errors import ConfigError, RefusedError
from lakehouse_assets.settings import Settings

Layer = Literal["source", "bronze", "silver"]


def try_on_windows(table: str, check: str, text: str | None, layer: Layer, *, newest_only: bool = False) -> tuple[Any, Any]:
    """Return the check and its result on the closed windows, or on those of ``text``."""
    from lakehouse_assets.storage.table_windows import table_windows

    component = common.select_tables(table)[0]
    spec = component.spec
    one = _find_check(table, component.source_map, spec, check)
    windows = table_windows(Settings.from_environment(), spec, datetime.now(UTC))
    if text is not None:
        start, end = common.window_range(text, [spec])
        windows = [window for window in windows if start <= window.start < end]
    with open_session(f"{one.id}: {table}") as values:
        from lakehouse_assets.operations.dry_run import newest_of, try_checks
        from lakehouse_assets.pipeline.run import Run

        run = Run(spec=spec, **values)
        return one, try_checks(run, [one], newest_of(run, windows, layer) if newest_only else windows, layer)


def try_on_gold(name: str, check: str) -> tuple[Any, Any]:
    """Return the check and its result on the published gold table."""
    from lakehouse_assets.orchestration.jobs.dry_run import find_gold, gold_run

    tables = common.select_tables()
    table, gold = find_gold(tables, name)
    one = _find_check(name, table.source_map, gold, check)
    with open_session(f"{one.id}: {name}") as values:
        from lakehouse_assets.operations.dry_run_gold import try_gold_checks

        run = gold_run(tables, name, **values)
        if missing := one.unknown_columns([*run.query.types, "p_extracted_at"]):
            raise ConfigError(f"--check: {name} has no column {', '.join(missing)}; it has {', '.join(run.query.types)}")
        return one, try_gold_checks(run, [one])


def _find_check(name: str, source_map: Any, spec: Any, text: str) -> Any:
    """Return the configured check of this name; or the one written as YAML, with the project's defaults and variables. Raises
    RefusedError or ConfigError.
    """
    if not text.lstrip().startswith("{"):
        check = next((check for check in spec.checks if check.id == text), None)
        if check is None:
            names = ", ".join(check.id for check in spec.checks) or "none"
            raise RefusedError(f"{name} has no check {text!r}; there are {names} (or write one: '{{check: …}}')")
        return check
    from pydantic import ValidationError

    from lakehouse_assets.contracts.document import read_text
    from lakehouse_assets.contracts.mistakes import join_keys, mistakes_in
    from lakehouse_assets.contracts.sharing import CHECK, SharingError, resolve_attributes
    from lakehouse_assets.operations.dry_run import with_check

    (document,) = read_text(text, "--check") or [None]
    shared = source_map.shared
    try:
        # Only the defaults of checks apply: this is no table.
        shared = replace(shared, defaults=shared.defaults.model_copy(update={"tables": {}}))
        resolved = resolve_attributes({"checks": [document.data if document else None]}, shared)
        check = CHECK.validate_python(resolved.attributes["checks"][0])
        with_check(spec, check)
    except SharingError as error:
        raise ConfigError(f"--check: {error.text}") from None
    except ValidationError as error:
        keys, text = next(mistakes_in(error))
        raise ConfigError(": ".join(filter(None, ("--check", join_keys(keys), text)))) from None
    return check


@contextmanager
def open_session(doing: str) -> Iterator[dict[str, Any]]:
    """Yield the common values of a run that writes nothing, and stop its Spark at the end."""
    from lakehouse_assets.storage.session import build_session

    settings = Settings.from_environment()
    with common.stop_own_spark(), terminal.err.status(escape(doing)):
        yield {"settings": settings, "session": lambda: build_session(settings), "run_id": "trial"}
