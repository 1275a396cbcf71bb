"""Requests on a baseline: pin it, unpin it, reset it, or seed it from an existing Delta table.

Belongs here: the requests, each an event in `ops/baselines` under the table's lock. Does not: how accepted windows join it.
"""

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
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.pseudonyms import NameMask, name_mask
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.operation import Operation
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.measures.error_text import error_text
from lakehouse_assets.measures.profile import TOO_MANY_STRATA, measure_profiles
from lakehouse_assets.pipeline.evidence import restore_profiles
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.silver import completed_before
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.baseline import BaselineEvent, Entry, Kind, baseline_events, log_baseline_event, write_seed
from lakehouse_assets.storage.baseline_state import read_baseline, read_entries
from lakehouse_assets.storage.delta_files import TableFiles, forget_lost_files
from lakehouse_assets.storage.evidence import required_profiles
from lakehouse_assets.storage.lock import table_lock

# `_apply_once` names its step by the request.
PIN, UNPIN, RESET, SEED = ("pin_logged",), ("unpin_logged",), ("reset_logged",), ("seed_written", "seed_logged")


@dataclass(frozen=True)
class BaselineVersion:
    """A version of a baseline, its windows, and the requests up to then."""

    state: BaselineState
    entries: list[Entry]
    events: list[BaselineEvent]
    version: int


def read_baseline_version(settings: Settings, spec: TableSpec, version: int | None) -> BaselineVersion:
    """The baseline after decision ``version`` (default: now). No JVM. Raises RefusedError without drift or such a version."""
    _drift_of(spec)
    decisions = logs.decisions(settings, spec.name)
    last = max((d.number for d in decisions), default=0)
    if version is not None and not 0 <= version <= last:
        raise RefusedError(f"{spec.name} has no baseline version {version}: its decisions are numbered 1 to {last}")
    at = last if version is None else version
    entries = read_entries(settings, spec, decisions, at)
    return BaselineVersion(read_baseline(settings, spec, decisions, at), entries, baseline_events(settings, spec.name, at), at)


def pin(run: Run, *, by: str, because: str) -> BaselineEvent:
    """Set the reference that the baseline must stay near to what it is now. Raises RefusedError for an empty baseline."""

    def details(decisions: Sequence[Decision], after: int) -> dict[str, Any]:
        windows = len(read_baseline(run.settings, run.spec, decisions, after).baseline)
        if not windows:
            raise RefusedError(f"{run.table}: the baseline has no window yet; there is nothing to pin")
        return {"windows": windows}

    return _apply_once(run, "pin", by, because, details)


def unpin(run: Run, *, by: str, because: str) -> BaselineEvent:
    """Remove the reference. Raises RefusedError where nothing is pinned."""

    def details(decisions: Sequence[Decision], after: int) -> dict[str, Any]:
        if not read_baseline(run.settings, run.spec, decisions, after).baseline.pinned:
            raise RefusedError(f"{run.table}: the baseline is not pinned")
        return {}

    return _apply_once(run, "unpin", by, because, details)


def reset(run: Run, *, by: str, because: str) -> BaselineEvent:
    """Forget every window, and learn anew from the next one; the reference stays. Lost and damaged files of the baseline are
    dropped. Raises RefusedError for an empty baseline.
    """

    def details(decisions: Sequence[Decision], after: int) -> dict[str, Any]:
        windows = len(read_baseline(run.settings, run.spec, decisions, after).baseline)
        if not windows and not required_profiles(decisions, baseline_events(run.settings, run.table)):
            raise RefusedError(f"{run.table}: the baseline has no window; there is nothing to forget")
        return {"windows": windows}

    with table_lock(run.settings, run.table):
        if (files := TableFiles(run.path("baseline"))).absent:
            restore_profiles(run)
            if TableFiles(files.path).absent:
                forget_lost_files(files)
        return _apply_once(run, "reset", by, because, details)


def seed(run: Run, path: str, column: str | None, *, by: str, because: str) -> BaselineEvent:
    """Learn from an existing Delta table, window by window of this table's cadence, oldest first: at most the newest
    `remember` windows. No check looks at its rows.

    ``path``: a folder or a URL; ``column``: the timestamp that says which window a row is of (default: `p_extracted_at`).
    Raises RefusedError if there is no such table, if it lacks a column that the features use, if a feature cannot be measured
    in it, and if the baseline was seeded since the last reset.
    """
    spec, drift, column = run.spec, _drift_of(run.spec), column or "p_extracted_at"

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
        windows = _to_windows(rows, spec, drift, column, path)
        starts = windows.select(F.unix_micros("p_extracted_at").alias("start")).distinct()
        newest = [row["start"] for row in starts.orderBy(F.desc("start")).limit(drift.remember).collect()]
        if not newest:
            raise RefusedError(f"{path} has no row with a {column}: there is nothing to learn from")
        windows = windows.where(F.unix_micros("p_extracted_at") >= min(newest))
        measured = measure_windows(windows, drift, path, name_mask(spec), personal=bool(spec.pii_columns))
        entries.extend(judge_in_order(read_baseline(run.settings, spec, decisions, after), measured, after))
        rows_in = sum(max(m.rows for m in entry.measured) for entry in entries)
        origin = {"source": path, "version": version, "column": column}
        return {**origin, "windows": len(entries), "rows": rows_in, "ruleset": spec.ruleset()}

    def write(event: BaselineEvent) -> None:
        write_seed(run.settings, event, entries)
        run.step("seed_written")

    entries: list[Entry] = []
    content = {"source": path, "version": delta.version(path) if delta.exists(path) else None}
    content |= {"column": column, "rules": spec.ruleset_hash}
    return _apply_once(run, "seed", by, because, details, content, write)


