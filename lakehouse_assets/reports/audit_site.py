"""The pages of the audits: records → HTML, from templates in a sandbox; every name and value is escaped.

Belongs here: what each page is given. Does not: reading records, or writing files (layers/audit_pages), how pages look
(templates). The pages have no script and ask the network for nothing.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from lakehouse_assets.contracts.audit import AuditRule, AuditRules
from lakehouse_assets.contracts.audit_record import AuditRecord
from lakehouse_assets.decisions.audit import Unmatched, percent, unmatched
from lakehouse_assets.reports.audit_charts import bars, interval
from lakehouse_assets.reports.drift import HEADER

TEMPLATES = Path(__file__).with_name("audit_pages")
SHOWN_AUDITS, SHOWN_ROWS, SHOWN_GROUPS = 12, 2000, 15
WORDS = {
    "passed": "passed",
    "passed_with_infos": "passed, with infos",
    "passed_with_warnings": "passed, with warnings",
    "stopped": "stopped",
}
ORDER = {"exception": 0, "fail": 1, "inconclusive": 2, "pass": 3}
SEVERITIES = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class Drifted:
    """One window that drifted. ``features``: cells below `reports.drift.HEADER`, the strangest first. ``picture``: an image of
    the one that is told, as a data URI.
    """

    window: str
    verdict: str
    p_value: float | None
    why: str
    features: tuple[Sequence[Any], ...] = ()
    picture: str | None = None


@dataclass(frozen=True)
class Beside:
    """What else is known of a table. ``figures``: name and number, of its batches and rows. ``drift``: its last windows that
    drifted, the newest first.
    """

    figures: tuple[tuple[str, int], ...] = ()
    drift: tuple[Drifted, ...] = ()


def page_of(table: str) -> str:
    """Where a table's page is within the site: plain letters, whatever the folder is called."""
    return f"tables/{_file(table)}"


def _file(name: str) -> str:
    plain = re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")[:60]
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.html"


def site(
    known: Sequence[AuditRecord], rules: AuditRules, beside: Mapping[str, Beside], made_at: datetime, there: Sequence[str]
) -> dict[str, str]:
    """``{path: HTML}`` of every page. ``known``: all audits, oldest first. ``there``: tables on disk; those that were never
    audited are named, those that are gone are shown with their last audit.
    """
    history: dict[str, list[AuditRecord]] = {}
    for record in known:
        history.setdefault(record.table, []).append(record)
    current = {table: [r for r in found if not r.as_of] for table, found in history.items()}
    newest = {table: (found or history[table])[-1] for table, found in current.items()}
    open_rules = _unmatched(rules, newest)
    common = {"made_at": made_at, "words": WORDS, "drift_header": HEADER}
    pages = {
        "index.html": _render(
            "overview",
            root="",
            **common,
            tables=[_line(newest[table], history[table]) for table in sorted(newest)],
            missing=[table for table in there if table not in history],
            gone=[table for table in sorted(history) if table not in there],
            unmatched=[(u, _rule_page(u.rule)) for u in open_rules],
            rules=[(rule, _rule_page(rule.name), _asked(rule, newest)) for rule in rules.rules],
        )
    }
    for table, record in newest.items():
        pages[page_of(table)] = _render(
            "table", root="../", **common, **_table(record, history[table], beside.get(table, Beside()), rules)
        )
    for rule in rules.rules:
        pages[_rule_page(rule.name)] = _render(
            "rule",
            root="../",
            **common,
            rule=rule,
            promise=dict(rule.check),
            place=_short((rules.places or {}).get(rule.name, "")),
            threshold=percent(rule.threshold),
            unmatched=[u for u in open_rules if u.rule == rule.name],
            bound=[
                (table, page_of(table), _result(found))
                for table, record in sorted(newest.items())
                for found in record.results
                if found["rule"] == rule.name
            ],
            unfit=[
                (table, page_of(table), column, why)
                for table, record in sorted(newest.items())
                for name, column, why in record.unfit
                if name == rule.name
            ],
        )
    return pages


def _unmatched(rules: AuditRules, newest: Mapping[str, AuditRecord]) -> list[Unmatched]:
    bound = {name for record in newest.values() for name, _ in record.bindings}
    return unmatched(rules.rules, {table: tuple(record.schema) for table, record in newest.items()}, bound)


def _rule_page(name: str) -> str:
    return f"rules/{name}.html"


def _short(place: str) -> str:
    """A place without this machine's folders."""
    return "/".join(place.split("/")[-2:])


def _asked(rule: AuditRule, newest: Mapping[str, AuditRecord]) -> dict[str, int]:
    """How many columns gave which answer."""
    found = dict.fromkeys(ORDER, 0)
    for record in newest.values():
        for result in record.results:
            if result["rule"] == rule.name:
                found[result["status"]] += 1
    return found


