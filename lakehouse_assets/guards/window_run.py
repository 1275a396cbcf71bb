"""A run of a guard with `windows`: touched windows are recorded, and the closed ones judged, oldest first.

Belongs here: what is recorded before a judgement, and the order. Does not: finding windows (window_scan), or the gate's steps.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.guard_windows import GuardWindows
from lakehouse_assets.decisions import guard_windows as on_record
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.guard_decision import may_be_closed
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.frames.staging_folder import StagingFolder
from lakehouse_assets.guards.clean_state import ABSENT, clean_table
from lakehouse_assets.guards.guard_run import GuardRun, clean_exists
from lakehouse_assets.guards.observed_table import GuardState, foreign_table, physical_names
from lakehouse_assets.guards.window_scan import (
    EARLIEST,
    LATEST,
    Changes,
    NewestVersion,
    all_windows,
    changes_since,
    count_outside,
    newest_version,
    rows_of_window,
    rows_outside,
    time_type,
)
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.staging_folder import staging_path


def record_changes(run: GuardRun, windows: GuardWindows, state: GuardState) -> None:
    """Record the windows that versions since the last scan touched, each as its next extraction, and what happened to the table
    as a whole. All in one commit: a killed run repeats the scan, or has its result.
    """
    table = foreign_table(run.guard, run.settings)
    now, newest, last = run.clock(), newest_version(table, table.log(), windows), on_record.last_scan(state.records)
    cut = on_record.cut_of(windows.column, windows.cadence)
    if last and last.cut != cut:
        raise RefusedError(
            f"{run.table}: windows: they were cut by {last.cut} before, and now by {cut}: decisions on both cannot be compared;"
            " give the guard another `name`"
        )
    records = []
    if not newest.is_cut:
        records = _uncut(run, state, newest)
    elif last is None or (newest.version, newest.digest) != (last.version, last.digest):
        records = _touched(run, windows, state, newest, now)
    records += _unpublished(run, windows, state, newest, {record.p_extracted_at for record in records})
    if records:
        logs.record_extractions(run.settings, records)
        run.step("observed_done")


def _touched(
    run: GuardRun, windows: GuardWindows, state: GuardState, newest: NewestVersion, now: datetime
) -> list[ExtractionRecord]:
    folder = StagingFolder(run.spark, staging_path(run.settings, run.table))
    try:
        changes = changes_since(run, windows, newest, on_record.last_scan(state.records), f"{folder.path}/touched")
    finally:
        folder.remove()
    touched = changes.windows
    if touched is None:
        # Windows whose rows are all gone are judged too: they are empty now.
        touched = all_windows(run, windows, newest) | set(on_record.windows_on_record(state.records))
    first = max(windows.first or EARLIEST, EARLIEST)
    starts = sorted(start for start in touched if first <= start < LATEST)
    records = [_window_record(run, windows, state, newest, start, changes.text) for start in starts]
    outside, before = count_outside(run, windows, newest, now), on_record.outside_on_record(state.records.values())
    is_open = not (outside and windows.outside == "quarantine") and any(map(may_be_closed, state.quarantined))
    if changes.event or is_open or outside != (before or 0) or (changes.has_rows and not starts):
        records.insert(
            0,
            _table_record(run, state, newest, changes, outside, rows_outside(windows, time_type(newest.schema, windows), now)),
        )
    return records


def _uncut(run: GuardRun, state: GuardState, newest: NewestVersion) -> list[ExtractionRecord]:
    """Return the record of a table without the column of time, unless it is there for this version."""
    fingerprint = f"{newest.schema.table_id}@{newest.digest}"
    if any(r.fingerprint == fingerprint and not on_record.is_window(r) for r in state.records.values()):
        return []
    outside = on_record.outside_on_record(state.records.values()) or 0
    record = _table_record(run, state, newest, Changes(None, "no row: the table has no windows"), outside, "FALSE")
    position = json.loads(record.position or "{}")
    # Its changes are read once the column is back.
    del position["scanned"]
    return [replace(record, position=json.dumps(position, sort_keys=True))]


def _unpublished(
    run: GuardRun, windows: GuardWindows, state: GuardState, newest: NewestVersion, recorded_starts: set[datetime]
) -> list[ExtractionRecord]:
    """Return the windows to be judged again since the clean table lacks their rows. Raises RefusedError for a clean table that
    has rows of another log.
    """
    if run.guard.publish is None or not newest.is_cut:
        return []
    clean = clean_table(run.guard, run.settings, GuardState(state.decisions, {}), clean_exists(run))
    starts = on_record.unpublished_windows(state.records, state.decisions)
    if clean and clean.gap == ABSENT:
        starts |= on_record.published_windows(state.records, state.decisions)
    elif clean and clean.gap and state.decisions:
        raise RefusedError(
            f"{run.table}: publish.to: {clean.gap}, or was rewound; delete it, and the guard publishes its windows anew"
        )
    text = "the window, whose accepted rows are not in the clean table"
    return [_window_record(run, windows, state, newest, start, text) for start in sorted(starts - recorded_starts)]


def _window_record(
    run: GuardRun, windows: GuardWindows, state: GuardState, newest: NewestVersion, start: datetime, text: str
) -> ExtractionRecord:
    seq = on_record.next_extraction(state.records, state.decisions, start)
    sql = rows_of_window(windows, time_type(newest.schema, windows), start)
    return _record(run, newest, start, seq, {"rows": "window", "event": "", "text": text, "of_window": sql})


def _table_record(
    run: GuardRun, state: GuardState, newest: NewestVersion, changes: Changes, outside: int, sql: str
) -> ExtractionRecord:
    start = on_record.moment_of_table(newest.at, {moment for moment, _ in state.records})
    position = {"rows": "outside", "event": changes.event, "text": changes.text, "of_window": sql, "outside": outside}
    return _record(run, newest, start, 1, position)


def _record(run: GuardRun, newest: NewestVersion, start: datetime, seq: int, position: dict[str, Any]) -> ExtractionRecord:
    windows = run.guard.windows
    cut = on_record.cut_of(windows.column, windows.cadence) if windows else ""
    position |= {
        "after": newest.version - 1,
        "scanned": newest.version,
        "digest": newest.digest,
        "cut": cut,
        "names": physical_names(newest.schema),
    }
    position |= {"location": run.guard.path} if run.guard.table else {}
    return ExtractionRecord(
        table=run.table, p_extracted_at=start, extraction_seq=seq, rows=0,
        fingerprint=f"{newest.schema.table_id}@{newest.digest}", columns=tuple(newest.schema.types),
        bronze_version=newest.version, run_id=run.run_id, extracted_at=run.clock(), types=newest.schema.types,
        position=json.dumps(position, sort_keys=True),
    )  # fmt: skip


def record_again(run: GuardRun, windows: GuardWindows, state: GuardState, decision: Decision) -> None:
    """Record a window again, whose accepted rows can no longer be read as they were judged."""
    table, record = foreign_table(run.guard, run.settings), state.records.get(decision.batch)
    if record is None or not on_record.is_window(record):
        return
    if (record.p_extracted_at, record.extraction_seq + 1) in state.records:
        return
    newest = newest_version(table, table.log(), windows)
    start = record.p_extracted_at
    sql = rows_of_window(windows, time_type(newest.schema, windows), start)
    text = "the window: its rows were deleted or rewritten before they were published"
    again = _record(
        run, newest, start, record.extraction_seq + 1, {"rows": "window", "event": "", "text": text, "of_window": sql}
    )
    position, of_scan = json.loads(again.position or "{}"), json.loads(record.position or "{}")
    position |= {name: of_scan[name] for name in ("scanned", "digest")}
    logs.record_extractions(run.settings, [replace(again, position=json.dumps(position, sort_keys=True))])


def waiting_batches(run: GuardRun, windows: GuardWindows, state: GuardState) -> Sequence[ExtractionRecord]:
    """Return what is to be judged now: the table as a whole first, then closed windows, oldest first."""
    of_table = [record for record in state.records.values() if not on_record.is_window(record)]
    waiting = ledger.undecided_extractions(of_table, state.decisions)
    return [*waiting, *on_record.waiting_windows(state.records, state.decisions, windows.cadence, run.clock())]


def at_newest_version(run: GuardRun, windows: GuardWindows, record: ExtractionRecord) -> ExtractionRecord:
    """Return a record of the same window in the newest version, whose rows are judged."""
    if not on_record.is_window(record):
        return record
    table = foreign_table(run.guard, run.settings)
    newest = newest_version(table, table.log(), windows)
    if newest.version == record.bronze_version or not newest.is_cut:
        return record
    position = json.loads(record.position or "{}")
    position["of_window"] = rows_of_window(windows, time_type(newest.schema, windows), record.p_extracted_at)
    fields = {name: position[name] for name in ("rows", "event", "text", "of_window")}
    moved = _record(run, newest, record.p_extracted_at, record.extraction_seq, fields)
    # Versions that appeared since the scan are scanned by the next run.
    of_scan = {name: position[name] for name in ("scanned", "digest")}
    scanned = {**json.loads(moved.position or "{}"), **of_scan}
    return replace(moved, position=json.dumps(scanned, sort_keys=True))
