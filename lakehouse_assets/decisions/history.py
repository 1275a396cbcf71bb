"""What earlier windows were like, for checks that compare with them: accepted windows, as known at a decision.

Belongs here: which windows a check is shown. Does not: profiles and drift (baseline), or the comparison (checks).
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from datetime import datetime

from lakehouse_assets.checks.history import HistoryCheck, Past
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger


class History:
    """Standing accepted decisions by window. A window whose figure was let through by an override does not teach it."""

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self._known: dict[datetime, Decision] = {}
        self._starts: list[datetime] = []
        for decision in ledger.accepted(decisions).values():
            self.learn(decision)

    def learn(self, decision: Decision) -> None:
        """An accepted decision takes the place of its window's earlier one."""
        if decision.p_extracted_at is None:
            return
        if decision.p_extracted_at not in self._known:
            insort(self._starts, decision.p_extracted_at)
        self._known[decision.p_extracted_at] = decision

    def forget(self, start: datetime) -> None:
        """The window teaches nothing any more."""
        if self._known.pop(start, None):
            self._starts.remove(start)

    def before(self, start: datetime, check: HistoryCheck) -> list[Past]:
        """At most ``check.windows`` windows before ``start``, newest first."""
        found: list[Past] = []
        for place in range(bisect_left(self._starts, start) - 1, -1, -1):
            other = self._starts[place]
            if len(found) == check.windows:
                break
            decision = self._known[other]
            outcome = next((o for o in decision.checks if o["check"] == check.id), {})
            past = Past(other, decision.counts.rows_in, outcome.get("observed", {}))
            if check.in_season(start, other) and check.usable(past) and not {check.id, "*"} & set(decision.waived):
                found.append(past)
        return found
