"""The accepted windows before a batch, for checks that compare with them.

Belongs here: which windows a check compares with. Does not: profiles and drift (baseline), or the comparison (checks).
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from datetime import datetime

from lakehouse_assets.checks.families import HistoryCheck, Past
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger


class History:
    """Current accepted decisions by window. A check does not compare with a window in which it was overridden.

    ``first_of_hour``: of a stream, the windows that checks with a season compare with; None: any window.
    """

    def __init__(self, decisions: Iterable[Decision] = (), first_of_hour: Iterable[datetime] | None = None) -> None:
        self._decisions: dict[datetime, Decision] = {}
        self._starts: list[datetime] = []
        self._first = None if first_of_hour is None else {_hour(start): start for start in first_of_hour}
        for decision in ledger.accepted_decisions(decisions).values():
            self.learn(decision)

    def learn(self, decision: Decision) -> None:
        """Add an accepted decision, in place of its window's earlier one."""
        if decision.p_extracted_at is None:
            return
        if self._first is not None:
            self._first.setdefault(_hour(decision.p_extracted_at), decision.p_extracted_at)
        if decision.p_extracted_at not in self._decisions:
            insort(self._starts, decision.p_extracted_at)
        self._decisions[decision.p_extracted_at] = decision

    def forget(self, start: datetime) -> None:
        """Remove a window."""
        if self._decisions.pop(start, None):
            self._starts.remove(start)

    def before(self, start: datetime, check: HistoryCheck) -> list[Past]:
        """At most ``check.windows`` windows before ``start``, newest first."""
        windows: list[Past] = []
        for other in reversed(self._starts[: bisect_left(self._starts, start)]):
            if len(windows) == check.windows:
                break
            if check.season and self._first is not None and self._first.get(_hour(other)) != other:
                continue
            decision = self._decisions[other]
            outcome = next((o for o in decision.checks if o["check"] == check.id), {})
            past = Past(other, decision.counts.rows_in, outcome.get("observed", {}))
            if check.in_season(start, other) and check.is_comparable(past) and not {check.id, "*"} & set(decision.waived):
                windows.append(past)
        return windows


def _hour(start: datetime) -> datetime:
    return start.replace(minute=0, second=0, microsecond=0)


def choose_history(
    accepted: Iterable[datetime], judged: Iterable[datetime], checks: Iterable[HistoryCheck]
) -> tuple[set[datetime], list[datetime]]:
    """Return the windows of a stream whose figures are read, and the first window of each hour.

    A check without a season compares with the windows right before; some of them it cannot use, so twice as many are read. One
    with a season compares with the first window of each hour: of as many days as it has ``windows``.
    """
    checks, starts, chosen = list(checks), sorted(set(accepted)), set[datetime]()
    first = list({_hour(start): start for start in reversed(starts)}.values())[::-1]
    newest = max((2 * check.windows for check in checks if not check.season), default=0)
    hours = max((2 * 24 * check.windows for check in checks if check.season), default=0)
    for start in judged:
        for each, count in ((starts, newest), (first, hours)):
            end = bisect_left(each, start)
            chosen.update(each[max(0, end - count) : end])
    return chosen, first
