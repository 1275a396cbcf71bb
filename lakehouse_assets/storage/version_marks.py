"""The recorded version of silver (or gold) and its rows: by the marks *applied*, and by rebuilds since.

Belongs here: these entries of `ops/decisions`. Does not: the decisions themselves (logs).
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.commit_metadata import decode_step
from lakehouse_assets.storage.log_rows import DECISIONS, entry
from lakehouse_assets.storage.logs import view_decisions

REBUILT = "rebuilt"
ABANDONED = "given_up"
# How many of silver's newest commits are read for a rebuild's own.
COMMITS_READ = 20


class Mark(NamedTuple):
    """A recorded version, its rows (None without statistics), its time, and whether a rebuild made it."""

    version: int
    rows: int | None
    at: datetime
    rebuilt: bool


def count_rows(path: str) -> int | None:
    """Return the newest version's rows by file statistics; None if there is no table or a file lacks them."""
    return delta.snapshot(path).rows if delta.exists(path) else None


def read_last_mark(settings: Settings, table: str) -> Mark | None:
    """Return the newest recorded version; None before the first. ``table``: as in the logs. No JVM."""
    return find_last_mark(view_decisions(settings, table, lambda fold: fold.marks))


def find_last_mark(rows: Iterable[Mapping[str, Any]]) -> Mark | None:
    """Return the same from rows of the log, all of one table."""
    marks = [
        Mark(row["silver_version"], row["silver_rows"], row["applied_at"], row["event"] == REBUILT)
        for row in rows
        if row["event"] in ("applied", REBUILT) and row["silver_version"] is not None
    ]
    return max(marks, key=lambda mark: (mark.at, mark.version), default=None)


def was_rebuilt_since(settings: Settings, table: str, moment: datetime) -> bool:
    """Whether silver was rebuilt after a moment: its versions may then restart at 0."""
    rows = view_decisions(settings, table, lambda fold: fold.marks)
    return any(row["event"] == REBUILT and row["applied_at"] >= moment for row in rows)


def count_rebuilds(settings: Settings, table: str) -> int:
    """Return how many rebuilds of silver are on record."""
    rows = view_decisions(settings, table, lambda fold: fold.marks)
    return sum(row["event"] == REBUILT for row in rows)


def abandoned_decisions(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return ids of lost decisions that a person has given up. ``rows``: of the log, all of one table."""
    return {row["decision_id"] for row in rows if row["event"] == ABANDONED}


def log_abandoned(
    settings: Settings, table: str, ids: Collection[str], *, run_id: str, by: str, because: str, at: datetime
) -> None:
    """Record that these decisions are lost for good: by whom, why and when."""
    common = {"run_id": run_id, "by": by, "because": because, "decided_at": at}
    DECISIONS.append(settings, [entry(table, ABANDONED, decision_id=name, **common) for name in sorted(ids)])


def log_rebuilt(settings: Settings, table: str, run_id: str, at: datetime) -> None:
    """Record that silver was rebuilt completely: the version of the rebuild, and its rows by that commit's own metrics."""
    path = settings.path("silver", table)
    version, rows = _find_rebuild(path) or (delta.version(path), count_rows(path))
    mark_version(settings, table, run_id, at, version, rows)


def _find_rebuild(path: str) -> tuple[int, int | None] | None:
    """Return version and rows of the newest commit that replaced all of silver's rows; None if it is not among the last ones.
    What other programs commit after it is no part of the mark.
    """
    for commit in delta.open_table(path).history(COMMITS_READ):
        if commit.get("operation") == "WRITE" and decode_step(commit.get("userMetadata"))[0] == "rebuild":
            rows = (commit.get("operationMetrics") or {}).get("numOutputRows")
            return commit["version"], None if rows is None else int(rows)
    return None


def mark_version(settings: Settings, table: str, run_id: str, at: datetime, version: int, rows: int | None) -> None:
    """Record a version after all existing marks, whatever the clock says."""
    last = read_last_mark(settings, table)
    DECISIONS.append(settings, [version_row(table, run_id, at, version, rows, [last] if last else [])])


def version_row(
    table: str, run_id: str, at: datetime, version: int, rows: int | None, earlier: Collection[Mark]
) -> dict[str, Any]:
    """Return the row that records a version, with a time after the ``earlier`` marks."""
    at = max([at, *(mark.at + timedelta(microseconds=1) for mark in earlier)])
    mark = {"silver_version": version, "silver_rows": rows, "applied_at": at}
    return entry(table, REBUILT, run_id=run_id, **mark)
