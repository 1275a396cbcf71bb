"""Whether a guard's clean table has every accepted row, from the log alone; else the whole table is judged and published anew.

Belongs here: decisions → what the clean table lacks. Does not: looking at it (guards/observed_table), or writing it.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.guard_decision import rows_of


def publishes_rows(record: ExtractionRecord | None) -> bool:
    """Whether an accepted version changes the rows of the clean table."""
    position = json.loads(record.position) if record and record.position else {}
    return bool(position.get("removes")) or position.get("rows", "none") != "none"


def last_publication(decisions: Iterable[Decision]) -> Decision | None:
    """Return the decision that was published last; None before the first."""
    published = [d for d in decisions if d.superseded_by is None and d.silver_version is not None]
    return max(published, key=lambda d: d.number, default=None)


def unpublished_gap(decisions: Iterable[Decision], records: Mapping[Any, ExtractionRecord]) -> str:
    """Return why the clean table lacks rows of an accepted version; empty if it has them all.

    A published whole table has those of all versions before it. Decisions that a run has not applied yet are no gap.
    """
    accepted = [d for d in ledger.current_decisions(decisions).values() if d.accepted and d.p_extracted_at is not None]
    published_tables = [
        d.p_extracted_at for d in accepted if d.silver_version is not None and rows_of(records.get(d.batch)) == "table"
    ]
    since = max((start for start in published_tables if start), default=None)
    for decision in sorted(accepted, key=lambda d: d.number):
        is_covered = since is not None and decision.p_extracted_at is not None and decision.p_extracted_at <= since
        if decision.applied_at is None or decision.silver_version is not None or is_covered:
            continue
        if publishes_rows(records.get(decision.batch)):
            return f"the rows of version {decision.bronze_version}, which was accepted, are not in the clean table"
    return ""
