"""What the commands share: listings as tables or JSON, the tables and their windows, the instance.

Belongs here: arguments → values, values → the terminal. Does not: any command.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakehouse_assets.errors import RefusedError
from lakehouse_assets.settings import PROJECT_ROOT, Settings

# Piped into a file or another program, a table is as wide as it needs.
out, err = Console(width=None if sys.stdout.isatty() else 100_000), Console(stderr=True)
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


def show_one(value: dict[str, Any]) -> None:
    """One thing, as JSON."""
    print(json.dumps(value, default=_plain, indent=2))  # noqa: T201


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _cell(value: Any) -> Text:
    if isinstance(value, datetime):
        return Text(f"{value:%Y-%m-%d}" if value.hour == value.minute == 0 else f"{value:%Y-%m-%d %H:%M}")
    return Text("" if value is None else str(value))


def tables_of(names: Iterable[str] = ()) -> list[Any]:
    """These tables, or all. Raises RefusedError for a name that there is not, ConfigError for YAML that is wrong."""
    from lakehouse_assets.orchestration.tables import load_tables

    tables, wanted = load_tables(), list(names)
    return [pick(tables, name) for name in wanted] if wanted else tables


def pick(tables: Sequence[Any], name: str) -> Any:
    """The one of this name. Raises RefusedError where there is none."""
    known = {table.spec.name: table for table in tables}
    if name not in known:
        raise RefusedError(f"there is no table {name!r}; there are {', '.join(known) or 'none yet'}")
    return known[name]


def decisions_of(table: str | None) -> list[Any]:
    """From the log alone, so that a listing is quick; only a table without any is looked up."""
    from lakehouse_assets.storage import logs

    found = logs.decisions(Settings.from_environment(), table, evidence=False)
    if table and not found:
        tables = tables_of()
        if table not in {f"gold_{gold.name}" for known in tables for gold in known.spec.gold}:
            pick(tables, table)
    return found


@contextmanager
def instance_of(settings: Settings) -> Iterator[Any]:
    """The instance of DAGSTER_HOME. Dagster's paths are relative to the project's folder."""
    import logging

    os.environ["DAGSTER_HOME"] = str(settings.dagster_home)
    os.chdir(PROJECT_ROOT)
    logging.getLogger("dagster").setLevel(logging.WARNING)
    import dagster as dg

    with dg.DagsterInstance.get() as instance:
        yield instance


@contextmanager
def dagster_instance(settings: Settings) -> Iterator[tuple[Any, Any]]:
    """The definitions, and the instance, as `instance_of` has it."""
    with own_spark(), instance_of(settings) as instance:
        from lakehouse_assets.definitions import build_definitions

        yield build_definitions(settings), instance


@contextmanager
def own_spark() -> Iterator[None]:
    """Ends the JVM in order, if one was started within. A session that was there before is somebody else's."""
    before = _session()
    try:
        yield
    finally:
        after = _session()
        if before is None and after is not None:
            after.stop()


def _session() -> Any:
    """This process's Spark, if it has one."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def window_range(text: str | None, specs: Sequence[Any]) -> tuple[datetime | None, datetime | None]:
    """``A`` or ``A..B``, which must be keys of one of the tables, as a half-open range of windows' starts: to the end of the
    day (or of the hour, in an hourly table's key) that B names, so that it is the whole last day of every table.
    """
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
        return starts[0], starts[1] + timedelta(hours=1 if spec.extraction.cadence == "hourly" else 24)
    keys = ", ".join(dict.fromkeys(spec.extraction.first.key for spec in specs))
    raise RefusedError(f"--window {text}: give a window's key, or two as A..B; keys look like {keys}")


def window_start(spec: Any, key: str) -> datetime:
    """The start of a window by its key. Raises RefusedError for another form of key."""
    try:
        return spec.extraction.window(key).start
    except ValueError:
        raise RefusedError(f"{spec.name}: {key!r} is no window's key; keys look like {spec.extraction.first.key}") from None
