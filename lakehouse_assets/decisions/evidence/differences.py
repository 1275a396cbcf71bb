"""Findings that every comparison makes: a damaged table, and a count that differs.

Belongs here: building these findings. Does not: what is compared (comparison, silver), or a finding's shape (findings).
"""

from collections.abc import Iterator
from dataclasses import replace

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.decisions.evidence import findings
from lakehouse_assets.decisions.evidence.findings import Finding, Inventory, Kind, Layer, TableState


def make_finding(table: str, place: Layer, kind: Kind, message: str, batch: Batch | None = None, mend: str = "") -> Finding:
    """Return a finding. ``mend``: the step that mends it, if it is not the layer's own."""
    window, seq = batch or (None, None)
    return Finding(table, place, kind, message, mend or findings.describe_mend(table, place), window, seq)


def state_of(inventory: Inventory, place: Layer) -> TableState:
    """Return a layer on disk; without a version if it was not measured."""
    return inventory.tables.get(place, TableState())


def find_damage(table: str, inventory: Inventory, *places: Layer) -> Iterator[Finding]:
    """Yield tables whose log or data files cannot be read."""
    for place in places:
        state = state_of(inventory, place)
        if state.unreadable:
            first = "" if place == "silver" else f"move {place if place in findings.LOGS else f'{place}/{table}'} away; then "
            text = f"its Delta log cannot be read: {state.unreadable}"
            yield make_finding(table, place, "unreadable", text, mend=first + findings.describe_mend(table, place))
        elif state.absent:
            names = ", ".join(state.absent[:3]) + (", …" if len(state.absent) > 3 else "")
            yield make_finding(table, place, "files", f"{len(state.absent)} data file(s) are missing or damaged: {names}")


def make_count_finding(
    table: str, place: Layer, state: TableState, rows: int, expected: int, why: str, batch: Batch | None = None, of: str = ""
) -> Finding:
    """Return a finding of two numbers of rows. ``why``: the cause, if it is known and the table is there. ``of``: the id of the
    rows' decision.
    """
    kind: Kind = "lost" if state.version is None else "fewer" if rows < expected else "more"
    why = "; the table is not there" if state.version is None else why
    text = f"{rows} rows{f' of decision {of}' if of else ''} are there, {expected} are on record{why}"
    return replace(make_finding(table, place, kind, text, batch), decision_id=of or None)
