"""Entries of the logs against each other: the mark of each decision, and the position of each window that was read.

Belongs here: what the logs alone show. Does not: tables against the logs (comparison).
"""

from collections.abc import Iterator

from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.evidence.findings import Finding, Inventory, Kind, LoggedEvidence, find_damage, make_finding


def compare_entries(table: str, record: LoggedEvidence, inventory: Inventory) -> Iterator[Finding]:
    """Yield lost marks and lost positions. Without its mark a decision would be applied again: silver would go back to it."""
    for decision in ledger.lost_marks(record.decisions):
        if decision.decision_id not in inventory.in_silver:
            continue  # silver may be older: the next run applies it
        text = f"decision {decision.number} has no mark, though silver has it and a later run has followed"
        yield make_finding(table, "ops/decisions", "older", text, decision.batch)
    yield from _compare_positions(table, record, inventory)


def _compare_positions(table: str, record: LoggedEvidence, inventory: Inventory) -> Iterator[Finding]:
    """Yield windows that were read, and have no position any more: the source would be read again, by other bounds."""
    read = {extraction.p_extracted_at: extraction.extraction_seq for extraction in record.extractions if extraction.position}
    if not read:
        return
    if damage := list(find_damage(table, inventory, "ops/positions")):
        yield from damage
        return
    for start in sorted(read.keys() - set(inventory.positions)):
        text = "the window was read, and its position is not on record"
        kind: Kind = "older" if inventory.positions else "lost"
        yield make_finding(table, "ops/positions", kind, text, (start, read[start]))
