"""The status of each window: its state, its next step, and the ranges in which windows run.

Belongs here: the judgement of recorded facts. Does not: reading records, requesting runs (orchestration/healing), limits
(retry_policy).
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from lakehouse_assets.contracts.windows import Window, contiguous
from lakehouse_assets.decisions.retry_policy import MAX_BRIDGE, MAX_SINGLE_GAPS, OVERLOOKED, PARTS, RANGE_SIZES, retry_delay

State = Literal["missing", "late", "stale", "unfinished", "failing", "quarantined"]
NextStep = Literal["nothing", "source", "daemon", "running", "retry", "stopped", "person", "lookback"]


# Tens of thousands of each are made in a run of an hourly table: of frozen dataclasses that takes longer.
class WindowFacts(NamedTuple):
    """The recorded facts of one closed window.

    ``has_arrived``: the source has it. ``is_fresh``: its newest extraction is of the source's latest version; if it is in
    quarantine, also read by today's `source:`. ``is_current``: that one is also judged, applied and
    known to Dagster. ``rows_quarantined``: of its newest judged extraction (0: a batch without rows); None: none.
    ``failed_at``: the ends of failed tries since the source last reported it, oldest first.
    ``has_failed_alone``: in one of them it was the only window. ``is_running``: an unfinished run or backfill includes it.
    ``reported_at``: when the source reported its latest version; only of windows that are not current.
    """

    window: Window
    has_arrived: bool = False
    is_fresh: bool = False
    is_current: bool = False
    first_extracted_at: datetime | None = None
    rows_quarantined: int | None = None
    failed_at: tuple[datetime, ...] = ()
    has_failed_alone: bool = False
    is_running: bool = False
    reported_at: datetime | None = None


class WindowStatus(NamedTuple):
    """A window's states and its next step. ``due_at``: its time, if known; of a request by the daemon the latest one."""

    window: Window
    states: tuple[State, ...]
    next_step: NextStep
    due_at: datetime | None = None
    failed_tries: int = 0
    max_tries: int = 0
    rows_quarantined: int = 0

    @property
    def is_open(self) -> bool:
        """Whether a step is still to come. A window that was late and is in silver now has none."""
        return self.next_step != "nothing"

    @property
    def is_pending(self) -> bool:
        """Whether its latest version has arrived, and is not yet in bronze, judged, applied and recorded."""
        return self.next_step in ("daemon", "running", "retry", "stopped", "lookback")


def window_statuses(
    facts: Sequence[WindowFacts], now: datetime, retries: int, lookback: int | None = None
) -> list[WindowStatus]:
    """Return the status of each window, oldest first. ``facts``: all windows of one table that are closed by ``now``.

    ``retries``: tries after the first. ``lookback``: the daemon requests only this many newest windows.
    """
    ordered = sorted(facts, key=lambda f: f.window)
    beyond = len(ordered) - lookback if lookback is not None else 0
    late = _late_windows(ordered, now)
    return [_status_of(f, f.window in late, index < beyond, retries) for index, f in enumerate(ordered)]


def overdue_windows(windows: Sequence[Window], arrived: Collection[str], now: datetime, allowed: timedelta) -> list[Window]:
    """Return windows that ended more than ``allowed`` ago and are newer than all that have ``arrived`` (keys). An older one
    that is missing is a gap, which may stay one.
    """
    newest = max((window for window in windows if window.key in arrived), default=None)
    return [w for w in windows if w.end + allowed < now and (newest is None or w > newest)]


def _status_of(facts: WindowFacts, is_late: bool, is_beyond_lookback: bool, retries: int) -> WindowStatus:
    states: list[State] = []
    if facts.first_extracted_at is None:
        states.append("missing")
    elif facts.has_arrived and not facts.is_fresh:
        states.append("stale")
    elif facts.has_arrived and not facts.is_current:
        states.append("unfinished")
    if is_late:
        states.append("late")
    pending = facts.has_arrived and not facts.is_current
    failed_at = facts.failed_at if pending else ()
    if failed_at:
        states.append("failing")
    if facts.rows_quarantined is not None:
        states.append("quarantined")
    # A window that only failed beside others has one more try, in which it is alone: a neighbour may be at fault.
    max_tries = retries + 1 if facts.has_failed_alone else max(retries, len(failed_at)) + 1
    step, due_at = _next_step(facts, failed_at, max_tries, is_beyond_lookback)
    return WindowStatus(facts.window, tuple(states), step, due_at, len(failed_at), max_tries, facts.rows_quarantined or 0)


