"""The content of a table's page: its windows at a glance, what became of their rows, and what waits for a person.

Belongs here: history → values of the page. Does not: charts' series (charts), markup (templates).
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from lakehouse_assets.decisions.drift.messages import finding_of
from lakehouse_assets.pages import charts
from lakehouse_assets.pages.history import STATES, PageHistory, WindowState, bad_outcomes, worst
from lakehouse_assets.pages.names import check_path

YEARS, LISTED = 3, 60
Lineage = Mapping[str, Sequence[tuple[str, str, str]]]  # column → gold table, its column, its page


def table_view(history: PageHistory, lineage: Lineage, checks: Sequence[Mapping[str, Any]], audit: Any) -> dict[str, Any]:
    """Return the values of a table's page. ``lineage``: gold column by column. ``checks``: the rows of the list of checks."""
    windows = history.timeline
    counts = {state: sum(w.state == state for w in windows) for state in STATES}
    extracted = [w for w in history.windows if w.state == "waiting"]
    without_page = len(history.windows) - sum(w.path is not None for w in history.windows)
    return {
        "table": history.table,
        "declared": history.declared,
        "notes": history.notes,
        "counts": {state: count for state, count in counts.items() if count},
        "years": calendar_years(windows),
        "versions": [w for w in windows if w.start is None][-LISTED:],
        "quarantined": [(w, why(w)) for w in history.quarantined[:LISTED]],
        "more_quarantined": max(len(history.quarantined) - LISTED, 0),
        "missing": [w.key for w in history.missing],
        "extracted": extracted[:LISTED],
        "without_page": without_page,
        "total": len(history.windows),
        "charts": named_charts(history),
        "features": charts.feature_charts(history),
        "marks": [(name, text, history.path_of(name)) for name, text in charts.schema_marks(history)[-LISTED:]],
        "checks": checks,
        "lineage": lineage,
        "audit": audit,
        "newest": history.windows[-1] if history.windows else None,
    }


def named_charts(history: PageHistory) -> list[tuple[str, str, charts.Chart]]:
    """Return id, heading and figure of each chart that has something to show."""
    drawn = [
        ("rows", "Rows of each window", charts.rows_chart(history)),
        ("failing", "Share of rows failing, by check", charts.failing_chart(history)),
        ("missing", "Missing values, by column", charts.missing_chart(history)),
        ("drift", "Drift: p-value of each window", charts.p_value_chart(history)),
    ]
    return [(name, heading, chart) for name, heading, chart in drawn if chart]


def why(window: WindowState) -> str:
    """Return the message of the first check that quarantines a window."""
    if window.decision is None:
        return ""
    bad = bad_outcomes(window.decision)
    if bad:
        return f"{bad[0]['check']}: {finding_of(bad[0]['message'])}"
    return "; ".join(f"{reason.check}: {finding_of(reason.message)}" for reason in window.decision.reasons)


def calendar_years(windows: Sequence[WindowState]) -> list[dict[str, Any]]:
    """Return the newest years, each as weeks of days: the worst state of a day's windows, and the worst window's page."""
    by_day: dict[date, list[WindowState]] = {}
    for window in windows:
        if window.start:
            by_day.setdefault(window.start.date(), []).append(window)
    years = sorted({day.year for day in by_day}, reverse=True)
    return [_year(year, by_day) for year in years[:YEARS]]


def _year(year: int, by_day: Mapping[date, Sequence[WindowState]]) -> dict[str, Any]:
    first = date(year, 1, 1)
    cells, day = [], first
    while day.year == year:
        # A column a week, a row a weekday, Monday first.
        week = (day - first + timedelta(days=first.weekday())).days // 7
        if of_day := by_day.get(day):
            cells.append({"week": week + 1, "weekday": day.weekday() + 1, **_day(day, of_day)})
        if day == date.max:
            break
        day += timedelta(days=1)
    months = [
        {"week": (date(year, m, 1) - first + timedelta(days=first.weekday())).days // 7 + 1, "name": _MONTHS[m - 1]}
        for m in range(1, 13)
    ]
    return {"year": year, "cells": cells, "months": months}


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _day(day: date, windows: Sequence[WindowState]) -> dict[str, Any]:
    state = worst(window.state for window in windows)
    of_state = [window for window in windows if window.state == state]
    chosen = next((window for window in of_state if window.path), of_state[0])
    tip = chosen.tip if len(windows) == 1 else f"{day}: {len(windows)} windows, {len(of_state)} of them {chosen.label}"
    return {"state": state, "tip": tip, "path": chosen.path}


def check_list(history: PageHistory, views: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the list of checks, those that fail most first."""
    rows = [
        {"name": view["name"], "path": check_path(history.table, view["name"]), "rule": view["rule"],
         "severity": view["severity"], "failed": view["failed"], "judged": view["judged"],
         "alone": view["alone"], "last": view["last"]}
        for view in views
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row["failed"], row["name"]))
