"""Parts of every command: the tables and their windows, the Dagster instance and its jobs.

Belongs here: arguments → values, and a job's run in this process. Does not: printing (terminal), or any command.
"""

import getpass
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from lakehouse_assets.cli.kept_definitions import definitions_of, tables_of
from lakehouse_assets.cli.terminal import err, err_lines, show
from lakehouse_assets.errors import ConfigError, LakehouseError, RefusedError
from lakehouse_assets.settings import Settings

Tables = Annotated[list[str] | None, typer.Option("--table", help="Only this table; repeat for more.")]


def require_reason(text: str | None) -> str | None:
    """Return a reason that a person gave. Raises typer.BadParameter if it has no letter."""
    if text is not None and not text.strip():
        raise typer.BadParameter("say why; it is recorded")
    return text


Because = Annotated[str, typer.Option("--because", help="Why: recorded with the operation.", callback=require_reason)]
By = Annotated[str | None, typer.Option("--by", help="Who decides (default: the login name).")]


def select_tables(*names: str) -> list[Any]:
    """Return the tables of these names, or all without mistakes; the others' mistakes are printed as warnings.

    Raises RefusedError for an unknown name, ConfigError for one that stops for a mistake, or if all tables do.
    """
    loaded = load_all_tables()
    if not names:
        err_lines(f"warning: {line}" for line in loaded.mistakes)
        return list(loaded.tables)
    return [find_table(loaded.tables, name) for name in dict.fromkeys(names)]


def select_with_guards(*names: str) -> list[Any]:
    """Return the tables and guards of these names, or all. Raises as `select_tables`."""
    guards = [guard for guard in load_all_tables().guards if not names or guard.spec.name in names]
    others = [name for name in names if name not in {guard.spec.name for guard in guards}]
    return [*select_tables(*others), *guards] if others or not names else guards


def load_all_tables() -> Any:
    """Return the project's tables: those without mistakes, and those that stop."""
    return tables_of(Settings.from_environment())


def tables_folder() -> Path:
    """Return the folder of the project's tables."""
    from lakehouse_assets.orchestration.assets.table_files import tables_folder

    return tables_folder(Settings.from_environment())


def find_table(tables: Sequence[Any], name: str) -> Any:
    """Return the table of this name. Raises RefusedError, which lists the tables, or ConfigError for one with a mistake."""
    by_name = {table.spec.name: table for table in tables}
    if name not in by_name:
        loaded = load_all_tables()
        for broken in loaded.broken:
            if broken.name == name:
                raise ConfigError("\n".join([f"{name} is not loaded, because of its mistakes:", *broken.mistakes]))
        if name in {guard.spec.name for guard in loaded.guards}:
            raise RefusedError(f"{name} guards a table that others write: `lakehouse guard` has its commands (docs/guards.md)")
        raise RefusedError(f"there is no table {name!r}; there are {', '.join(by_name) or 'none yet'}")
    return by_name[name]


def may_be_personal() -> bool:
    """Whether an unforeseen error may quote a personal value: a table has personal columns, or cannot be read."""
    try:
        loaded = load_all_tables()
        return bool(loaded.broken) or any(table.spec.pii_columns for table in loaded.tables)
    except LakehouseError:
        return True


def read_decisions(*names: str) -> Sequence[Any]:
    """Return these tables' decisions, or all. Only a name without decisions is looked up in the YAML, which takes time."""
    from lakehouse_assets.storage.arrow_alone import load_arrow_alone

    load_arrow_alone(numpy=False)
    from lakehouse_assets.storage import logs

    settings = Settings.from_environment()
    if not names:
        return logs.decisions(settings)
    by_name = {name: logs.decisions(settings, name) for name in names}
    if without := [name for name, decisions in by_name.items() if not decisions]:
        loaded = load_all_tables()
        others = {f"gold_{gold.name}" for each in loaded.tables for gold in each.spec.gold}
        others |= {guard.spec.name for guard in loaded.guards}
        for name in without:
            if name not in others:
                find_table(loaded.tables, name)
    return [decision for decisions in by_name.values() for decision in decisions]


@contextmanager
def open_instance(settings: Settings) -> Iterator[Any]:
    """Open the instance of DAGSTER_HOME. Dagster's paths are relative to the project's folder."""
    import logging

    os.environ["DAGSTER_HOME"] = str(settings.dagster_home)
    if settings.project is not None:
        os.chdir(settings.project)
    logging.getLogger("dagster").setLevel(logging.WARNING)
    logging.getLogger("dagster.lakehouse").setLevel(logging.CRITICAL)  # a command prints the mistakes of tables itself
    import dagster as dg

    with dg.DagsterInstance.get() as instance:
        yield instance


