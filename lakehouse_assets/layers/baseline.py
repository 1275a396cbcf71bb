"""What a person does to a baseline: pin it, let it go, forget it, or seed it from a table that is there already.

Belongs here: the acts, each an event in `ops/baselines` under the table's lock. Does not: what windows teach by themselves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.drift import Book, judge_drift
from lakehouse_assets.decisions.relations import Measured
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers.run import Run
from lakehouse_assets.layers.silver import recover
from lakehouse_assets.measures.isolate import plain
from lakehouse_assets.measures.profile import CROWDED, profile
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.baseline import Entry, write_seed
from lakehouse_assets.storage.baseline_log import BaselineEvent, Kind, baseline_events, log_baseline_event
from lakehouse_assets.storage.book import read_baseline, read_entries
from lakehouse_assets.storage.lock import table_lock


@dataclass(frozen=True)
class Shown:
    """A version of a baseline, the windows that it was made of, and what was done to it up to then."""

    book: Book
    entries: list[Entry]
    events: list[BaselineEvent]
    version: int


def baseline_at(settings: Settings, spec: TableSpec, version: int | None) -> Shown:
    """The baseline after decision number ``version`` (default: as it is now). No JVM.

    Raises RefusedError for a table that declares no drift, or a version that there is not.
    """
    _refuse_without_drift(spec)
    known = logs.decisions(settings, spec.name, evidence=False)
    last = max((d.number for d in known), default=0)
    if version is not None and not 0 <= version <= last:
        raise RefusedError(f"{spec.name} has no baseline version {version}: its decisions are numbered 1 to {last}")
    at = last if version is None else version
    entries = read_entries(settings, spec, known, at)
    return Shown(read_baseline(settings, spec, known, at), entries, baseline_events(settings, spec.name, at), at)


def pin(run: Run, *, by: str, because: str) -> BaselineEvent:
    """From now on the baseline must stay near what it is now. Raises RefusedError where nothing has been learnt."""
    with table_lock(run.settings, run.spec.name):
        known, after = _ready(run)
        book = read_baseline(run.settings, run.spec, known, after)
        if not len(book.baseline):
            raise RefusedError(f"{run.spec.name}: the baseline holds no window yet; there is nothing to pin")
        return _log(run, "pin", after, by, because, {"windows": len(book.baseline)})


def unpin(run: Run, *, by: str, because: str) -> BaselineEvent:
    """It may move wherever the data lead it. Raises RefusedError where nothing is pinned."""
    with table_lock(run.settings, run.spec.name):
        known, after = _ready(run)
        if not read_baseline(run.settings, run.spec, known, after).baseline.pinned:
            raise RefusedError(f"{run.spec.name}: the baseline is not pinned")
        return _log(run, "unpin", after, by, because, {})


def reset(run: Run, *, by: str, because: str) -> BaselineEvent:
    """Forget every window, and learn anew from the next one; what is pinned stays. Raises RefusedError for an empty one."""
    with table_lock(run.settings, run.spec.name):
        known, after = _ready(run)
        book = read_baseline(run.settings, run.spec, known, after)
        if not len(book.baseline):
            raise RefusedError(f"{run.spec.name}: the baseline holds no window; there is nothing to forget")
        return _log(run, "reset", after, by, because, {"windows": len(book.baseline)})


def seed(run: Run, path: str, column: str | None, *, by: str, because: str) -> BaselineEvent:
    """Learn from an existing Delta table, window by window of this table's cadence, oldest first: at most the newest
    `remember` windows. Its rows are taken as they are: no check is asked of them.

    ``path``: a folder or a URL; ``column``: the timestamp that says which window a row is of (default: `p_extracted_at`).
    Raises RefusedError where there is no such table, where it lacks a column that the features use, where a feature cannot
    be measured in it, and where the baseline has been seeded since the last reset.
    """
    spec = run.spec
    with table_lock(run.settings, spec.name):
        known, after = _ready(run)
        drift = _refuse_without_drift(spec)
        events = baseline_events(run.settings, spec.name)
        last = next((event.kind for event in reversed(events) if event.kind in ("seed", "reset")), None)
        if last == "seed":
            raise RefusedError(
                f"{spec.name}: the baseline has been seeded already; `lakehouse baseline reset {spec.name} --because …` first"
            )
        if not delta.exists(path):
            raise RefusedError(f"{path} is no Delta table (a folder or a URL that holds a `_delta_log`)")
        version = delta.version(path)
        rows = run.spark.read.format("delta").option("versionAsOf", version).load(path)
        windows = _windows(rows, spec, column or "p_extracted_at", path)
        newest = [row["start"] for row in windows.select(F.unix_micros("p_extracted_at").alias("start")).distinct()
                  .orderBy(F.desc("start")).limit(drift.remember).collect()]  # fmt: skip
        if not newest:
            raise RefusedError(f"{path} has no row with a {column or 'p_extracted_at'}: there is nothing to learn from")
        measured = _measured(windows.where(F.unix_micros("p_extracted_at") >= min(newest)), drift, path)
        book = read_baseline(run.settings, spec, known, after)
        entries = _judged(book, drift, measured, after)
        rows_in = sum(max(m.rows for m in entry.measured) for entry in entries)
        extra = {"source": path, "version": version, "column": column or "p_extracted_at", "windows": len(entries)}
        event = _event(run, "seed", after, by, because, {**extra, "rows": rows_in, "ruleset": spec.ruleset()})
        write_seed(run.settings, event, entries)
        run.step("seed_written")
        log_baseline_event(run.settings, event)
        run.step("seed_logged")
        return event


def _windows(rows: DataFrame, spec: TableSpec, column: str, path: str) -> DataFrame:
    """What the features use, as staged rows of windows."""
    drift = _refuse_without_drift(spec)
    there = {field.name.lower(): field for field in rows.schema}
    used = set().union(*(feature.columns_used for feature in drift.features))
    if missing := sorted(name for name in {*used, column} if name.lower() not in there):
        has = ", ".join(field.name for field in rows.schema)
        hint = "; name the column of the windows with --window-column" if column in missing else ""
        raise RefusedError(f"{path} has no column {', '.join(missing)}; it has {has}{hint}")
    if not isinstance(there[column.lower()].dataType, T.TimestampType | T.TimestampNTZType | T.DateType):
        kind = there[column.lower()].dataType.simpleString()
        raise RefusedError(f"{path}: {column} is a {kind}, and windows are told by a timestamp or a date")
    at = F.col(identifier(column)).cast("timestamp")
    start = _start(at, spec).alias("p_extracted_at")
    plain_columns = [F.col(identifier(name)) for name in sorted(used - {"p_extracted_at"})]
    return rows.where(at.isNotNull()).select(
        start, F.lit(0).alias("extraction_seq"), F.lit(True).alias("_newest"), *plain_columns
    )


def _start(at: Column, spec: TableSpec) -> Column:
    """The start of the window that a moment is in. Months are of unequal length; other windows are counted from the first."""
    if spec.extraction.cadence == "monthly":
        return F.date_trunc("MONTH", at)
    first = spec.extraction.first
    micros = F.lit(int((first.end - first.start).total_seconds() * 1_000_000))
    begin = F.unix_micros(F.lit(first.start.isoformat()).cast("timestamp"))
    since = F.unix_micros(at) - begin
    return F.timestamp_micros(F.unix_micros(at) - F.pmod(since, micros))


def _measured(rows: DataFrame, drift: DriftSpec, path: str) -> Mapping[datetime, Sequence[Measured]]:
    try:
        found, crowded = profile(rows, drift)
    except SCAN_ERRORS as error:
        raise RefusedError(f"{path}: the features cannot be measured: {plain(error)}") from error
    if crowded:
        raise RefusedError(f"{path}: {CROWDED}")
    return {start: measured for (start, _), measured in sorted(found.items())}


def _judged(book: Book, drift: DriftSpec, windows: Mapping[datetime, Sequence[Measured]], after: int) -> list[Entry]:
    """Each by those before it, as if they had come one after the other: so that each has statistics."""
    entries = []
    for start, measured in windows.items():
        verdict = judge_drift(measured, *book.without_window(start), drift, window=start)
        if verdict.status == "error":
            raise RefusedError(f"the window {start:%Y-%m-%d %H:%M}: {verdict.message}")
        entry = Entry(start, after, tuple(measured), verdict.statistics, seeded=True)
        book.learn(entry.window, entry.measured, entry.statistics)
        entries.append(entry)
    return entries


def _ready(run: Run) -> tuple[list[Decision], int]:
    """What an earlier run left unapplied is completed first: it was decided before this."""
    _refuse_without_drift(run.spec)
    recover(run)
    known = logs.decisions(run.settings, run.spec.name, evidence=False)
    return known, max((d.number for d in known), default=0)


def _refuse_without_drift(spec: TableSpec) -> DriftSpec:
    if spec.drift is None:
        raise RefusedError(f"{spec.name} declares no drift: it has no baseline")
    return spec.drift


def _event(run: Run, kind: Kind, after: int, by: str, because: str, extra: dict[str, Any]) -> BaselineEvent:
    if not because.strip():
        raise RefusedError("say why: --because is kept with what was done")
    return BaselineEvent(run.spec.name, kind, after, run.clock(), by, because, run.run_id, extra)


def _log(run: Run, kind: Kind, after: int, by: str, because: str, extra: dict[str, Any]) -> BaselineEvent:
    event = _event(run, kind, after, by, because, extra)
    log_baseline_event(run.settings, event)
    return event
