"""Which checks wait for which others: what `depends_on` may say, the order of judging, and the rows that each check skips.

Belongs here: the graph among the checks of one table. Does not: what a skipped check means for its batch (decisions).
"""

from collections.abc import Collection, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.checks.families import HistoryCheck, RowCheck


def dependency_mistakes(checks: Sequence[Check], key: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yield ``(index, problem)`` of each check with an impossible ``depends_on``. ``key``: the table's."""
    by_id = {check.id: check for check in checks}
    deferred = {check.id for check in checks if is_deferred(check, CheckContext(key, "", "", "batch"))}
    for index, check in enumerate(checks):
        for name in check.depends_on:
            first = by_id.get(name)
            if first is None:
                others = ", ".join(sorted(set(by_id) - {check.id})) or "none"
                yield index, f"there is no check {name!r} to depend on; there are {others}"
            elif name in deferred:
                text = f"{name} is a deferred check: it runs after publishing, quarantines nothing and needs a query of its own"
                yield index, f"{text}: nothing can wait for it"
            elif isinstance(first, HistoryCheck):
                text = f"{name} looks back, and is skipped where there are too few windows to look at"
                yield index, f"{text}: nothing can wait for it"
            elif check.blocking and not first.blocking:
                # Rows that fail the first would be published, and the second would not have checked them.
                yield index, f"{check.id} can hold something, and {name} cannot: make {name} critical, or {check.id} a warning"
            elif check.blocking and check.scope == first.scope == "row" and _publishes_failing_rows(first):
                text = f"rows that fail {name} within its threshold are published, and {check.id} would not look at them"
                yield index, f"{text}: let {name} quarantine_rows, or {check.id} warn"
    try:
        in_order(checks)
    except CycleError as error:
        names = list(error.args[1])
        index = next(i for i, check in enumerate(checks) if check.id == names[0])
        yield index, f"these checks wait for each other: {' → '.join(names)}"


def _publishes_failing_rows(check: Check) -> bool:
    return not check.removes_rows and check.threshold is not None


def is_deferred(check: Check, context: CheckContext) -> bool:
    """Return whether it runs after the write: it quarantines nothing, so nothing needs to wait for its own query."""
    return not check.blocking and not check.is_fused(context)


def awaited_checks(checks: Sequence[Check], context: CheckContext) -> list[Check]:
    """Return the checks that the decision waits for."""
    return [check for check in checks if not is_deferred(check, context)]


def tables_read(checks: Sequence[Check]) -> list[str]:
    """Return the names of the other tables that these checks read."""
    return sorted({check.reads.table for check in checks if check.reads})


def in_order(checks: Sequence[Check]) -> list[Check]:
    """Return each check after those that it depends on, otherwise in the order of the YAML. Raises CycleError."""
    by_id = {check.id: check for check in checks}
    graph = {check.id: [name for name in check.depends_on if name in by_id] for check in checks}
    return [by_id[name] for name in TopologicalSorter(graph).static_order()]


def with_prerequisites(checks: Sequence[Check], names: Collection[str]) -> list[Check]:
    """Return the checks of these names and all that they wait for, in the order of judging."""
    chosen = set(names)
    ordered = in_order(checks)
    for check in reversed(ordered):
        if check.id in chosen:
            chosen |= set(check.depends_on)
    return [check for check in ordered if check.id in chosen]


def row_prerequisites(check: Check, checks: Sequence[Check], waived: Collection[str] = ()) -> list[RowCheck]:
    """Return the row checks whose failing rows this row check skips: those that it depends on, and those that these depend on;
    each after those that it depends on itself.

    ``waived``: ids without effect. Their failing rows are published, so they are checked.
    """
    by_id = {other.id: other for other in checks}
    prerequisites: dict[str, RowCheck] = {}
    names = list(check.depends_on) if check.scope == "row" else []
    while names:
        first = by_id[names.pop(0)]
        # The prerequisites of a batch check say nothing about a row.
        if isinstance(first, RowCheck) and first.scope == "row":
            names += [name for name in first.depends_on if name not in prerequisites]
            if first.id not in waived:
                prerequisites.setdefault(first.id, first)
    return [prerequisites[other.id] for other in in_order(checks) if other.id in prerequisites] if prerequisites else []