def _line(record: AuditRecord, history: Sequence[AuditRecord]) -> dict[str, Any]:
    counts = dict.fromkeys(ORDER, 0)
    for result in record.results:
        counts[result["status"]] += 1
    return {"audit": record, "page": page_of(record.table), "counts": counts, "trend": history[-SHOWN_AUDITS:]}


def _table(record: AuditRecord, history: Sequence[AuditRecord], beside: Beside, rules: AuditRules) -> dict[str, Any]:
    earlier = [found for found in history if not found.as_of and found is not record]
    before = earlier[-1] if earlier else None
    ordered = sorted(
        record.results, key=lambda r: (ORDER[r["status"]], SEVERITIES[r["severity"]], r["rule"], list(r["columns"]))
    )
    names = {rule.name for rule in rules.rules}
    return {
        "audit": record,
        "trend": history[-SHOWN_AUDITS:],
        "results": [
            {**_result(r), "page": _rule_page(r["rule"]) if r["rule"] in names else None} for r in ordered[:SHOWN_ROWS]
        ],
        "left_out": max(len(ordered) - SHOWN_ROWS, 0),
        "groups": _groups(record),
        "before": before,
        "changes": _changes(before, record) if before else [],
        "schemas": _schemas([found for found in history if not found.as_of and found.schema]),
        "beside": beside,
    }


def _result(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result with what is drawn of it."""
    share = result["share"]
    shown: dict[str, Any] = {**result, "promised": percent(result["threshold"]), "observed": None, "range": None, "chart": None}
    if share:
        shown["observed"] = percent(share["estimate"])
        shown["range"] = "every row" if share["exact"] else f"{percent(share['low'])} to {percent(share['high'])}"
        shown["chart"] = interval(share["low"], share["estimate"], share["high"], result["threshold"])
    return shown


def _groups(record: AuditRecord) -> dict[str, Any] | None:
    """The two distributions side by side: shares of the table and of the sample, the most frequent groups first."""
    raw, sampled = record.raw_data_distribution, record.sample_data_distribution
    if not raw:
        return None
    whole, drawn = max(sum(raw.values()), 1), max(sum(sampled.values()), 1)
    names = sorted(raw, key=lambda name: (-raw[name], name))
    rows = [(name, raw[name], raw[name] / whole, sampled.get(name, 0), sampled.get(name, 0) / drawn) for name in names]
    return {
        "rows": rows[:200],
        "more": max(len(rows) - 200, 0),
        "chart": bars([(r[0], r[2], r[4]) for r in rows[:SHOWN_GROUPS]]),
    }


def _changes(before: AuditRecord, now: AuditRecord) -> list[str]:
    """What is different since the last audit, in sentences."""
    found = []
    if before.total_raw_records is not None and now.total_raw_records is not None:
        found.append(f"rows: {before.total_raw_records:,} then, {now.total_raw_records:,} now")
    if before.ruleset_hash != now.ruleset_hash:
        found.append(f"the rules are others: {before.ruleset_hash} then, {now.ruleset_hash} now")
    old = {(r["rule"], tuple(r["columns"])): r for r in before.results}
    for result in now.results:
        then = old.get((result["rule"], tuple(result["columns"])))
        what = f"{result['rule']} of {', '.join(result['columns'])}"
        if then is None:
            found.append(f"{what}: new")
        elif then["status"] != result["status"]:
            found.append(f"{what}: {then['status']} then, {result['status']} now")
        elif then["share"] and result["share"] and _apart(then["share"], result["share"]):
            a, b = percent(then["share"]["estimate"]), percent(result["share"]["estimate"])
            found.append(f"{what}: {a} passed then, {b} now; the two intervals do not meet")
    return found + [f"{rule} lost its column {column}" for rule, column in now.lost]


def _apart(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return then["low"] > now["high"] or now["low"] > then["high"]


def _schemas(history: Sequence[AuditRecord]) -> list[tuple[datetime, int | None, list[str]]]:
    """When the columns changed, newest first."""
    found: list[tuple[datetime, int | None, list[str]]] = []
    old: Mapping[str, str] | None = None
    for record in history:
        new = record.schema
        if old is None:
            found.append((record.started_at, record.version, [f"{len(new)} columns"]))
        elif old != new:
            told = [f"added {name}: {new[name]}" for name in new if name not in old]
            told += [f"gone {name}: {old[name]}" for name in old if name not in new]
            told += [f"{name}: {old[name]} became {new[name]}" for name in new if name in old and old[name] != new[name]]
            found.append((record.started_at, record.version, told))
        old = new
    return found[::-1]


@cache
def _templates() -> SandboxedEnvironment:
    found = SandboxedEnvironment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.filters["percent"] = percent
    found.filters["moment"] = lambda at: f"{at:%Y-%m-%d %H:%M} UTC"
    found.filters["number"] = lambda value: "unknown" if value is None else f"{value:,}"
    return found


def _render(name: str, **given: Any) -> str:
    return _templates().get_template(f"{name}.html.j2").render(given)
