"""A few of a log's many decisions, found by what the log adds up to: by window or id, and those that two logs do not share.

Belongs here: such selections. Does not: the current state (ledger), or the sums themselves (decision_log).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from datetime import datetime

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions.ledger import ids_of, sums_of


def superseded_decisions(decisions: Iterable[Decision], ids: Collection[str]) -> list[Decision]:
    """Return the records of what these decisions superseded."""
    if sums := sums_of(decisions):
        return [record for decision_id in ids for record in sums.superseding.get(decision_id, ())]
    return [decision for decision in decisions if decision.superseded_by in ids]


def applied_decisions(decisions: Iterable[Decision]) -> Mapping[str, Decision]:
    """Return the applied decisions by id, without the records of supersession."""
    if sums := sums_of(decisions):
        return sums.applied
    return {d.decision_id: d for d in decisions if d.applied_at is not None and d.superseded_by is None}


def profiled_decisions(decisions: Iterable[Decision]) -> Mapping[str, Decision] | None:
    """Return the applied decisions among `joined_decisions`, by id. None where that is not known without looking, and where a
    batch may have joined by another decision.
    """
    sums = sums_of(decisions)
    return None if sums is None or sums.discards else sums.profiled


def since_windows(decisions: Iterable[Decision], first: datetime, count: int) -> Iterable[Decision]:
    """Return at least the decisions on the windows from ``first`` on, and on so many before that have a current one."""
    if not (sums := sums_of(decisions)):
        return decisions
    index = bisect_left(sums.starts, first)
    chosen = [d for start in sums.starts[index:] for d in sums.by_window[start]]
    for start in reversed(sums.starts[:index]):
        own = sums.by_window[start]
        chosen += own
        count -= any(d.superseded_by is None and sums.current.get(d.batch) is d for d in own)
        if not count:
            break
    return chosen


def decided_between(decisions: Iterable[Decision], first: datetime, last: datetime) -> list[Decision]:
    """Return the decisions on the windows from ``first`` to ``last``."""
    if sums := sums_of(decisions):
        starts = sums.starts[bisect_left(sums.starts, first) : bisect_right(sums.starts, last)]
        return [decision for start in starts for decision in sums.by_window[start]]
    return [d for d in decisions if d.p_extracted_at is not None and first <= d.p_extracted_at <= last]


def decided_ranges(
    decisions: Iterable[Decision], end_of: Callable[[datetime], datetime]
) -> Iterator[tuple[datetime, datetime]]:
    """Yield the first and the last decided window of each range of time with one. ``end_of``: of the range of a window."""
    sums = sums_of(decisions)
    starts = sums.starts if sums else sorted({d.p_extracted_at for d in decisions if d.p_extracted_at is not None})
    index = 0
    while index < len(starts):
        following = bisect_left(starts, end_of(starts[index]), index + 1)
        yield starts[index], starts[following - 1]
        index = following


def changed_windows(before: Iterable[Decision], now: Iterable[Decision]) -> Set[datetime | None]:
    """Return the windows of decisions that only one of two logs has, as an object of its own."""
    first, second = sums_of(before), sums_of(now)
    if first and second:
        return {*second.by_window.find_changed(first.by_window)}
    old, new = {id(d): d for d in before}, {id(d): d for d in now}
    return {d.p_extracted_at for each, other in ((old, new), (new, old)) for key, d in each.items() if key not in other}


def lost_ids(before: Iterable[Decision], now: Iterable[Decision]) -> Set[str]:
    """Return the ids of decisions that only the first of two logs has."""
    first, second = sums_of(before), sums_of(now)
    if first and second:
        return {decision_id for decision_id in second.ids.find_changed(first.ids) if decision_id not in second.ids}
    return ids_of(before) - {*ids_of(now)}


def windows_of_ids(decisions: Iterable[Decision], ids: Collection[str]) -> Set[datetime | None]:
    """Return the windows of the decisions with these ids."""
    if sums := sums_of(decisions):
        return {sums.ids[decision_id] for decision_id in ids if decision_id in sums.ids}
    return {decision.p_extracted_at for decision in decisions if decision.decision_id in ids}
