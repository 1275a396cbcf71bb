"""What is to become of each window: what it lacks, when it is tried again, when trying ends, and who waits for whom.

Belongs here: the judgement of what is on record. Does not: reading the record, or asking for a run (orchestration).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from lakehouse_assets.contracts.windows import Window, contiguous

State = Literal["missing", "late", "stale", "unfinished", "failing", "quarantined"]
Next = Literal["nothing", "source", "daemon", "running", "retry", "stopped", "person", "lookback"]

FIRST_DELAY, GROWTH, LONGEST_DELAY = timedelta(minutes=10), 3, timedelta(days=1)
# After so long without a run, a window that has arrived was overlooked: what changed in the seconds in which a run of it ended,
# or was asked for and came to no run.
OVERLOOKED = timedelta(hours=6)
# Windows that failed together are tried again in ever fewer, so that the one at fault is alone in the end.
TOGETHER = (64, 16, 4, 1)
# More gaps than these are taken together where no more than so many windows lie between two of them. A run takes some twenty
# seconds before it does anything; to pass over a window that has not changed, some hundredths of one.
SCATTERED, BRIDGED = 4, 24


@dataclass(frozen=True)
class Facts:
    """What is on record of one window that is over.

    ``arrived``: the source was seen to have it. ``fresh``: its newest extraction is of what the source has now. ``current``:
    and that is judged, applied and known to Dagster. ``taken``: when it was first extracted. ``held``: rows in quarantine of
    its newest judged extraction (0 where it is held for having none); None: nothing is held. ``failed``: the ends of the
    tries that failed since the source reported it last, oldest first. ``running``: a run or a backfill that is not over has
    it. ``reported``: when the source was seen to have its newest version, of windows that are not current.
    """

    window: Window
    arrived: bool = False
    fresh: bool = False
    current: bool = False
    taken: datetime | None = None
    held: int | None = None
    failed: tuple[datetime, ...] = ()
    running: bool = False
    reported: datetime | None = None


@dataclass(frozen=True)
class Healing:
    """What a window lacks, and what comes next. ``at``: when, where that is known; of what the daemon will ask for by itself,
    when it is asked for again at the latest. ``tries``: those that failed, of ``most``. ``held``: rows in quarantine.
    """

    window: Window
    states: tuple[State, ...]
    next: Next
    at: datetime | None = None
    tries: int = 0
    most: int = 0
    held: int = 0

    @property
    def open(self) -> bool:
        """Whether something is still to come. A window that was late and is in silver now is done."""
        return self.next != "nothing"

    @property
    def todo(self) -> bool:
        """Whether it has arrived and is not, in its newest version, in bronze, judged, applied and on record."""
        return self.next in ("daemon", "running", "retry", "stopped", "lookback")


def delay_after(failures: int) -> timedelta:
    """How long after the last failed try the next one comes: 10 min, 30 min, 90 min, 4.5 h, 13.5 h, then a day.

    >>> [str(delay_after(n)) for n in (1, 2, 5, 6)]
    ['0:10:00', '0:30:00', '13:30:00', '1 day, 0:00:00']
    """
    return min(FIRST_DELAY * GROWTH ** min(failures - 1, 20), LONGEST_DELAY)


def healing(facts: Sequence[Facts], now: datetime, retries: int, lookback: int | None = None) -> list[Healing]:
    """What comes of each window, oldest first. ``facts``: all windows of one table that are over by ``now``.

    ``retries``: tries after the first. ``lookback``: the daemon sees to this many newest windows alone.
    """
    ordered = sorted(facts, key=lambda f: f.window)
    beyond = len(ordered) - lookback if lookback is not None else 0
    late = _late(ordered, now)
    return [_of(f, f.window in late, place < beyond, retries) for place, f in enumerate(ordered)]


def overdue(windows: Sequence[Window], arrived: Collection[str], now: datetime, allowed: timedelta) -> list[Window]:
    """Windows that came to an end more than ``allowed`` ago and are newer than all that have ``arrived`` (keys).

    An older one is a gap, which may stay one.
    """
    newest = max((window for window in windows if window.key in arrived), default=None)
    return [w for w in windows if w.end + allowed < now and (newest is None or w > newest)]


def _of(facts: Facts, late: bool, beyond: bool, retries: int) -> Healing:
    states: list[State] = []
    if facts.taken is None:
        states.append("missing")
    elif facts.arrived and not facts.fresh:
        states.append("stale")
    elif facts.arrived and not facts.current:
        states.append("unfinished")
    if late:
        states.append("late")
    todo = facts.arrived and not facts.current
    failed = facts.failed if todo else ()
    if failed:
        states.append("failing")
    if facts.held is not None:
        states.append("quarantined")
    found = Healing(facts.window, tuple(states), "nothing", None, len(failed), retries + 1, facts.held or 0)
    if todo and facts.running:
        return replace(found, next="running")
    if todo and len(failed) > retries:
        return replace(found, next="stopped")
    if todo and beyond:
        return replace(found, next="lookback")
    if todo and failed:
        return replace(found, next="retry", at=failed[-1] + delay_after(len(failed)))
    if todo:
        return replace(found, next="daemon", at=facts.reported + OVERLOOKED if facts.reported else None)
    if facts.held is not None:
        return replace(found, next="person")
    return replace(found, next="nothing" if facts.taken else "source")


def _late(ordered: Sequence[Facts], now: datetime) -> set[Window]:
    """Windows that were taken after a later one, or (not taken yet) would be; and those taken more than a window's length after
    they ended. What was over before the table was first taken is history, which is not late by its age.
    """
    began = min((f.taken for f in ordered if f.taken), default=None)
    found: set[Window] = set()
    earliest_later: datetime | None = None
    for f in reversed(ordered):
        at = f.taken or now
        length = f.window.end - f.window.start
        overtaken = earliest_later is not None and earliest_later < at
        if overtaken or (began is not None and f.window.end >= began and at - f.window.end > length):
            found.add(f.window)
        if f.taken is not None:
            earliest_later = min(earliest_later or f.taken, f.taken)
    return found


def at_rest(windows: Iterable[Healing], unsettled: Collection[str] = ()) -> set[Window]:
    """Those that a run may pass over: they are in, and nothing is to become of them. None that is ``unsettled`` (keys): what
    changes just now would be taken half.
    """
    return {healing.window for healing in windows if healing.next == "nothing" and healing.window.key not in unsettled}


def bridged(wanted: Collection[Window], between: Collection[Window]) -> list[list[Window]]:
    """Unbroken ranges that have all of the ``wanted`` windows, oldest first. Of more than a few gaps, those that lie near each
    other are in one range, together with the windows ``between`` them.

    >>> from lakehouse_assets.contracts.windows import calendar
    >>> from datetime import UTC
    >>> year = [*calendar(datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC), "daily")]
    >>> [len(found) for found in bridged(year[::100], year)], [len(found) for found in bridged(year[::12], year)]
    ([1, 1, 1, 1], [361])
    """
    gaps = contiguous(wanted)
    if len(gaps) <= SCATTERED:
        return gaps
    found: list[list[Window]] = []
    asked = set(wanted)
    for unbroken in contiguous([*asked, *between]):
        taken: list[Window] = []
        passed: list[Window] = []
        for window in unbroken:
            if window not in asked:
                passed.append(window)
                continue
            if taken and len(passed) <= BRIDGED:
                taken += [*passed, window]
            else:
                found += [taken] if taken else []
                taken = [window]
            passed = []
        found += [taken] if taken else []
    return found


def ranges(windows: Iterable[Healing], between: Collection[Window] = ()) -> list[list[Window]]:
    """Unbroken ranges in which these windows are taken, oldest first: together (`bridged`) until they have failed together,
    then in ever fewer, so that one that cannot be taken holds up its neighbours a few times and then none.
    """
    found = []
    by_tries: dict[int, list[Window]] = {}
    for each in windows:
        by_tries.setdefault(each.tries, []).append(each.window)
    for tries, same in by_tries.items():
        for unbroken in contiguous(same) if tries else bridged(same, between):
            size = TOGETHER[min(tries, len(TOGETHER)) - 1] if tries else len(unbroken)
            found += [unbroken[place : place + size] for place in range(0, len(unbroken), size)]
    return sorted(found)


def due(windows: Iterable[Healing], now: datetime) -> list[list[Window]]:
    """The ranges to ask for now: to be tried again, or overlooked."""
    return ranges(w for w in windows if w.next in ("retry", "daemon") and w.at is not None and w.at <= now)