@contextmanager
def open_dagster(settings: Settings) -> Iterator[tuple[Any, Any]]:
    """Open the definitions and the instance, where runs of killed commands now count as failed; stops Spark at the end."""
    with stop_own_spark(), open_instance(settings) as instance:
        from lakehouse_assets.orchestration.own_process import fail_killed_runs

        fail_killed_runs(instance)
        yield definitions_of(settings), instance


@contextmanager
def stop_own_spark() -> Iterator[None]:
    """Stop the session that starts within, at the end; after an interrupt, without a line of its Java. An earlier session
    belongs to somebody else, and stays.
    """
    before = _session()
    try:
        yield
    except Exception:
        raise
    except BaseException:
        if before is None and _session() is not None:
            from lakehouse_assets.storage.session_reset import end_jobs

            end_jobs()
        raise
    finally:
        after = _session()
        if before is None and after is not None:
            after.stop()


def _session() -> Any:
    """Return this process's Spark session, if any; none whose Java has died."""
    if "pyspark" not in sys.modules:
        return None
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    try:
        # After an interrupt, Java's thread is another one, which has no active session.
        return SparkSession.getActiveSession() or SparkSession._instantiatedSession
    except (OSError, Py4JError):
        return None


def window_range(text: str, specs: Sequence[Any]) -> tuple[datetime, datetime]:
    """Return ``A`` or ``A..B``, which must be keys of one of the tables, as a half-open range of windows' starts. It ends with
    the day (or with the hour, in an hourly table's key) that B names, so that it covers the last day of every table. Where
    windows share a partition, it ends with the window, or with the partition, that B names.
    """
    first, dots, last = text.partition("..")
    for spec in specs:
        try:
            begin, end = _named_window(spec.extraction, first), _named_window(spec.extraction, last if dots else first)
        except ValueError:
            continue
        if begin.start > end.start:
            raise RefusedError(f"--window {text}: the first window is after the last")
        if spec.extraction.shares_partitions:
            return begin.start, end.end
        return begin.start, end.start + timedelta(hours=1 if spec.extraction.cadence == "hourly" else 24)
    keys = ", ".join(dict.fromkeys(spec.extraction.first.key for spec in specs))
    raise RefusedError(f"--window {text}: give a window's key, or two as A..B; keys look like {keys}")


def _named_window(extraction: Any, key: str) -> Any:
    """Return the window of a key, or the partition of one. Raises ValueError for another form of key."""
    try:
        return extraction.window(key)
    except ValueError:
        return extraction.partition_window(key)


def author(by: str | None) -> str:
    """Return who decides: the given name, or the login name."""
    return by or getpass.getuser()


def run_operation(job: str, config: Mapping[str, Any]) -> Any:
    """Run a job of one op and return its output."""
    from lakehouse_assets.orchestration.jobs.operation_job import run_job

    with open_dagster(Settings.from_environment()) as (definitions, instance), err.status(_doing(job, config)):
        return run_job(definitions, instance, job, config)


def run_decision(job: str, config: Mapping[str, Any], start: datetime, end: datetime) -> list[Any]:
    """Run a job that decides on a table's windows again, rewrite gold, and list the windows that start in ``[start, end)``.
    Return the decisions on those.
    """
    from lakehouse_assets.orchestration.healing.foreground import ForegroundRun
    from lakehouse_assets.orchestration.jobs.operation_job import run_job
    from lakehouse_assets.reports.decision_rows import verdict_rows
    from lakehouse_assets.storage import logs

    settings, tables = Settings.from_environment(), select_tables()
    with open_dagster(settings) as (definitions, instance), err.status(_doing(job, config)) as status:
        run_job(definitions, instance, job, config)
        # Gold follows at once: nobody has to wait for the daemon.
        report = lambda text: status.update(escape(text))  # noqa: E731
        ForegroundRun(definitions, instance, settings, tables, lambda _: False, report, project_datasets(settings)).run()
    decisions = logs.decisions(settings, config["table"])
    listed = [d for d in decisions if d.p_extracted_at and start <= d.p_extracted_at < end]
    show(verdict_rows(listed, full=False))
    return listed


def project_datasets(settings: Settings) -> Mapping[str, Any]:
    """Return the datasets of all tables of the project, for lineage: a command may run only one of them. None where none is
    sent.
    """
    from lakehouse_assets.orchestration.lineage import project_lineage

    if settings.openlineage_url is None:
        return {}
    loaded = load_all_tables()
    return project_lineage(loaded.tables, loaded.guards)


def _doing(job: str, config: Mapping[str, Any]) -> str:
    """Return what the terminal shows while a job runs."""
    names = [config[name] for name in ("table", "window") if name in config]
    return escape(f"{job.replace('_', ' ')}: {' '.join(names)}" if names else job.replace("_", " "))
