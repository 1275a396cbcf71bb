"""Requests on a table's baseline: reset it, or seed it from an existing Delta table; and a version of it.

Belongs here: what concerns a table's files and windows. Does not: the request itself (baseline_request), or how accepted
windows join the baseline.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import start_of
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import MINUTES, Cadence, Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.pseudonyms import NameMask, name_mask
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.measures.drift_features import TOO_MANY_STRATA, measure_features
from lakehouse_assets.measures.error_text import error_text
from lakehouse_assets.operations.baseline_request import Completing, apply_once, drift_of, forget
from lakehouse_assets.pipeline.evidence import restore_profiles
from lakehouse_assets.pipeline.publish import completed_before
from lakehouse_assets.pipeline.run import Run, TableRun
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.baseline import BaselineEvent, Entry, baseline_events, write_seed
from lakehouse_assets.storage.baseline_state import read_baseline, read_entries
from lakehouse_assets.storage.delta_files import TableFiles, forget_lost_files
from lakehouse_assets.storage.lock import table_lock

# `apply_once` names its step by the request.
PIN, UNPIN, RESET, SEED = ("pin_logged",), ("unpin_logged",), ("reset_logged",), ("seed_written", "seed_logged")


@dataclass(frozen=True)
class BaselineVersion:
    """A version of a baseline, its windows, and the requests up to then."""

    state: BaselineState
    entries: list[Entry]
    events: list[BaselineEvent]
    version: int


@dataclass(frozen=True)
class SeedWindows:
    """How the rows of a seed are cut into windows. ``column``: says which window a row is of. ``first``: any window, from which
    the others are counted.
    """

    column: str
    cadence: Cadence
    first: Window

    @classmethod
    def of_table(cls, spec: TableSpec, column: str | None) -> "SeedWindows":
        """Return a table's own windows, or of a stream its hours or days."""
        extraction = spec.extraction
        # A stream has no windows of its own before it has read something: those of a seed are its partitions.
        return cls(column or "p_extracted_at", extraction.cadence, extraction.partition(extraction.first))


def read_baseline_version(settings: Settings, spec: TableSpec, version: int | None) -> BaselineVersion:
    """The baseline after decision ``version`` (default: now). No JVM. Raises RefusedError without drift or such a version."""
    drift_of(spec)
    decisions = logs.decisions(settings, spec.name)
    last = ledger.last_number(decisions)
    if version is not None and not 0 <= version <= last:
        raise RefusedError(f"{spec.name} has no baseline version {version}: its decisions are numbered 1 to {last}")
    at = last if version is None else version
    entries = read_entries(settings, spec, decisions, at)
    return BaselineVersion(read_baseline(settings, spec, decisions, at), entries, baseline_events(settings, spec.name, at), at)


def reset(run: Run, *, by: str, because: str) -> BaselineEvent:
    """Forget every window, and learn anew from the next one; the reference stays. Lost and damaged files of the baseline are
    dropped. Raises RefusedError for an empty baseline.
    """
    with table_lock(run.settings, run.table):
        if (files := TableFiles(run.path("baseline"))).absent:
            restore_profiles(run)
            if TableFiles(files.path).absent:
                forget_lost_files(files)
        return forget(run, by=by, because=because)


def seed(
    run: TableRun[Any],
    path: str,
    windows: SeedWindows,
    *,
    by: str,
    because: str,
    completing: Completing = completed_before,
    comparable: Callable[[Sequence[Decision]], Sequence[Decision]] = lambda decisions: decisions,
) -> BaselineEvent:
    """Learn from an existing Delta table, window by window, oldest first: at most the newest `remember` windows. No check looks
    at its rows.

    ``path``: a folder or a URL. ``completing``: as in `apply_once`. ``comparable``: the decisions whose batches are like these
    windows. Raises RefusedError if there is no such table, if it lacks a column that the features use, or if a feature cannot
    be measured in it. So it does if the baseline was seeded since the last reset.
    """
    spec, drift, column = run.spec, drift_of(run.spec), windows.column

    def details(decisions: Sequence[Decision], after: int) -> dict[str, Any]:
        events = baseline_events(run.settings, spec.name)
        last = next((event.kind for event in reversed(events) if event.kind in ("seed", "reset")), None)
        if last == "seed":
            raise RefusedError(
                f"{spec.name}: the baseline is seeded already; run `lakehouse baseline reset {spec.name} --because …` first"
            )
        if not delta.exists(path):
            raise RefusedError(f"{path} is no Delta table (a folder or a URL that holds a `_delta_log`)")
        version = delta.version(path)
        rows = run.spark.read.format("delta").option("versionAsOf", version).load(path)
        cut = _to_windows(rows, windows, drift, path)
        starts = cut.select(F.unix_micros("p_extracted_at").alias("start")).distinct()
        newest = [row["start"] for row in starts.orderBy(F.desc("start")).limit(drift.remember).collect()]
        if not newest:
            raise RefusedError(f"{path} has no row with a {column}: there is nothing to learn from")
        cut = cut.where(F.unix_micros("p_extracted_at") >= min(newest))
        measured = measure_windows(cut, drift, path, name_mask(spec), personal=bool(spec.pii_columns))
        entries.extend(judge_in_order(read_baseline(run.settings, spec, comparable(decisions), after), measured, after))
        rows_in = sum(_count_rows(entry.measured) for entry in entries)
        origin = {"source": path, "version": version, "column": column}
        if content.get("cadence"):
            origin["cadence"] = windows.cadence
        return {**origin, "windows": len(entries), "rows": rows_in, "ruleset": spec.ruleset()}

    def write(event: BaselineEvent) -> None:
        write_seed(run.settings, event, entries)
        run.step("seed_written")

    entries: list[Entry] = []
    content = {"source": path, "version": delta.version(path) if delta.exists(path) else None}
    content |= {"column": column, "rules": spec.ruleset_hash}
    if not isinstance(spec, TableSpec):
        content["cadence"] = windows.cadence  # a table has only one
    return apply_once(run, completing, "seed", by, because, details, content, write)


