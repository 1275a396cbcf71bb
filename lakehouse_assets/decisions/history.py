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
    """Current accepted decisions by window. A check does not compare with a window in which it was overridden."""

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self._decisions: dict[datetime, Decision] = {}
        self._starts: list[datetime] = []
        for decision in ledger.accepted_decisions(decisions).values():
            self.learn(decision)

    def learn(self, decision: Decision) -> None:
        """Add an accepted decision, in place of its window's earlier one."""
        if decision.p_extracted_at is None:
            return
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
            decision = self._decisions[other]
            outcome = next((o for o in decision.checks if o["check"] == check.id), {})
            past = Past(other, decision.counts.rows_in, outcome.get("observed", {}))
            if check.in_season(start, other) and check.is_comparable(past) and not {check.id, "*"} & set(decision.waived):
                windows.append(past)
        return windows
