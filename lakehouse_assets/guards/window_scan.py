"""The windows that new versions of a guarded table touched: by file statistics, the change data feed, or the column alone.

Belongs here: commits → windows, and the rows in no window. Does not: judging windows (window_run), or what is recorded.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.contracts.guard_windows import TIMES, GuardWindows
from lakehouse_assets.contracts.windows import MINUTES, Cadence, next_start, window_start
from lakehouse_assets.decisions.guard import Event
from lakehouse_assets.decisions.guard_windows import Scanned, covered_windows
from lakehouse_assets.errors import SourceError, java_causes
from lakehouse_assets.guards.guard_run import GuardRun
from lakehouse_assets.guards.observed_table import foreign_table, physical_names, table_path
from lakehouse_assets.guards.version_rows import changed_files, read_feed, write_log_of_files
from lakehouse_assets.measures.error_text import ABSENT_FILE
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage.foreign_commit import ForeignCommit, Schema
from lakehouse_assets.storage.foreign_delta import ForeignTable, Log

UNITS: Mapping[Cadence, str] = {"hourly": "HOUR", "daily": "DAY", "weekly": "WEEK", "monthly": "MONTH"}
# Times before and after are in no window: 0001-01-01 and 9999-12-31 stand for "unknown" in many tables.
EARLIEST, LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class NewestVersion:
    """The table's newest version. ``is_cut``: whether it has the column of time, of a type that windows can be cut by."""

    version: int
    at: datetime
    schema: Schema
    digest: str
    is_cut: bool


@dataclass(frozen=True)
class Changes:
    """What versions changed. ``windows``: those touched, or None for all of the table. ``text``, ``event``: of the table."""

    windows: frozenset[datetime] | None
    text: str
    event: Event = ""
    has_rows: bool = True


def newest_version(table: ForeignTable, log: Log, windows: GuardWindows) -> NewestVersion:
    """Return the newest version. Raises SourceError where its log cannot be read."""
    commit = table.commits(log, log.newest)[0]
    schema = table.schema(log.newest)
    return NewestVersion(log.newest, commit.at, schema, commit.digest, time_type(schema, windows) in TIMES)


def time_type(schema: Schema, windows: GuardWindows) -> str:
    """Return Spark's type of the column of time; empty without it."""
    return next((kind for name, kind in schema.types.items() if name.lower() == windows.column.lower()), "")


def changes_since(run: GuardRun, windows: GuardWindows, state: NewestVersion, last: Scanned | None, folder: str) -> Changes:
    """Return what the versions after the last scan changed. ``folder``: takes a log of the files whose column is read."""
    table = foreign_table(run.guard, run.settings)
    log = table.log()
    if last is None:
        return Changes(None, "all windows: the guard runs for the first time")
    if text := _replacement(table, log, state, last):
        return Changes(None, f"all windows: {text}", "replaced")
    if last.version + 1 < log.oldest:
        text = f"versions {last.version + 1} to {log.oldest - 1} was cleaned up before they were judged"
        return Changes(None, f"all windows: the log of {text}", "lost")
    commits = table.commits(log, last.version + 1)
    for commit in commits:
        if commit.kind in ("overwrite", "restore"):
            return Changes(None, f"all windows: {commit.describe()} replaced the table", "rewritten")
    versions = f"version {last.version + 1}" if len(commits) == 1 else f"versions {last.version + 1} to {log.newest}"
    moving = [commit for commit in commits if commit.kind != "none"]
    try:
        touched = frozenset(_touched(run, windows, state, moving, folder)) if moving else frozenset()
    except SCAN_ERRORS as error:
        if not any(ABSENT_FILE.search(str(each)) for each in (error, *(c.getMessage() for c in java_causes(error)))):
            raise
        return Changes(None, f"all windows: files of {versions} were deleted before they were read", "lost")
    return Changes(touched, f"the windows that {versions} changed", has_rows=bool(moving))


def _replacement(table: ForeignTable, log: Log, state: NewestVersion, last: Scanned) -> str:
    if state.version < last.version:
        return f"the newest version is {state.version}, though version {last.version} was read"
    if last.version in log.entries:
        is_same = table.commits(log, last.version, last.version)[0].digest == last.digest
        return "" if is_same else f"another table is at this path: its version {last.version} is not the one that was read"
    return "" if state.schema.table_id == last.table_id else "another table is at this path"


