"""Rows of the CLI's listings, from decisions.

Belongs here: which columns a listing has. Does not: printing (cli).
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from lakehouse_assets.contracts.decision import Decision, Reason
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.naming import shorten

BATCH_FIELDS = ("table", "p_extracted_at", "extraction_seq", "decision_id", "kind", "verdict")
DECISION_FIELDS = (
    *("drift_p_value", "baseline_version", "ruleset_hash", "bronze_version", "silver_version", "superseded_by", "inputs"),
    *("waived", "by", "because", "run_id", "decided_at", "applied_at"),
)


def verdict_rows(decisions: Iterable[Decision], *, full: bool) -> list[dict[str, Any]]:
    """Return a row for each batch's last applied decision. ``full``: with every field; else what fits a terminal."""
    applied = [d for d in decisions if d.applied_at is not None]
    row = _full_row if full else _short_row
    return [row(d) for d in _sorted(d for of_table in _by_table(applied).values() for d in current_batches(of_table))]


def check_rows(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """Return a row per decision and check, passes included, for a terminal; one row for a decision without checks."""
    no_check: dict[str, Any] = dict.fromkeys(("check", "severity", "status", "failed_rows", "message"))
    return [
        {
            **_batch_columns(d),
            "check": check["check"],
            "severity": check["severity"],
            "status": f"{check['status']} (waived)" if check.get("waived") else check["status"],
            "failed": check["failed_rows"],
            "why": shorten(check["message"] or "", 160),
        }
        for d in _sorted(decisions)
        for check in d.checks or (no_check,)
    ]


def check_details(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """Return each decision with every field and all its checks' results."""
    return [{**_full_row(d), "checks": list(d.checks)} for d in _sorted(decisions)]


def quarantine_rows(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """Return a row for each batch that has rows in quarantine."""
    rows = []
    for table, of_table in _by_table(decisions).items():
        gold = table.startswith("gold_")
        quarantined = [d for d in current_batches(of_table) if d.counts.rows_quarantined] if gold else None
        for d in ledger.quarantined_decisions(of_table) if quarantined is None else quarantined:
            why = shorten(_why(r for r in d.reasons if r.effect in ("batch", "rows")), 300)
            counts = {"quarantined": d.counts.rows_quarantined, "rows": d.counts.rows_in}
            rows.append({**_batch_columns(d), **counts, "why": why})
    return rows


def describe_release(released: Decision, decisions: Iterable[Decision]) -> str:
    """Return what a release has made of a batch, as one line. ``decisions``: those on its window, with the ones before it."""
    counts = released.counts
    if released.verdict == "quarantined":
        before = [d for d in decisions if d.batch == released.batch and d.number < released.number]
        last = max(before, key=lambda d: d.number, default=None)
        if last is not None and last.accepted and last.counts.rows_published:
            loss = f"{last.counts.rows_published} published rows leave silver"
            return f"the window is now quarantined as a whole: its {loss}; `why` names what fails"
        return f"nothing changed: the window is still quarantined ({counts.rows_in} rows); `why` names what fails"
    rest = f", {counts.rows_quarantined} still in quarantine" if counts.rows_quarantined else ""
    return f"{counts.rows_published} of {counts.rows_in} rows published{rest}"


def _by_table(decisions: Iterable[Decision]) -> dict[str, list[Decision]]:
    ordered = sorted(decisions, key=lambda d: d.table)
    return {table: list(of_table) for table, of_table in groupby(ordered, key=lambda d: d.table)}


def current_batches(decisions: list[Decision]) -> list[Decision]:
    """Return the current decision of each window. A gold table is one batch: its newest decision is the current one."""
    current = ledger.current_decisions(decisions).values()
    gold = [d for d in current if d.p_extracted_at is None]
    newest = [max(gold, key=lambda d: d.number)] if gold else []
    return newest + [d for d in current if d.p_extracted_at is not None]


def _sorted(decisions: Iterable[Decision]) -> list[Decision]:
    return sorted(decisions, key=lambda d: (d.table, str(d.p_extracted_at or ""), d.extraction_seq))


def _full_row(d: Decision) -> dict[str, Any]:
    return {
        **{name: getattr(d, name) for name in BATCH_FIELDS},
        **d.counts.__dict__,
        "reasons": [reason.__dict__ for reason in d.reasons],
        **{name: getattr(d, name) for name in DECISION_FIELDS},
    }


def _batch_columns(d: Decision) -> dict[str, Any]:
    return {"table": d.table, "window": d.p_extracted_at or "whole", "seq": d.extraction_seq, "verdict": d.verdict}


def _short_row(d: Decision) -> dict[str, Any]:
    return {
        **_batch_columns(d),
        "verdict": "superseded" if d.superseded_by else d.verdict,
        "in": d.counts.rows_in,
        "published": d.counts.rows_published,
        "superseded": d.counts.rows_superseded,
        "quarantined": d.counts.rows_quarantined,
        "discarded": d.counts.rows_discarded,
        "p": None if d.drift_p_value is None else f"{d.drift_p_value:.2g}",
        "why": shorten(_why(d.reasons), 160),
    }


def _why(reasons: Iterable[Reason]) -> str:
    return "; ".join(f"{reason.check}: {reason.message}" for reason in reasons)
