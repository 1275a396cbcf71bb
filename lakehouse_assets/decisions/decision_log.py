"""A table's decisions in order, with what they add up to: computed once, and brought up to date by each further one.

Belongs here: these sums. Does not: what they mean (ledger), or reading decisions (storage/logs).

A run asks some thirty times which decisions are current. To go through 100,000 of them each time takes seconds.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import compress, count
from operator import ne
from typing import Any, Self

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions.growing_map import GrowingMap
from lakehouse_assets.decisions.order_span import RecordedSpans


@dataclass
class Sums:
    """``current``: each batch's last decision, in the order of the batches' first ones. ``accepted``: those of them that are
    accepted, ``spans``: where their rows lie in the total order. ``joining``: those whose profiles join the baseline, by
    number. ``superseded``: those that a later extraction replaced. ``quarantined``: those with quarantined rows, or of a
    quarantined batch. ``by_window``: all decisions, by number. ``starts``: of all windows, oldest first. ``unapplied``: neither
    applied nor a record of supersession, by number. ``applied``: the applied ones by id, ``profiled``: those of them whose
    profiles join the baseline. ``ids``: of all, each with its window. ``superseding``: by the id of a decision what it
    superseded. ``last_own_number``: without the records of supersession. ``is_single``: whether, without these records, the
    numbers rise, and no id comes twice. ``evolves``: whether one changed the contract. ``discards``: whether one discarded
    rows.
    """

    current: GrowingMap[Batch, Decision] = field(default_factory=GrowingMap)
    accepted: GrowingMap[Batch, Decision] = field(default_factory=GrowingMap)
    joining: GrowingMap[Batch, Decision] = field(default_factory=GrowingMap)
    superseded: GrowingMap[Batch, Decision] = field(default_factory=GrowingMap)
    quarantined: GrowingMap[Batch, Decision] = field(default_factory=GrowingMap)
    by_window: GrowingMap[datetime, tuple[Decision, ...]] = field(default_factory=GrowingMap)
    starts: list[datetime] = field(default_factory=list)
    spans: RecordedSpans = field(default_factory=RecordedSpans)
    unapplied: list[Decision] = field(default_factory=list)
    applied: GrowingMap[str, Decision] = field(default_factory=GrowingMap)
    profiled: GrowingMap[str, Decision] = field(default_factory=GrowingMap)
    ids: GrowingMap[str, datetime | None] = field(default_factory=GrowingMap)
    superseding: GrowingMap[str, tuple[Decision, ...]] = field(default_factory=GrowingMap)
    last_number: int = 0
    last_own_number: int = 0
    is_single: bool = True
    evolves: bool = False
    discards: bool = False

    @classmethod
    def of(cls, decisions: Iterable[Decision]) -> Self:
        """Of these decisions, in any order."""
        sums = cls()
        for decision in sorted(decisions, key=lambda d: d.number):
            sums.add(decision)
        # A batch that was accepted again has moved to the end.
        sums.accepted = GrowingMap((batch, d) for batch, d in sums.current.items() if d.accepted)
        return sums

    def copy(self) -> "Sums":
        """The same sums, to be changed."""
        shared = (int, bool)
        return replace(self, **{name: each.copy() for name, each in vars(self).items() if not isinstance(each, shared)})

    def add(self, decision: Decision) -> bool:
        """Add a decision whose number is not below the last one's. Whether ``accepted`` is still in its order."""
        batch, own = decision.batch, decision.superseded_by is None
        comes_back = decision.accepted and batch in self.current and batch not in self.accepted
        self.is_single &= not own or (decision.number > self.last_own_number and decision.decision_id not in self.ids)
        self.current[batch] = decision
        self.spans.put(decision)
        if not decision.accepted:
            self.accepted.pop(batch, None)
        else:
            self.accepted[batch] = decision
        self.quarantined.pop(batch, None)
        if own and (decision.counts.rows_quarantined or decision.verdict == "quarantined"):
            self.quarantined[batch] = decision
        if (joined := self.joining.pop(batch, None)) is not None:
            self.profiled.pop(joined.decision_id, None)
        self.superseded.pop(batch, None)
        if decision.accepted and decision.teaches:
            self.joining[batch] = decision
        if decision.superseded_by is None:
            self.last_own_number = max(self.last_own_number, decision.number)
        else:
            self.superseding[decision.superseded_by] = (*self.superseding.get(decision.superseded_by, ()), decision)
            self.superseded[batch] = decision
        if (start := decision.p_extracted_at) is not None:
            if start not in self.by_window:
                insort(self.starts, start)
            self.by_window[start] = (*self.by_window.get(start, ()), decision)
        if own and decision.applied_at is None:
            self.unapplied.append(decision)
        self._count_applied(decision)
        self.ids[decision.decision_id] = decision.p_extracted_at
        self.last_number = max(self.last_number, decision.number)
        self.evolves |= bool(decision.evolved)
        self.discards |= decision.kind == "discarded"
        return not comes_back

    def _count_applied(self, decision: Decision) -> None:
        """Count a decision if it is applied. One that is not applied any more makes all be counted anew."""
        if decision.applied_at is None:
            return
        if decision.superseded_by is None:
            self.applied[decision.decision_id] = decision
        if self.joining.get(decision.batch) is decision:
            self.profiled[decision.decision_id] = decision

    def exchange(self, old: Decision, new: Decision) -> bool:
        """Put a decision in its own place, as it was marked or checked. Whether that is possible."""
        same = ("decision_id", "accepted", "teaches", "superseded_by", "counts")
        if any(getattr(new, name) != getattr(old, name) for name in same):
            return False
        for part in (self.current, self.accepted, self.joining, self.superseded, self.quarantined):
            if part.get(old.batch) is old:
                part[old.batch] = new
        if self.accepted.get(new.batch) is new:
            self.spans.put(new)
        if (start := old.p_extracted_at) is not None:
            self.by_window[start] = tuple(new if each is old else each for each in self.by_window[start])
        if (name := old.superseded_by) is not None:
            self.superseding[name] = tuple(new if each is old else each for each in self.superseding[name])
        self._count_applied(new)
        waits = new.applied_at is None
        if any(each is old for each in self.unapplied):
            self.unapplied = [new if each is old else each for each in self.unapplied if waits or each is not old]
        elif waits and new.superseded_by is None:
            return False
        return True