def _next_step(
    facts: WindowFacts, failed_at: Sequence[datetime], max_tries: int, is_beyond_lookback: bool
) -> tuple[NextStep, datetime | None]:
    """Return a window's next step, and its time."""
    if not facts.has_arrived or facts.is_current:
        if facts.rows_quarantined is not None:
            return "person", None
        return "nothing" if facts.first_extracted_at else "source", None
    if facts.is_running:
        return "running", None
    if len(failed_at) >= max_tries:
        return "stopped", None
    if is_beyond_lookback:
        return "lookback", None
    if failed_at:
        return "retry", failed_at[-1] + retry_delay(len(failed_at))
    return "daemon", facts.reported_at + OVERLOOKED if facts.reported_at else None


def _late_windows(ordered: Sequence[WindowFacts], now: datetime) -> set[Window]:
    """Return windows that were first extracted (or would be, if they arrived now) after a later window, or more than a window's
    length after they ended. The age of windows that closed before the table's first extraction makes none late.
    """
    began = min((f.first_extracted_at for f in ordered if f.first_extracted_at), default=None)
    late: set[Window] = set()
    earliest_later: datetime | None = None
    for f in reversed(ordered):
        at = f.first_extracted_at or now
        length = f.window.end - f.window.start
        is_overtaken = earliest_later is not None and earliest_later < at
        if is_overtaken or (began is not None and f.window.end >= began and at - f.window.end > length):
            late.add(f.window)
        if f.first_extracted_at is not None:
            earliest_later = min(earliest_later or f.first_extracted_at, f.first_extracted_at)
    return late


def settled_windows(statuses: Iterable[WindowStatus], unsettled: Collection[str] = ()) -> set[Window]:
    """Return windows that a run may pass over: in silver, without a step to come. A window whose source is still changing
    (``unsettled``, keys) is not among them: the run would extract half of it.
    """
    return {status.window for status in statuses if not status.is_open and status.window.key not in unsettled}


def bridge_gaps(wanted: Collection[Window], between: Collection[Window]) -> list[list[Window]]:
    """Return unbroken ranges with all ``wanted`` windows, oldest first. More than `MAX_SINGLE_GAPS` gaps are joined where they
    lie near each other, together with the windows ``between`` them.

    >>> from lakehouse_assets.contracts.windows import calendar
    >>> from datetime import UTC
    >>> year = [*calendar(datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC), "daily")]
    >>> [len(part) for part in bridge_gaps(year[::100], year)], [len(part) for part in bridge_gaps(year[::12], year)]
    ([1, 1, 1, 1], [361])
    """
    gaps = contiguous(wanted)
    if len(gaps) <= MAX_SINGLE_GAPS:
        return gaps
    joined: list[list[Window]] = []
    wanted = set(wanted)
    for unbroken in contiguous([*wanted, *between]):
        current: list[Window] = []
        passed_over: list[Window] = []
        for window in unbroken:
            if window not in wanted:
                passed_over.append(window)
                continue
            if current and len(passed_over) <= MAX_BRIDGE:
                current += [*passed_over, window]
            else:
                joined += [current] if current else []
                current = [window]
            passed_over = []
        joined += [current] if current else []
    return joined


def plan_ranges(statuses: Iterable[WindowStatus], between: Collection[Window] = ()) -> list[list[Window]]:
    """Return the unbroken ranges in which these windows run, oldest first. Windows that have not failed run together
    (`bridge_gaps`), those that failed together in ever smaller ranges, and each runs alone in its last try.
    """
    planned = []
    by_tries: dict[int, list[Window]] = {}
    for status in statuses:
        is_last = status.failed_tries > 0 and status.failed_tries + 1 >= status.max_tries
        by_tries.setdefault(len(RANGE_SIZES) if is_last else status.failed_tries, []).append(status.window)
    for tries, windows in by_tries.items():
        for unbroken in contiguous(windows) if tries else bridge_gaps(windows, between):
            planned += split_range(unbroken, tries) if tries else [unbroken]
    return sorted(planned)


def split_range(windows: Sequence[Window], tries: int = 1) -> list[list[Window]]:
    """Return the smaller ranges in which windows that failed together ``tries`` times run next.

    >>> from lakehouse_assets.contracts.windows import calendar
    >>> from datetime import UTC
    >>> year = [*calendar(datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC), "daily")]
    >>> [[len(part) for part in split_range(year[:count])] for count in (1, 2, 5, 366)]
    [[1], [1, 1], [2, 2, 1], [64, 64, 64, 64, 64, 46]]
    """
    size = min(RANGE_SIZES[min(tries, len(RANGE_SIZES)) - 1], -(-len(windows) // PARTS))
    return [list(windows[index : index + size]) for index in range(0, len(windows), size)]


def due_ranges(statuses: Iterable[WindowStatus], now: datetime) -> list[list[Window]]:
    """Return the ranges to request now: those whose next try is due, and those that were overlooked."""
    return plan_ranges(status for status in statuses if is_due(status, now))


def is_due(status: WindowStatus, now: datetime) -> bool:
    """Whether a window's next try is due, or it was overlooked."""
    return status.next_step in ("retry", "daemon") and status.due_at is not None and status.due_at <= now