def _count_rows(measured: Sequence[Measurement]) -> int:
    """A window's rows: those of all strata of a feature."""
    rows = Counter[str]()
    for profile in measured:
        if isinstance(profile, Profile):
            rows[profile.feature] += profile.rows
    return max(rows.values(), default=0)


def _to_windows(rows: DataFrame, windows: SeedWindows, drift: DriftSpec, path: str) -> DataFrame:
    column = windows.column
    fields = {field.name.lower(): field for field in rows.schema}
    used = set().union(*(feature.columns_used for feature in drift.features))
    if missing := sorted(name for name in {*used, column} if name.lower() not in fields):
        has = ", ".join(field.name for field in rows.schema)
        hint = "; name the column of the windows with --window-column" if column in missing else ""
        raise RefusedError(f"{path} has no column {', '.join(missing)}; it has {has}{hint}")
    kind = fields[column.lower()].dataType
    if not isinstance(kind, T.TimestampType | T.TimestampNTZType | T.DateType):
        raise RefusedError(
            f"{path}: {column} is a {kind.simpleString()}, and the column of the windows must be a timestamp or a date"
        )
    if isinstance(kind, T.DateType) and windows.cadence in (*MINUTES, "hourly"):
        raise RefusedError(
            f"{path}: the date {column} has no hours, and {windows.cadence} windows need them;"
            " name a timestamp with --window-column"
        )
    at = F.col(identifier(column)).cast("timestamp")
    start = _window_start(at, windows).alias("p_extracted_at")
    plain_columns = [F.col(identifier(name)) for name in sorted(used - {"p_extracted_at"})]
    return rows.where(at.isNotNull()).select(
        start, F.lit(0).alias("extraction_seq"), F.lit(True).alias("_newest"), *plain_columns
    )


def _window_start(at: Column, windows: SeedWindows) -> Column:
    """The start of the window that a moment is in. Months are of unequal length; other windows are counted from the first."""
    if windows.cadence == "monthly":
        return F.date_trunc("MONTH", at)
    first = windows.first
    micros = F.lit(int((first.end - first.start).total_seconds() * 1_000_000))
    begin = F.unix_micros(F.lit(first.start.isoformat()).cast("timestamp"))
    since = F.unix_micros(at) - begin
    return F.timestamp_micros(F.unix_micros(at) - F.pmod(since, micros))


def measure_windows(
    rows: DataFrame, drift: DriftSpec, path: str, mask: NameMask | None, *, personal: bool
) -> Mapping[datetime, Sequence[Measurement]]:
    """Measure the features of each window of these rows, from one job. Raises RefusedError with ``path`` if that fails."""
    try:
        profiles, too_many_strata = measure_features(rows, drift)
    except SCAN_ERRORS as error:
        raise RefusedError(f"{path}: the features cannot be measured: {error_text(error, personal)}") from None
    if too_many_strata:
        raise RefusedError(f"{path}: {TOO_MANY_STRATA}")
    ordered = [(start_of(batch), measurements) for batch, measurements in sorted(profiles.items())]
    return {start: list(map(mask.measurement, own)) if mask else own for start, own in ordered}


def judge_in_order(state: BaselineState, windows: Mapping[datetime, Sequence[Measurement]], after: int) -> list[Entry]:
    """Judge each window by those before it, as if they had come one after the other, so that each has statistics."""
    entries = []
    for start, measurements in windows.items():
        verdict = judge_drift(measurements, *state.without_window(start), state.spec_at(start), window=start)
        if verdict.status == "error":
            raise RefusedError(f"the window {start:%Y-%m-%d %H:%M}: {verdict.message}")
        entries.append(Entry(start, after, tuple(measurements), verdict.statistics, seeded=True))
        state.learn(start, measurements, verdict.statistics)
    return entries