class DecisionLog(Sequence[Decision]):
    """A table's decisions. Only who has made it, or a copy, may change it: whoever else has it counts on its content."""

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self._decisions = list(decisions)
        self._sums: Sums | None = None

    def copy(self) -> "DecisionLog":
        """The same decisions, to be changed."""
        log = DecisionLog(self._decisions)
        log._sums = self._sums.copy() if self._sums else None
        return log

    def followed_by(self, decisions: Iterable[Decision]) -> "DecisionLog":
        """A log that has these decisions besides."""
        log = self.copy()
        log.extend(decisions)
        return log

    @property
    def sums(self) -> Sums:
        """What the decisions add up to: for reading."""
        if self._sums is None:
            self._sums = Sums.of(self._decisions)
        return self._sums

    def extend(self, decisions: Iterable[Decision]) -> None:
        """Add decisions after the others."""
        for decision in decisions:
            self._decisions.append(decision)
            if self._sums and (decision.number < self._sums.last_number or not self._sums.add(decision)):
                self._sums = None

    def exchange(self, index: int, decision: Decision) -> None:
        """Put a decision in place of another one."""
        old, self._decisions[index] = self._decisions[index], decision
        if self._sums and not self._sums.exchange(old, decision):
            self._sums = None

    def __len__(self) -> int:
        return len(self._decisions)

    def __iter__(self) -> Iterator[Decision]:
        return iter(self._decisions)

    def __getitem__(self, index: Any) -> Any:
        return self._decisions[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._decisions == [*other]

    __hash__ = None  # type: ignore[assignment]


def log_of(decisions: Iterable[Decision]) -> DecisionLog:
    """Return these decisions as a log; a log stays itself."""
    return decisions if isinstance(decisions, DecisionLog) else DecisionLog(decisions)


def count_alike(before: Sequence[int | str], now: Sequence[int | str]) -> int:
    """Return how many of the first ids are the same: nearly all, since logs grow at their end."""
    return next(compress(count(), map(ne, before, now)), min(len(before), len(now)))
