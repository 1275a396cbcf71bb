"""The audits' pages, written from `ops/audits` and the decisions: all of them, since each is small and made of records alone.

Belongs here: reading what the pages show, writing files whole. Does not: HTML (reports/audit_site), auditing (audit). No JVM.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from lakehouse_assets.contracts.audit import AuditRules
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.layers.explain import drift_plot
from lakehouse_assets.reports.audit_site import Beside, Drifted, page_of, site
from lakehouse_assets.reports.drift import feature_rows
from lakehouse_assets.reports.plots import address
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import audits, logs
from lakehouse_assets.storage.whole import write_whole

SHOWN_DRIFT, SHOWN_FEATURES, DRAWN = 10, 10, 3


def write_pages(settings: Settings, rules: AuditRules, made_at: datetime) -> Path:
    """Write the site; returns its first page. A page is replaced as a whole: a reader never sees half of one."""
    known = audits.records(settings)
    there = [table for stage in ("silver", "gold") for table in audits.tables_below(settings, stage)]
    beside = {table: _beside(settings, table) for table in {record.table for record in known}}
    folder = settings.pages
    for path, html in site(known, rules, beside, made_at, there).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, html.encode())
    return folder / "index.html"


def page(settings: Settings, table: str) -> Path:
    """The file of one table's page."""
    return settings.pages / page_of(table)


def _beside(settings: Settings, table: str) -> Beside:
    """What the gate has decided of this table, if it knows it."""
    stage, _, name = table.partition("/")
    known = logs.decisions(settings, f"gold_{name}" if stage == "gold" else name, evidence=False, checks=True)
    if not known:
        return Beside()
    standing = list(ledger.standing(known).values())
    held = ledger.held(known)
    figures = (
        ("batches judged", len({d.batch for d in known})),
        ("batches held now", len(held)),
        ("rows held now", sum(d.counts.rows_quarantined for d in standing)),
        ("rows published", sum(d.counts.rows_published for d in standing)),
    )
    drifted = [
        (d, o)
        for d in known
        if d.superseded_by is None
        for o in d.checks
        if o["check"] == "drift" and o["status"] in ("failed", "error")
    ]
    return Beside(figures, _drift(settings, name, drifted[-SHOWN_DRIFT:][::-1]))


def _drift(settings: Settings, table: str, drifted: Sequence[tuple[Decision, Mapping[str, Any]]]) -> tuple[Drifted, ...]:
    """Windows, newest first; of the first few with a picture, for which each reads the baseline of its decision."""
    starts = sorted(d.p_extracted_at for d, _ in drifted if d.p_extracted_at)
    told = logs.drift_of(settings, table, starts[0], starts[-1]) if starts else {}
    drawn = [d for d, _ in drifted if d.p_extracted_at][:DRAWN]
    pictures = {d.decision_id: _picture(settings, d) for d in logs.with_evidence(settings, table, drawn, ["drift", "profiles"])}
    return tuple(
        Drifted(
            f"{d.p_extracted_at:%Y-%m-%d %H:%M}" if d.p_extracted_at else "whole table",
            d.verdict.replace("_", " "),
            d.drift_p_value,
            outcome["message"],
            tuple(feature_rows(told.get(d.decision_id, {}))[:SHOWN_FEATURES]),
            pictures.get(d.decision_id),
        )
        for d, outcome in drifted
    )


def _picture(settings: Settings, decision: Decision) -> str | None:
    """The decision's plot as a data URI, by the rules of then: the table may have others by now, or none. None where those
    would be refused today.
    """
    try:
        drawn = drift_plot(settings, TableSpec.kept(decision.ruleset), decision)
    except (ValueError, LakehouseError):
        return None
    return address(drawn) if drawn else None
