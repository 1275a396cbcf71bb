"""A rehearsal's scorecard for people: rows of a terminal, its sentences, and one page of HTML.

Belongs here: the wording. Does not: the sums (decisions/rehearsal), or writing a file (cli).
"""

from datetime import datetime
from typing import Any

from lakehouse_assets.decisions.rehearsal import LEVELS, CleanSummary, FaultSummary, Rehearsal, Unseen
from lakehouse_assets.reports.audit_site import render

MOST_SEERS, MOST_PROPOSALS, MOST_REMEDIES = 3, 2, 10

FAULTS_CAPTION = "Copies of windows with one fault each, and what the gate did to them that it did not do to the clean copy."
REMEDIES_CAPTION = "Each was tried on the copies: it fails on these, and passes on the clean ones."
UNSEEN_CAPTION = (
    "Faults that no check and no drift feature saw, and what would: a proposed check that was tried, or a kind of rule."
)


def fault_rows(rehearsal: Rehearsal) -> list[dict[str, Any]]:
    """Return a row for each kind of fault and size."""
    return [_fault_row(each) for each in rehearsal.faults]


def _fault_row(each: FaultSummary) -> dict[str, Any]:
    seers = [f"{check} ({copies})" for check, copies in list(each.seers.items())[:MOST_SEERS]]
    if each.harmless:
        seers.append(f"harmless: the key keeps one row of each ({each.harmless})")
    return {
        "fault": each.fault,
        "size": each.size,
        "copies": each.copies,
        **{level: each.levels.get(level, 0) - (each.harmless if level == "unseen" else 0) for level in LEVELS},
        "seen by (copies)": ", ".join(seers),
    }


def unseen_rows(rehearsal: Rehearsal) -> list[dict[str, Any]]:
    """Return a row for each column and fault that nothing saw, with its sizes and what would see it."""
    alike: dict[tuple[str, str, str], list[Unseen]] = {}
    for each in rehearsal.unseen:
        alike.setdefault((each.column, each.fault, what_would_see(each)), []).append(each)
    return [
        {
            "column": column,
            "not seen": fault,
            "sizes": ", ".join(each.size for each in group),
            "copies": f"{sum(each.copies for each in group)} of {sum(each.of for each in group)}",
            "what would see it": would,
        }
        for (column, fault, would), group in alike.items()
    ]


def what_would_see(unseen: Unseen) -> str:
    """Return the proposed checks that were tried and see it; without any, the kinds of rules that would."""
    return "; ".join(unseen.proposals[:MOST_PROPOSALS]) or unseen.advice


def remedy_rows(rehearsal: Rehearsal) -> list[dict[str, Any]]:
    """Return the proposed checks that would see what nothing saw, the most useful first."""
    listed = list(rehearsal.remedies.items())[:MOST_REMEDIES]
    return [{"proposed check": check, "unseen copies that it sees": copies} for check, copies in listed]


def describe_rehearsal(rehearsal: Rehearsal) -> str:
    """Return the result in one sentence."""
    if rehearsal.without_harm:
        return rehearsal.without_harm
    return (
        f"{rehearsal.detections} of {rehearsal.harmful} faulty copies seen ({rehearsal.share_detected:.0%}), "
        f"{rehearsal.quarantined} of them quarantined, as a whole or some rows"
    )


def describe_clean(clean: CleanSummary) -> str:
    """Return the false alarms in one sentence."""
    if not clean.by:
        return f"{clean.windows} clean copies: no check failed"
    checks = ", ".join(f"{check} ({copies})" for check, copies in list(clean.by.items())[:MOST_SEERS])
    counts = f"{clean.quarantined} quarantined, {clean.rows_quarantined} with rows quarantined, {clean.warned} with warnings"
    return f"{clean.windows} clean copies: {counts}; not passed: {checks}"


def rehearsal_page(rehearsal: Rehearsal, made_at: datetime) -> str:
    """Return the page. Every name and text is escaped."""
    rows = fault_rows(rehearsal)
    return render(
        "rehearsal",
        root="",
        made_at=made_at,
        rehearsal=rehearsal,
        headline=f"{describe_rehearsal(rehearsal)}.",
        clean=describe_clean(rehearsal.clean),
        windows=[f"{window:%Y-%m-%d %H:%M}" for window in rehearsal.windows],
        tables=[
            ("faults", "Faults", FAULTS_CAPTION, rows),
            ("remedies", "Proposed checks", REMEDIES_CAPTION, remedy_rows(rehearsal)),
            ("unseen", "What nothing saw", UNSEEN_CAPTION, unseen_rows(rehearsal)),
        ],
    )


def as_dict(rehearsal: Rehearsal) -> dict[str, Any]:
    """Return a rehearsal, JSON-safe."""
    faults = [{**vars(each), "harmful": each.harmful, "seen": each.detections} for each in rehearsal.faults]
    return {
        "table": rehearsal.table,
        "seed": rehearsal.seed,
        "windows": [window.isoformat() for window in rehearsal.windows],
        "harmful": rehearsal.harmful,
        "seen": rehearsal.detections,
        "quarantined": rehearsal.quarantined,
        "share_seen": rehearsal.share_detected,
        "clean": dict(vars(rehearsal.clean)),
        "faults": faults,
        "unseen": [{**vars(each), "proposals": list(each.proposals)} for each in rehearsal.unseen],
        "remedies": rehearsal.remedies,
        "unchanged": rehearsal.unchanged,
        "left_out": dict(rehearsal.left_out),
    }
