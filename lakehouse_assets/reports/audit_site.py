"""The pages of the audits: records → HTML, from templates in a sandbox. Every name and value is escaped; the pages have no
script and request nothing from the network.

Belongs here: the data of each page. Does not: reading records or writing files (audit/pages), how pages look (templates).
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from lakehouse_assets.contracts.audit import AuditRecord, AuditRules
from lakehouse_assets.decisions.audit.verdict import find_unmatched, format_percent
from lakehouse_assets.reports.drift import HEADER
from lakehouse_assets.reports.markdown import escape_controls

TEMPLATES = Path(__file__).with_name("audit_pages")
WIDTH, BAR_WIDTH, BAR_HEIGHT = 160.0, 420.0, 26  # of charts; the templates hold the SVG
SHOWN_AUDITS, SHOWN_ROWS, SHOWN_GROUPS = 12, 2000, 15
ORDER = ("exception", "fail", "inconclusive", "pass")
SEVERITIES = ("critical", "warning", "info")


@dataclass(frozen=True)
class DriftedWindow:
    """One window that drifted. ``features``: cells below `reports.drift.HEADER`, the strangest first. ``picture``: an image of
    the worst one, as a data URI.
    """

    window: str
    verdict: str
    p_value: float | None
    why: str
    features: tuple[Sequence[Any], ...] = ()
    picture: str | None = None


@dataclass(frozen=True)
class TableContext:
    """A table's other facts. ``figures``: counts of batches and rows, by name. ``drift``: drifted windows, newest first."""

    figures: tuple[tuple[str, int], ...] = ()
    drift: tuple[DriftedWindow, ...] = ()


def page_path(table: str) -> str:
    """Return a table's path within the site, in plain letters."""
    plain = re.sub(r"[^a-z0-9_]+", "-", table.lower()).strip("-")[:60]
    return f"tables/{plain}-{hashlib.sha256(table.encode()).hexdigest()[:8]}.html"


def build_site(
    audits: Sequence[AuditRecord],
    rules: AuditRules,
    contexts: Mapping[str, TableContext],
    made_at: datetime,
    tables: Sequence[str],
) -> dict[str, str]:
    """Return ``{path: HTML}`` of every page. ``audits``: all audits, oldest first. ``tables``: tables on disk; those never
    audited are named, and those that are gone are shown with their last audit.
    """
    history: dict[str, list[AuditRecord]] = {}
    for record in audits:
        history.setdefault(record.table, []).append(record)
    newest = {table: ([r for r in history[table] if not r.as_of] or history[table])[-1] for table in sorted(history)}
    bound = {name for record in newest.values() for name, _ in record.bindings}
    unmatched = find_unmatched(rules.rules, {table: tuple(record.schema) for table, record in newest.items()}, bound)
    results = [(table, result) for table, record in newest.items() for result in record.results]
    of_rules = {rule.name: [(table, r) for table, r in results if r["rule"] == rule.name] for rule in rules.rules}
    pages = {
        "index.html": render(
            "overview",
            root="",
            made_at=made_at,
            tables=[(record, _counts(record.results), history[table][-SHOWN_AUDITS:]) for table, record in newest.items()],
            missing=[table for table in tables if table not in history],
            gone=[table for table in newest if table not in tables],
            unmatched=unmatched,
            rules=[(rule, _counts(result for _, result in of_rules[rule.name])) for rule in rules.rules],
        )
    }
    for table, record in newest.items():
        values = _table_values(record, history[table], rules)
        context = contexts.get(table, TableContext())
        pages[page_path(table)] = render("table", root="../", made_at=made_at, beside=context, **values)
    for rule in rules.rules:
        unfit = [(table, column, why) for table, r in newest.items() for name, column, why in r.unfit if name == rule.name]
        pages[_rule_page(rule.name)] = render(
            "rule",
            root="../",
            made_at=made_at,
            rule=rule,
            promise={key: _parameter_text(value) for key, value in rule.check.items()},
            # Without this machine's folders.
            place="/".join(rules.locations.get(rule.name, "").split("/")[-2:]),
            unmatched=[each for each in unmatched if each.rule == rule.name],
            bound=[(table, _result_values(result)) for table, result in of_rules[rule.name]],
            unfit=unfit,
        )
    return pages


def _parameter_text(value: Any) -> str:
    """Return a parameter of a rule's check as text: of a list its values, of a mapping its pairs."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _rule_page(name: str) -> str:
    return f"rules/{name}.html"


def _counts(results: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count results by status."""
    return dict.fromkeys(ORDER, 0) | Counter(result["status"] for result in results)


def _table_values(record: AuditRecord, history: Sequence[AuditRecord], rules: AuditRules) -> dict[str, Any]:
    current = [other for other in history if not other.as_of]
    before = next((other for other in reversed(current) if other is not record), None)
    ordered = sorted(
        record.results, key=lambda r: (ORDER.index(r["status"]), SEVERITIES.index(r["severity"]), r["rule"], list(r["columns"]))
    )
    return {
        "audit": record,
        "trend": history[-SHOWN_AUDITS:],
        "results": [_result_values(result) for result in ordered[:SHOWN_ROWS]],
        "known_rules": {rule.name for rule in rules.rules},
        "left_out": max(len(ordered) - SHOWN_ROWS, 0),
        "groups": _distribution(record),
        "before": before,
        "changes": _changes(before, record) if before else [],
        "schemas": _schemas([other for other in current if other.schema]),
    }


