"""The content of a check's page: its rule, where it is declared, and its history over windows.

Belongs here: history → values of the page. Does not: markup (templates).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.checks.families import RowCheck
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.drift.messages import finding_of
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.pages import charts
from lakehouse_assets.pages.history import PageHistory, WindowState, outcomes_by_check
from lakehouse_assets.reports.check_text import BUILT_IN, DRIFT, describe_check

LISTED, STRIP = 100, 400
BAD = ("failed", "error")


@dataclass
class _CheckHistory:
    judged: list[tuple[WindowState, list[Mapping[str, Any]]]] = field(default_factory=list)
    alone: int = 0
    quarantined: int = 0


def check_views(history: PageHistory, spec: TableSpec | None) -> list[dict[str, Any]]:
    """Return the values of every check's page. ``spec``: today's rules, if they can be read."""
    by_check: dict[str, _CheckHistory] = {}
    for window in history.shown:
        if window.decision is None:
            continue
        groups = outcomes_by_check(window.decision)
        effective = {
            name
            for name, outcomes in groups.items()
            if any(o["effect"] in ("batch", "rows") and not o.get("waived") for o in outcomes)
        }
        for name, outcomes in groups.items():
            of_check = by_check.setdefault(name, _CheckHistory())
            of_check.judged.append((window, outcomes))
            of_check.quarantined += name in effective
            of_check.alone += effective == {name}
    declared = {check.id: check for check in spec.checks} if spec else {}
    return [_view(history, name, of_check, declared.get(name)) for name, of_check in sorted(by_check.items())]


def _view(history: PageHistory, name: str, of_check: _CheckHistory, check: Check | None) -> dict[str, Any]:
    newest = of_check.judged[-1][1]
    failures = [(w, outcomes) for w, outcomes in of_check.judged if any(o["status"] in BAD for o in outcomes)]
    return {
        "table": history.table,
        "name": name,
        "rule": rule_text(name, check),
        "sql": rule_sql(check),
        "kind": check.check if check else newest[0]["kind"],
        "severity": check.severity if check else newest[0]["severity"],
        "threshold": check.threshold if check else None,
        "effect": check.effect.replace("_", " ") if check else "",
        "declared_in": history.declared.checks.get(name) if history.declared else None,
        "is_built_in": name in BUILT_IN or name == "drift",
        "judged": len(of_check.judged),
        "failed": len(failures),
        "quarantined": of_check.quarantined,
        "alone": of_check.alone,
        "last": _status(newest),
        "strip": [(w, _status(outcomes)) for w, outcomes in of_check.judged[-STRIP:]],
        "failures": [
            (w, _message(outcomes), sum(o["failed_rows"] or 0 for o in outcomes)) for w, outcomes in failures[::-1][:LISTED]
        ],
        "more": max(len(failures) - LISTED, 0),
        "chart": _chart(of_check) if failures else None,
    }


def _status(outcomes: list[Mapping[str, Any]]) -> str:
    """Return the worst status of some outcomes."""
    if len(outcomes) == 1:
        status = str(outcomes[0]["status"])
        return status if status in ("error", "failed", "skipped") else "passed"
    statuses = {str(o["status"]) for o in outcomes}
    return next((status for status in ("error", "failed", "skipped") if status in statuses), "passed")


def _message(outcomes: list[Mapping[str, Any]]) -> str:
    return "; ".join(finding_of(o["message"]) or o["status"] for o in outcomes if o["status"] in BAD)


def _chart(of_check: _CheckHistory) -> charts.Chart:
    shown = of_check.judged[-charts.WINDOWS :]
    shares = []
    for window, outcomes in shown:
        rows = (window.decision.counts.rows_in if window.decision else 0) or 1
        failed = sum(o["failed_rows"] or 0 for o in outcomes)
        shares.append(min(failed / rows, 1.0) if failed else float(_status(outcomes) in BAD))
    return charts.check_chart([window for window, _ in shown], shares)


def rule_text(name: str, check: Check | None) -> str:
    """Return a check's rule in words."""
    if check is not None:
        return describe_check(check)
    return DRIFT if name == "drift" else BUILT_IN.get(name, "")


def rule_sql(check: Check | None) -> str:
    """Return the SQL of a check: the condition of a failing row, its own SQL, or the aggregates that it measures."""
    if check is None:
        return ""
    context = CheckContext(key=(), window_start_sql=":window_start", window_end_sql=":window_end", batch_view="batch")
    if own := getattr(check, "sql", None) or getattr(check, "expr", None):
        return str(own)
    try:
        if isinstance(check, RowCheck) and check.scope == "row":
            return f"-- a row fails where this is true\n{check.condition(context)}"
        return "\n".join(f"{name} = {sql}" for name, sql in check.metrics(context).items())
    except (NotImplementedError, LakehouseError, ValueError):
        return ""
