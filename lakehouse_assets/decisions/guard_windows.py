"""Windows of a guard by a column of time: which wait, which a version touched, and what is on record. Pure functions.

Belongs here: records, decisions and file statistics → windows. Does not: reading a log or rows (guards/window_scan).
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.windows import Cadence, as_utc, next_start, window_start
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.guard_decision import may_be_window, rows_of

Records = Mapping[Batch, ExtractionRecord]


@dataclass(frozen=True)
class Scanned:
    """The last version whose changes were assigned to windows, with the table's id and the digest of its commit."""

    version: int
    table_id: str
    digest: str
    cut: str


def cut_of(column: str, cadence: str) -> str:
    """Return how windows are cut, as a record has it."""
    return f"{column}, {cadence}"


def last_scan(records: Records) -> Scanned | None:
    """Return the last scan on record; None before the first.

    It is the one of the highest version, since a record that is made again keeps the scan of the one before. Versions of a
    table that was there before count no more: those of the one that took its place begin anew.
    """
    scans = [(json.loads(record.position or "{}"), record) for record in records.values()]
    scans = [(position, record) for position, record in scans if "scanned" in position]
    if not scans:
        return None
    table_id = _table_of(max((record for _, record in scans), key=lambda record: record.extracted_at))
    of_table = [(position, record) for position, record in scans if _table_of(record) == table_id]
    position, _ = max(of_table, key=lambda scan: (scan[0]["scanned"], scan[1].extracted_at))
    return Scanned(position["scanned"], table_id, position["digest"], position["cut"])


def _table_of(record: ExtractionRecord) -> str:
    return record.fingerprint.partition("@")[0]


def is_window(record: ExtractionRecord | None) -> bool:
    """Whether a record is of a window, and not of the table as a whole."""
    return rows_of(record) == "window"


def windows_on_record(records: Records) -> dict[datetime, ExtractionRecord]:
    """Return each window's newest extraction."""
    return ledger.latest_extractions(record for record in records.values() if is_window(record))


def waiting_windows(records: Records, decisions: Sequence[Decision], cadence: Cadence, now: datetime) -> list[ExtractionRecord]:
    """Return the closed windows whose newest extraction nobody has judged, oldest first."""
    waiting = ledger.undecided_extractions([r for r in records.values() if is_window(r)], decisions)
    return [record for record in waiting if next_start(record.p_extracted_at, cadence) <= now]


def next_extraction(records: Records, decisions: Sequence[Decision], start: datetime) -> int:
    """Return the number of a window's extraction that takes new changes: the newest one, if nobody has judged it yet."""
    newest = max((seq for moment, seq in records if moment == start), default=0)
    return newest + 1 if newest == 0 or any(d.batch == (start, newest) for d in decisions) else newest


def unpublished_windows(records: Records, decisions: Sequence[Decision]) -> set[datetime]:
    """Return the windows whose newest extraction was accepted, and whose rows are not in the clean table."""
    windows = set()
    by_window: dict[datetime, list[Decision]] = {}
    for decision in decisions:
        if decision.p_extracted_at and decision.superseded_by is None and is_window(records.get(decision.batch)):
            by_window.setdefault(decision.p_extracted_at, []).append(decision)
    for start, of_window in by_window.items():
        last = max(of_window, key=lambda d: (d.extraction_seq, d.number))
        if last.accepted and last.applied_at and last.silver_version is None and last.counts.rows_published:
            windows.add(start)
    return windows


def published_windows(records: Records, decisions: Sequence[Decision]) -> set[datetime]:
    """Return the windows whose newest extraction was accepted, with rows."""
    newest = ledger.newest_by_window(ledger.current_decisions(decisions).values())
    return {start for start, d in newest.items() if d.accepted and d.counts.rows_published and is_window(records.get(d.batch))}


def covered_windows(low: Any, high: Any, cadence: Cadence) -> set[datetime] | None:
    """Return the window that a file's smallest and largest time lie in; None where they lie in several, or are not known."""
    try:
        starts = {window_start(as_utc(datetime.fromisoformat(str(each))), cadence) for each in (low, high)}
    except (ValueError, OverflowError):
        return None
    return starts if len(starts) == 1 else None  # more: the file is read


def moment_of_table(at: datetime, used_moments: Collection[datetime]) -> datetime:
    """Return the name of a batch of the table as a whole: the time of its version in milliseconds, which no window has."""
    moment = at.astimezone(UTC).replace(microsecond=at.microsecond // 1000 * 1000)
    while moment in used_moments or may_be_window(moment):
        moment += timedelta(milliseconds=1)
    return moment


def outside_on_record(records: Iterable[ExtractionRecord]) -> int | None:
    """Return the number of rows in no window that was recorded last; None before the first scan."""
    of_table = [record for record in records if rows_of(record) == "outside"]
    last = max(of_table, key=lambda record: record.extracted_at, default=None)
    return None if last is None else int(json.loads(last.position or "{}")["outside"])
