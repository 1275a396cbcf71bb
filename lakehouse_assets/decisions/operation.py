"""An operation that a person requests. Its id follows from the request, so that one that was killed is recognized.

Belongs here: the id, and which decisions it has made already. Does not: doing it (operations).
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger


@dataclass(frozen=True)
class Operation:
    """``arguments``: the request's arguments (batch or windows, overridden checks, by whom, why). ``judged_by``: what else its
    outcome depends on and a person may change between two requests: the rules, other tables, the baseline.
    """

    table: str
    kind: str
    arguments: Mapping[str, Any]
    judged_by: Mapping[str, Any] = field(default_factory=dict)

    def id_after(self, number: int) -> str:
        """The id of this request, made when ``number`` was the last of the table's log. On another state it is another one."""
        return f"{self._request(number)}-{_digest(self.judged_by)}"

    def decisions_made(self, log: Sequence[Decision], attempts: Collection[str] = ()) -> dict[Batch, Decision]:
        """The current decisions that this operation has made already, by batch; empty where it is a new one. ``attempts``: ids
        of the runs that this run tries again; their decisions are of the same operation, whatever has changed.
        """
        current = [d for d in ledger.current_decisions(log).values() if d.kind == self.kind and d.superseded_by is None]
        first: dict[str | None, int] = {}
        for decision in log:
            if decision.superseded_by is None:
                first[decision.operation] = min(decision.number, first.get(decision.operation, decision.number))
        return {d.batch: d for d in current if self._is_own_decision(d, first[d.operation] - 1, d.run_id in attempts, log)}

    def _is_own_decision(self, decision: Decision, after: int, tried_again: bool, log: Sequence[Decision]) -> bool:
        if decision.operation is None:
            return tried_again
        request, _, state = decision.operation.partition("-")
        if request != self._request(after):
            return False
        same_state = state == _digest(self.judged_by)
        if self.kind in ("released", "discarded"):
            # A batch without rows in quarantine is settled, whatever has changed since. Of any other, a person who asks again
            # after further decisions of the table wants today's judgement.
            settled = not decision.counts.rows_quarantined and decision.verdict != "quarantined"
            return tried_again or settled or (same_state and not _has_later_decisions(decision, log))
        return tried_again or same_state

    def _request(self, number: int) -> str:
        return _digest({"table": self.table, "kind": self.kind, "after": number, **self.arguments})


def _has_later_decisions(decision: Decision, log: Sequence[Decision]) -> bool:
    """Whether the table has later decisions, other than the records of what this one superseded."""
    return any(d.number > decision.number and d.superseded_by != decision.decision_id for d in log)


def _digest(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