def _touched(
    run: GuardRun, windows: GuardWindows, state: NewestVersion, commits: Sequence[ForeignCommit], folder: str
) -> Iterable[datetime]:
    """Return the windows of rows that these commits added or removed. A version with a feed is read by its feed; of any other,
    the files whose statistics name one window are not opened, and of the rest only the column of time is read.
    """
    path, touched = table_path(run.guard, run.settings), set[datetime]()
    opened: dict[str, Mapping[str, Any]] = {}
    physical = {name.lower(): key for key, name in physical_names(state.schema).items()}[windows.column.lower()]
    for commit in commits:
        if (
            commit.kind == "rewrite"
            and state.schema.has_feed
            and (from_feed := _by_feed(run, windows, path, commit)) is not None
        ):
            touched |= from_feed
            continue
        added, removed = changed_files(path, commit.version)
        for file in (*added, *removed):
            starts = _by_statistics(file, physical, windows.cadence)
            if starts is None:
                opened[file["path"]] = _as_added(file)
            else:
                touched |= starts
    if opened:
        write_log_of_files(path, state.version, list(opened.values()), folder)
        touched |= windows_in(run.spark.read.format("delta").load(folder), windows)
    return touched


def _as_added(file: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the action that adds a file, also for one that was removed. Without its deletion vector: the rows that this commit
    or one before it deleted are in touched windows, too, and a vector's path is relative to its own table.
    """
    fields = {key: file[key] for key in ("path", "partitionValues", "size") if file.get(key) is not None}
    return {"partitionValues": {}, "size": 0, **fields, "modificationTime": 0, "dataChange": True}


def _by_feed(run: GuardRun, windows: GuardWindows, path: str, commit: ForeignCommit) -> set[datetime] | None:
    try:
        return windows_in(read_feed(run.spark, path, commit.version), windows)
    except SCAN_ERRORS:
        return None  # the feed was switched on after this version


def _by_statistics(file: Mapping[str, Any], column: str, cadence: Cadence) -> set[datetime] | None:
    """Return the windows of a file by the log alone; None where it must be read."""
    partition = file.get("partitionValues") or {}
    if column in partition:
        return set() if partition[column] is None else covered_windows(partition[column], partition[column], cadence)
    statistics = json.loads(file.get("stats") or "{}")
    if statistics.get("numRecords") is not None and statistics.get("nullCount", {}).get(column) == statistics["numRecords"]:
        return set()
    low, high = (statistics.get(name, {}).get(column) for name in ("minValues", "maxValues"))
    return None if low is None or high is None else covered_windows(low, high, cadence)


def windows_in(rows: DataFrame, windows: GuardWindows) -> set[datetime]:
    """Return the starts of the windows that rows lie in. Reads the column of time alone."""
    time = F.col(identifier(windows.column)).cast("timestamp")
    within = (time >= F.expr(literal(EARLIEST))) & (time < F.expr(literal(LATEST)))
    seconds = F.unix_seconds(time)
    if (minutes := MINUTES.get(windows.cadence)) is not None:
        start = (seconds - F.pmod(seconds, F.lit(60 * minutes))).alias("start")
    else:
        start = F.unix_seconds(F.date_trunc(UNITS[windows.cadence], time)).alias("start")
    return {datetime.fromtimestamp(row["start"], UTC) for row in rows.where(within).select(start).distinct().collect()}


def rows_of_window(windows: GuardWindows, kind: str, start: datetime) -> str:
    """Return SQL that is true for the rows of a window. It compares the bare column, so that Delta skips files."""
    column, end = identifier(windows.column), next_start(start, windows.cadence)
    return f"{column} >= {_time(kind, start)} AND {column} < {_time(kind, end)}"


def rows_outside(windows: GuardWindows, kind: str, now: datetime) -> str:
    """Return SQL that is true for rows in no window."""
    column, first = identifier(windows.column), windows.first or EARLIEST
    end = next_start(window_start(now, windows.cadence), windows.cadence)
    return f"{column} IS NULL OR {column} < {_time(kind, max(first, EARLIEST))} OR {column} >= {_time(kind, end)}"


def _time(kind: str, moment: datetime) -> str:
    if kind == "date":
        return literal(moment.date())
    return (
        literal(moment).replace("TIMESTAMP", "TIMESTAMP_NTZ").replace("Z'", "'") if kind == "timestamp_ntz" else literal(moment)
    )


def count_outside(run: GuardRun, windows: GuardWindows, state: NewestVersion, now: datetime) -> int:
    """Return the number of rows in no window. Delta skips the files whose statistics have none of them."""
    path = table_path(run.guard, run.settings)
    rows = run.spark.read.format("delta").option("versionAsOf", state.version).load(path)
    return rows.where(rows_outside(windows, time_type(state.schema, windows), now)).count()


def all_windows(run: GuardRun, windows: GuardWindows, state: NewestVersion) -> set[datetime]:
    """Return the windows of all rows of the newest version. Raises SourceError where they cannot be read."""
    path = table_path(run.guard, run.settings)
    try:
        return windows_in(run.spark.read.format("delta").option("versionAsOf", state.version).load(path), windows)
    except SCAN_ERRORS as error:
        raise SourceError(f"{run.table}: the guarded table cannot be read: {type(error).__name__}") from error
