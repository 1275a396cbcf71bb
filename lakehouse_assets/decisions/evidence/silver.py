"""Silver against the log: its version, its rows by the project's own commits, and commits of other programs.

Belongs here: this comparison. Does not: reading commits (storage/evidence), or comparing rows with the fold (queries).
"""

from collections.abc import Iterator, Sequence

from lakehouse_assets.decisions.evidence.findings import (
    Change,
    Finding,
    Inventory,
    LoggedEvidence,
    find_damage,
    make_count_finding,
    make_finding,
    state_of,
)

# Before the first mark silver was empty.
BEFORE_FIRST_MARK = (-1, 0)


def compare_silver(table: str, record: LoggedEvidence, inventory: Inventory) -> Iterator[Finding]:
    """Yield damage of silver, an older version of it, rows that no commit of ours explains, and other programs' commits."""
    yield from find_damage(table, inventory, "silver")
    state = state_of(inventory, "silver")
    if state.unreadable:
        return
    version, rows = record.silver or BEFORE_FIRST_MARK
    if state.version is None:
        if record.silver:
            yield make_finding(table, "silver", "lost", f"the table is not there; version {version} is on record")
        return
    if state.version < version:
        text = f"it is at version {state.version}, and was at {version}: commits are lost, or an older copy was put back"
        yield make_finding(table, "silver", "older", text)
        return
    expected = count_expected_rows(rows, inventory.changes) if record.silver or inventory.changes else None
    names = [f"{change.version} ({change.operation})" for change in find_foreign_changes(inventory.changes)]
    if expected is not None and state.rows is not None and state.rows != expected:
        why = f"; another program made version {', '.join(names[:3])}" if names else ""
        yield make_count_finding(table, "silver", state, state.rows, expected, why)
    elif names:
        text = f"another program changed its rows: version {', '.join(names[:3])}{', …' if names[3:] else ''}"
        yield make_finding(table, "silver", "foreign", text)


def find_foreign_changes(changes: Sequence[Change]) -> list[Change]:
    """Return other programs' commits that changed rows, since ours last replaced all of them. ``changes``: oldest first."""
    last = max((index for index, change in enumerate(changes) if change.ours and change.replaces_all), default=-1)
    return [change for change in changes[last + 1 :] if not change.ours and (change.replaces_all or change.rows != 0)]


def count_expected_rows(rows: int | None, changes: Sequence[Change]) -> int | None:
    """Return the rows after all commits of ours since they were counted; None if unknown."""
    for change in changes:
        if not change.ours:
            continue
        before = 0 if change.replaces_all else rows
        rows = None if before is None or change.rows is None else before + change.rows
    return rows
