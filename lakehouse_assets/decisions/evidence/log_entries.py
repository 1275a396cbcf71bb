"""Entries of the logs against each other: the mark of each decision, and the position of each window that was read.

Belongs here: what the logs alone show. Does not: tables against the logs (comparison).
"""

from collections.abc import Iterator

from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.evidence.findings import Finding, Inventory, LoggedEvidence, TableState, describe_mend


def compare_entries(table: str, record: LoggedEvidence, inventory: Inventory) -> Iterator[Finding]:
    """Yield lost marks and lost positions. Without its mark a decision would be applied again: silver would go back to it."""
    for decision in ledger.lost_marks(record.decisions):
        if decision.decision_id not in inventory.in_silver:
            continue  # silver may be older: the next run applies it
        text = f"decision {decision.number} has no mark, though silver has it and a later run has followed"
        mend = describe_mend(table, "ops/decisions")
        yield Finding(table, "ops/decisions", "older", text, mend, decision.p_extracted_at, decision.extraction_seq)
    yield from _compare_positions(table, record, inventory)


def _compare_positions(table: str, record: LoggedEvidence, inventory: Inventory) -> Iterator[Finding]:
    """Yield windows that were read, and have no position any more: the source would be read again, by other bounds."""
    read = {extraction.p_extracted_at: extraction.extraction_seq for extraction in record.extractions if extraction.position}
    if not read:
        return
    state, mend = inventory.tables.get("ops/positions", TableState()), describe_mend(table, "ops/positions")
    if state.unreadable:
        text = f"its Delta log cannot be read: {state.unreadable}"
        yield Finding(table, "ops/positions", "unreadable", text, f"move ops/positions away; then {mend}")
        return
    if state.absent:
        text = f"{len(state.absent)} data file(s) are missing or damaged: {', '.join(state.absent[:3])}"
        yield Finding(table, "ops/positions", "files", text, mend)
    for start in sorted(read.keys() - set(inventory.positions)):
        text = "the window was read, and its position is not on record"
        yield Finding(table, "ops/positions", "older" if inventory.positions else "lost", text, mend, start, read[start])
