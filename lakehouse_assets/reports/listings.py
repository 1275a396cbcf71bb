"""Rows for the CLI's listings, out of decisions.

Belongs here: which columns a listing has. Does not: printing it.
"""

from collections.abc import Iterable
from typing import Any

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger


def _sorted(decisions: Iterable[Decision]) -> list[Decision]:
    return sorted(
        decisions, key=lambda d: (d.table, d.p_extracted_at.isoformat() if d.p_extracted_at else "", d.extraction_seq)
    )


def verdict_rows(decisions: Iterable[Decision], *, full: bool) -> list[dict[str, Any]]:
    """Each batch's last applied decision. ``full``: every field of the surface; else what fits a terminal."""
    by_table: dict[str, list[Decision]] = {}
    for decision in decisions:
        if decision.applied_at is not None:
            by_table.setdefault(decision.table, []).append(decision)
    last = _sorted(d for found in by_table.values() for d in _current(found))
    return [_full(d) if full else _short(d) for d in last]


def _current(decisions: list[Decision]) -> list[Decision]:
    standing = ledger.standing(decisions)
    gold = [d for d in standing.values() if d.p_extracted_at is None]
    # A gold table is one batch, judged again and again: its last judgement is the one that stands.
    newest = [max(gold, key=lambda d: d.number)] if gold else []
    return newest + [d for d in standing.values() if d.p_extracted_at is not None]


def _full(d: Decision) -> dict[str, Any]:
    return {
        "table": d.table,
        "p_extracted_at": d.p_extracted_at,
        "extraction_seq": d.extraction_seq,
        "decision_id": d.decision_id,
        "kind": d.kind,
        "verdict": d.verdict,
        **d.counts.__dict__,
        "reasons": [reason.__dict__ for reason in d.reasons],
        "drift_p_value": d.drift_p_value,
        "baseline_version": d.baseline_version,
        "ruleset_hash": d.ruleset_hash,
        "bronze_version": d.bronze_version,
        "silver_version": d.silver_version,
        "superseded_by": d.superseded_by,
        "inputs": d.inputs,
        "waived": list(d.waived),
        "by": d.by,
        "because": d.because,
        "run_id": d.run_id,
        "decided_at": d.decided_at,
        "applied_at": d.applied_at,
    }


def _short(d: Decision) -> dict[str, Any]:
    return {
        "table": d.table,
        "window": d.p_extracted_at or "whole",
        "seq": d.extraction_seq,
        "verdict": "superseded" if d.superseded_by else d.verdict,
        "in": d.counts.rows_in,
        "published": d.counts.rows_published,
        "superseded": d.counts.rows_superseded,
        "held": d.counts.rows_quarantined,
        "discarded": d.counts.rows_discarded,
        "p": None if d.drift_p_value is None else f"{d.drift_p_value:.2g}",
        "why": "; ".join(f"{r.check}: {r.message}" for r in d.reasons)[:160],
    }


def checked_rows(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """One row per decision and check, passes included: for a terminal. A decision without a check has one row of its own."""
    rows = []
    for d in _sorted(decisions):
        same = {"table": d.table, "window": d.p_extracted_at or "whole", "seq": d.extraction_seq, "verdict": d.verdict}
        nothing: dict[str, Any] = dict.fromkeys(("check", "severity", "status", "failed_rows", "message"))
        for check in d.checks or (nothing,):
            rows.append(
                {
                    **same,
                    "check": check["check"],
                    "severity": check["severity"],
                    "status": f"{check['status']} (waived)" if check.get("waived") else check["status"],
                    "failed": check["failed_rows"],
                    "why": (check["message"] or "")[:160],
                }
            )
    return rows


def checked_full(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """Each decision with every field of the surface and all its checks' results."""
    return [{**_full(d), "checks": list(d.checks)} for d in _sorted(decisions)]


def held_rows(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """Batches with rows in quarantine."""
    by_table: dict[str, list[Decision]] = {}
    for decision in decisions:
        by_table.setdefault(decision.table, []).append(decision)
    return [
        {
            "table": d.table,
            "window": d.p_extracted_at or "whole",
            "seq": d.extraction_seq,
            "verdict": d.verdict,
            "held": d.counts.rows_quarantined,
            "of": d.counts.rows_in,
            "why": "; ".join(f"{r.check}: {r.message}" for r in d.reasons if r.effect in ("batch", "rows"))[:300],
        }
        for table in sorted(by_table)
        for d in (
            ledger.held(by_table[table])
            if not table.startswith("gold_")
            else [x for x in _current(by_table[table]) if x.counts.rows_quarantined]
        )
    ]