def _result_values(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with the data of its chart."""
    share = result["share"]
    if not share:
        return {**result, "observed": None, "chart": None}
    return {
        **result,
        "observed": format_percent(share["estimate"]),
        "range": "every row" if share["exact"] else f"{format_percent(share['low'])} to {format_percent(share['high'])}",
        "chart": interval(share["low"], share["estimate"], share["high"], result["threshold"]),
    }


def interval(low: float, estimate: float, high: float, threshold: float) -> dict[str, float]:
    """Return coordinates of a share, its interval and its threshold on a line of ``WIDTH``, which ends at 100 %."""
    start = max(min(low, threshold) - 0.05, 0.0)

    def coordinate(share: float) -> float:
        return round((share - start) / max(1.0 - start, 1e-9) * (WIDTH - 8) + 4, 1)

    return {
        "low": coordinate(low),
        "high": max(coordinate(high), coordinate(low) + 1),
        "at": coordinate(estimate),
        "promised": coordinate(threshold),
    }


def bars(groups: Sequence[tuple[str, float, float]]) -> dict[str, Any]:
    """Return two bars for each group (share of the table, share of the sample); the greatest is ``BAR_WIDTH`` wide."""
    most = max((share for _, *shares in groups for share in shares), default=0.0) or 1.0
    rows = [
        {"name": name if len(name) <= 24 else name[:23] + "…", "y": n * BAR_HEIGHT, "raw": a, "sampled": b,
         "raw_width": round(a / most * BAR_WIDTH, 1), "sampled_width": round(b / most * BAR_WIDTH, 1)}
        for n, (name, a, b) in enumerate(groups)
    ]  # fmt: skip
    return {"rows": rows, "height": len(groups) * BAR_HEIGHT + 4}


def _distribution(record: AuditRecord) -> dict[str, Any] | None:
    """Return both distributions side by side: shares of the table and of the sample, the most frequent groups first."""
    raw, sampled = record.raw_data_distribution, record.sample_data_distribution
    if not raw:
        return None
    total, sampled_total = max(sum(raw.values()), 1), max(sum(sampled.values()), 1)
    names = sorted(raw, key=lambda name: (-raw[name], name))
    rows = [(name, raw[name], raw[name] / total, sampled.get(name, 0), sampled.get(name, 0) / sampled_total) for name in names]
    chart = bars([(name, share, sampled_share) for name, _, share, _, sampled_share in rows[:SHOWN_GROUPS]])
    return {"rows": rows[:200], "more": max(len(rows) - 200, 0), "chart": chart}


def _changes(before: AuditRecord, now: AuditRecord) -> list[str]:
    """Return sentences about the differences since the last audit."""
    sentences = []
    if before.total_raw_records is not None and now.total_raw_records is not None:
        sentences.append(f"rows: {before.total_raw_records:,} then, {now.total_raw_records:,} now")
    if before.ruleset_hash != now.ruleset_hash:
        sentences.append(f"the rules are others: {before.ruleset_hash} then, {now.ruleset_hash} now")
    old = {(r["rule"], tuple(r["columns"])): r for r in before.results}
    for result in now.results:
        earlier = old.get((result["rule"], tuple(result["columns"])))
        subject = f"{result['rule']} of {', '.join(result['columns'])}"
        if earlier is None:
            sentences.append(f"{subject}: new")
        elif earlier["status"] != result["status"]:
            sentences.append(f"{subject}: {earlier['status']} then, {result['status']} now")
        elif (a := earlier["share"]) and (b := result["share"]) and (a["low"] > b["high"] or b["low"] > a["high"]):
            passed = f"{format_percent(a['estimate'])} passed then, {format_percent(b['estimate'])} now"
            sentences.append(f"{subject}: {passed}; the two intervals do not meet")
    return sentences + [f"{rule} lost its column {column}" for rule, column in now.lost]


def _schemas(history: Sequence[AuditRecord]) -> list[tuple[datetime, int | None, list[str]]]:
    """Return when the columns changed, newest first."""
    changes: list[tuple[datetime, int | None, list[str]]] = []
    old: Mapping[str, str] | None = None
    for record in history:
        new = record.schema
        if old is None:
            changes.append((record.started_at, record.version, [f"{len(new)} columns"]))
        elif old != new:
            differences = [f"added {name}: {new[name]}" for name in new if name not in old]
            differences += [f"gone {name}: {old[name]}" for name in old if name not in new]
            differences += [f"{name}: {old[name]} became {new[name]}" for name in new if name in old and old[name] != new[name]]
            changes.append((record.started_at, record.version, differences))
        old = new
    return changes[::-1]


def _finalize(value: Any) -> Any:
    """Escape control characters of a text; what a template has rendered already stays as it is."""
    return escape_controls(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


@cache
def _templates() -> SandboxedEnvironment:
    environment = SandboxedEnvironment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.globals["drift_header"] = HEADER
    environment.filters |= {
        "percent": format_percent,
        "moment": lambda at: f"{at:%Y-%m-%d %H:%M} UTC",
        "number": lambda value: "unknown" if value is None else f"{value:,}",
        "verdict": lambda verdict: verdict.replace("_with_", ", with "),
        "table_page": page_path,
        "rule_page": _rule_page,
    }
    return environment


def render(name: str, **values: Any) -> str:
    """Return a page of one of the templates."""
    return _templates().get_template(f"{name}.html.j2").render(values)
