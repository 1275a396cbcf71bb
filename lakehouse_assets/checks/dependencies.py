"""Which checks wait for which others: what `depends_on` may say, in which order they are judged, which rows they look at.

Belongs here: the graph among the checks of one table. Does not: what a skipped check means for its batch (decisions).
"""

from collections.abc import Collection, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from lakehouse_assets.checks.base import Check, CheckContext, RowCheck
from lakehouse_assets.checks.history import HistoryCheck


def dependency_mistakes(checks: Sequence[Check], key: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """``(place, what is wrong)`` of each check whose ``depends_on`` cannot be kept. ``key``: the table's."""
    by_id = {check.id: check for check in checks}
    late = {check.id for check in checks if runs_afterwards(check, CheckContext(key, "", "", "batch"))}
    for place, check in enumerate(checks):
        for name in check.depends_on:
            first = by_id.get(name)
            if first is None:
                others = ", ".join(sorted(set(by_id) - {check.id})) or "none"
                yield place, f"there is no check {name!r} to depend on; there are {others}"
            elif name in late:
                text = f"{name} runs after the exchange, since it holds nothing and needs a query of its own"
                yield place, f"{text}: nothing can wait for it"
            elif isinstance(first, HistoryCheck):
                text = f"{name} looks back, and is skipped where there are too few windows to look at"
                yield place, f"{text}: nothing can wait for it"
            elif check.blocking and not first.blocking:
                # What fails the first would be published without the second having looked at it.
                yield place, f"{check.id} can hold something, and {name} cannot: make {name} critical, or {check.id} a warning"
            elif check.blocking and _is_row(check) and _is_row(first) and _tolerates(first):
                text = f"rows that fail {name} within its threshold are published, and {check.id} would not look at them"
                yield place, f"{text}: let {name} quarantine_rows, or {check.id} warn"
    try:
        in_order(checks)
    except CycleError as error:
        names = list(error.args[1])
        place = next(i for i, check in enumerate(checks) if check.id == names[0])
        yield place, f"these checks wait for each other: {' → '.join(names)}"


def runs_afterwards(check: Check, context: CheckContext) -> bool:
    """Whether it runs after the exchange: it holds nothing, so that nothing should wait for a query of its own."""
    return not check.blocking and not check.rides_along(context)


def in_order(checks: Sequence[Check]) -> list[Check]:
    """Each check after those that it depends on, otherwise as they stand. Raises CycleError."""
    by_id = {check.id: check for check in checks}
    graph = {check.id: [name for name in check.depends_on if name in by_id] for check in checks}
    return [by_id[name] for name in TopologicalSorter(graph).static_order()]


def with_prerequisites(checks: Sequence[Check], names: Collection[str]) -> list[Check]:
    """The checks of these names and all that they wait for, in the order of judging."""
    by_id = {check.id: check for check in checks}
    wanted: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        wanted.add(name)
        left += [first for first in by_id[name].depends_on if first not in wanted]
    return [check for check in in_order(checks) if check.id in wanted]


def rows_passed_over(check: Check, checks: Sequence[Check], waived: Collection[str] = ()) -> list[RowCheck]:
    """The row checks whose failing rows this one does not look at: those that it depends on, and those that these depend on.

    ``waived``: ids without effect; their failing rows are published, so that they are looked at.
    """
    by_id = {other.id: other for other in checks}
    found: dict[str, RowCheck] = {}
    left = list(check.depends_on) if _is_row(check) else []
    while left:
        first = by_id[left.pop(0)]
        # What a batch check waits for says nothing of a row.
        if isinstance(first, RowCheck) and _is_row(first):
            left += [name for name in first.depends_on if name not in found]
            if first.id not in waived:
                found.setdefault(first.id, first)
    return list(found.values())


def _tolerates(check: Check) -> bool:
    """Whether rows that fail it may be published."""
    return not check.removes_rows and check.threshold is not None


def _is_row(check: Check) -> bool:
    return check.scope == "row"
