"""The overview: a summary of each table, and which of them needs a person first.

Belongs here: history → a summary as JSON values; summaries → the order and lateness of a moment. Does not: markup (templates).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from lakehouse_assets.contracts.windows import Window, window_at
from lakehouse_assets.decisions.gate import group_of
from lakehouse_assets.pages.history import PageHistory, bad_outcomes
from lakehouse_assets.pages.names import check_path, table_path
from lakehouse_assets.pages.table_view import why

STRIP = 60
Summary = dict[str, Any]


def summary(history: PageHistory) -> Summary:
    """Return a table's row of the overview, as JSON values: it is stored until the table changes."""
    timeline = history.timeline[-STRIP:]
    newest = next((w for w in reversed(history.windows) if w.decision), None)
    decision = newest.decision if newest else None
    quarantined = history.quarantined
    rows = [w.decision.counts.rows_in for w in history.windows[-STRIP:] if w.decision]
    starts = [w.start for w in history.windows if w.start]
    return {
        "table": history.table,
        "path": table_path(history.table),
        "left_yaml": history.declared is None,
        "notes": len(history.notes),
        "strip": [[w.state, w.tip, w.path] for w in timeline],
        "newest": [newest.name, newest.path, newest.state] if newest else None,
        "newest_start": max(starts).isoformat() if starts else None,
        "began": min(record.extracted_at for record in history.extractions).isoformat() if history.extractions else None,
        "cadence": history.cadence,
        "end": history.extraction.end.isoformat() if history.extraction and history.extraction.end else None,
        "rows": [rows[-1], median(rows)] if rows else None,
        "quarantined": [
            [w.name, w.path, why(w)] for w in quarantined[:3]
        ],
        "quarantined_windows": len(quarantined),
        "quarantined_rows": sum(w.decision.counts.rows_quarantined for w in quarantined if w.decision),
        "missing": len(history.missing),
        "waiting": sum(w.state == "waiting" for w in history.windows),
        "drift": _worst_drift(history),
        "failing": [
            [name, check_path(history.table, name)]
            for name in dict.fromkeys(group_of(o["check"]) for o in (bad_outcomes(decision) if decision else ()))
        ][:5],
    }  # fmt: skip


def _worst_drift(history: PageHistory) -> list[Any] | None:
    """Return name, page, p-value and message of the strangest window among the newest."""
    judged = [w for w in history.shown[-STRIP:] if w.decision and w.decision.drift_p_value is not None]
    if not judged:
        return None
    strangest = min(
        judged, key=lambda w: w.decision.drift_p_value if w.decision and w.decision.drift_p_value is not None else 2.0
    )
    decision = strangest.decision
    message = (decision.drift or {}).get("message") or "" if decision else ""
    return [strangest.name, strangest.path, decision.drift_p_value if decision else None, message]


def overview(summaries: Sequence[Summary], audits: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the values of the overview: tables that need a person first. ``audits``: the last audit's verdict by table.

    `missing_after`: how many of the missing windows come after their table's newest. A table that never ran has no summary.
    """
    rows = [{**each, **missing_windows(each, now), "audit": _audit_of(each["table"], audits)} for each in summaries]
    rows.sort(key=lambda row: (*(-figure for figure in _needs(row)), row["table"]))
    return {
        "rows": rows,
        "quarantined": [row for row in rows if row["quarantined_windows"]],
        "tables": len(rows),
        "windows_in_quarantine": sum(row["quarantined_windows"] for row in rows),
        "rows_in_quarantine": sum(row["quarantined_rows"] for row in rows),
        "late": sum(bool(row["late"]) for row in rows),
        "missing": sum(row["missing"] for row in rows),
        "missing_after": sum(row["missing"] for row in rows) - sum(each["missing"] for each in summaries),
    }


def _needs(row: Mapping[str, Any]) -> tuple[int, ...]:
    """Return why a table needs a person, the strongest reason first: greater is more urgent."""
    stopped = (row["audit"] or [""])[0] == "stopped"
    return (
        int(bool(row["quarantined_windows"])),
        int(stopped),
        row["missing"],
        row["waiting"],
        len(row["failing"]),
    )


def _audit_of(table: str, audits: Mapping[str, Any]) -> Any:
    name = f"gold/{table.removeprefix('gold_')}" if table.startswith("gold_") else f"silver/{table}"
    return audits.get(name)


def missing_windows(row: Mapping[str, Any], now: datetime) -> dict[str, int]:
    """Return how many closed windows were never ingested (``missing``), and how many of them are ``late``, as in `heal
    status`. A window is late if a later one was ingested, or if it ended longer ago than it lasts. Windows that ended before
    the table's first ingestion are late only for the first reason.
    """
    if not row["newest_start"] or row["cadence"] in (None, "moment"):
        return {"missing": row["missing"], "late": row["missing"]}
    newest = window_at(datetime.fromisoformat(row["newest_start"]), row["cadence"])
    length, instant = newest.end - newest.start, timedelta(microseconds=1)
    aged = _windows_after(newest, row, now - length - instant)
    history = _windows_after(newest, row, datetime.fromisoformat(row["began"]) - instant) if row.get("began") else 0
    return {"missing": row["missing"] + _windows_after(newest, row, now), "late": row["missing"] + max(aged - history, 0)}


def _windows_after(newest: Window, row: Mapping[str, Any], moment: datetime) -> int:
    """Return how many windows after the newest have ended by a moment."""
    end = min(moment, datetime.fromisoformat(row["end"])) if row["end"] else moment
    if row["cadence"] == "monthly":
        return max((end.year - newest.end.year) * 12 + end.month - newest.end.month, 0)
    length = newest.end - newest.start
    return max(int((end - newest.end) / length), 0) if length > timedelta(0) else 0