def _to_windows(rows: DataFrame, spec: TableSpec, drift: DriftSpec, column: str, path: str) -> DataFrame:
    fields = {field.name.lower(): field for field in rows.schema}
    used = set().union(*(feature.columns_used for feature in drift.features))
    if missing := sorted(name for name in {*used, column} if name.lower() not in fields):
        has = ", ".join(field.name for field in rows.schema)
        hint = "; name the column of the windows with --window-column" if column in missing else ""
        raise RefusedError(f"{path} has no column {', '.join(missing)}; it has {has}{hint}")
    if not isinstance(fields[column.lower()].dataType, T.TimestampType | T.TimestampNTZType | T.DateType):
        kind = fields[column.lower()].dataType.simpleString()
        raise RefusedError(f"{path}: {column} is a {kind}, and the column of the windows must be a timestamp or a date")
    at = F.col(identifier(column)).cast("timestamp")
    start = _window_start(at, spec).alias("p_extracted_at")
    plain_columns = [F.col(identifier(name)) for name in sorted(used - {"p_extracted_at"})]
    return rows.where(at.isNotNull()).select(
        start, F.lit(0).alias("extraction_seq"), F.lit(True).alias("_newest"), *plain_columns
    )


def _window_start(at: Column, spec: TableSpec) -> Column:
    """The start of the window that a moment is in. Months are of unequal length; other windows are counted from the first."""
    if spec.extraction.cadence == "monthly":
        return F.date_trunc("MONTH", at)
    first = spec.extraction.first
    micros = F.lit(int((first.end - first.start).total_seconds() * 1_000_000))
    begin = F.unix_micros(F.lit(first.start.isoformat()).cast("timestamp"))
    since = F.unix_micros(at) - begin
    return F.timestamp_micros(F.unix_micros(at) - F.pmod(since, micros))


def measure_windows(
    rows: DataFrame, drift: DriftSpec, path: str, mask: NameMask | None, *, personal: bool
) -> Mapping[datetime, Sequence[Measurement]]:
    """Measure the features of each window of these rows, from one job. Raises RefusedError with ``path`` if that fails."""
    try:
        profiles, too_many_strata = measure_profiles(rows, drift)
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
        verdict = judge_drift(measurements, *state.without_window(start), state.spec, window=start)
        if verdict.status == "error":
            raise RefusedError(f"the window {start:%Y-%m-%d %H:%M}: {verdict.message}")
        entries.append(Entry(start, after, tuple(measurements), verdict.statistics, seeded=True))
        state.learn(start, measurements, verdict.statistics)
    return entries


def _drift_of(spec: TableSpec) -> DriftSpec:
    if spec.drift is None:
        raise RefusedError(f"{spec.name} declares no drift: it has no baseline")
    return spec.drift


def _apply_once(
    run: Run,
    kind: Kind,
    by: str,
    because: str,
    details: Callable[[Sequence[Decision], int], dict[str, Any]],
    content: Mapping[str, Any] | None = None,
    write: Callable[[BaselineEvent], None] = lambda _: None,
) -> BaselineEvent:
    """Log the event of a request under the table's lock, unless it was logged before. ``details``: what else the event says,
    from the table's decisions and the number of the last one; refuses the request. ``content``: what tells this request from
    others of its kind.

    It was logged before if it is the table's last event, and either an earlier attempt of this run wrote it or nothing has been
    decided since. What an earlier run left unapplied was decided before this, and is completed first.
    """
    _drift_of(run.spec)
    with completed_before(run):
        decisions = logs.decisions(run.settings, run.table)
        after = max((d.number for d in decisions), default=0)
        events = baseline_events(run.settings, run.table)

        def id_of(number: int, nth: int) -> str:
            request = {"by": by, "because": because, **(content or {}), "event": nth}
            return Operation(run.table, kind, request).id_after(number)

        if events:
            last = events[-1]
            at = last.after if last.run_id in {run.run_id, *run.attempts} else after
            if last.extra.get("operation") == id_of(at, len(events)):
                run.step(f"{kind} done before, on {last.at:%Y-%m-%d %H:%M}: not done again")
                return last
        extra = {**details(decisions, after), "operation": id_of(after, len(events) + 1)}
        if not because.strip():
            raise RefusedError("give a reason with --because; it is recorded")
        event = BaselineEvent(run.table, kind, after, run.clock(), by, because, run.run_id, extra)
        write(event)
        log_baseline_event(run.settings, event)
        run.step(f"{kind}_logged")
        return event
