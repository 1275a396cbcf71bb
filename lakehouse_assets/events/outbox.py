"""The outbox: applied decisions that were not sent yet, in order, and their delivery table by table. The decision log is the
outbox: nothing is written twice, nothing is lost.

Belongs here: decisions that are due, the shorter forms of an event, the cursor. Does not: Kafka, or storing the cursors
(orchestration/notify).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Any, Protocol

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.event import DecisionEvent, event_of

TEXT = 200
SHOWN = 20


@dataclass(frozen=True)
class Cursor:
    """How far a table was sent: number, id and run of the last decision sent. They recognize the log: after a loss, another
    decision on the same window may have the same number and id. ``passed``: numbers before it that were not applied then.
    """

    number: int = 0
    decision_id: str = ""
    passed: tuple[int, ...] = ()
    run_id: str = ""

    def is_of(self, decisions: Iterable[Decision]) -> bool:
        """Whether the last decision sent is one of these. Cursors of earlier releases have no run."""
        return any(d.decision_id == self.decision_id and self.run_id in ("", d.run_id) for d in decisions)

    @classmethod
    def at(cls, decision: Decision) -> "Cursor":
        """The cursor of a table whose decisions were sent up to this one, whether they were applied or not."""
        return cls(decision.number, decision.decision_id, (), decision.run_id)

    @classmethod
    def from_text(cls, text: str) -> "Cursor":
        """Return a cursor from `as_text`, or from the number and id that earlier releases wrote. Empty: nothing was sent."""
        number, decision_id, run_id = [*text.split(" "), "", ""][:3]
        return cls(int(number or 0), decision_id, (), run_id)

    def as_text(self) -> str:
        """Return number, id and run, for what needs no more."""
        return f"{self.number} {self.decision_id} {self.run_id}"


@dataclass(frozen=True)
class Message:
    """One decision's event as it is sent: the key decides the order, readers deduplicate by the id. ``value``: as the sender
    takes it.
    """

    table: str
    event_id: str
    event_type: str
    value: Any


@dataclass(frozen=True)
class Answer:
    """A message's outcome: accepted, too large, or failed for a reason."""

    accepted: bool = False
    too_large: bool = False
    error: str = ""


class Sender(Protocol):
    """Carries messages."""

    def send(self, messages: Mapping[str, Message], seconds: float) -> dict[str, Answer]:
        """Send one message per table within ``seconds``; return an answer for each."""
        ...


@dataclass
class Delivery:
    """Decisions delivered by table, an unbroken beginning of what was due; and errors by table."""

    accepted: dict[str, list[Decision]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


Forms = Callable[[Decision], Iterator[Message]]
"""The whole message of a decision, then shorter ones: each is tried only if the one before was too large."""


def find_due(decisions: Sequence[Decision], cursor: Cursor) -> list[Decision]:
    """Return one table's applied decisions that were not sent yet, in order. ``decisions``: all of the table. A log without the
    cursor's decision is another log, and is sent from its beginning.
    """
    if cursor.number and not cursor.is_of(decisions):
        cursor = Cursor()
    return [d for d in decisions if d.applied_at and (d.number > cursor.number or d.number in cursor.passed)]


def advance_cursor(decisions: Sequence[Decision], delivered: Sequence[Decision], cursor: Cursor) -> Cursor:
    """Return the cursor after these were delivered: at the last number up to which all are. Arguments as in `find_due`. It
    remembers unapplied decisions that were passed over (of gold, whose inputs were gone), in case they are applied later.
    """
    if not delivered:
        return cursor
    sent = {d.decision_id for d in delivered}
    first = min((d.number for d in find_due(decisions, cursor) if d.decision_id not in sent), default=inf)
    applied_decisions = [d for d in decisions if d.applied_at and d.number < first]
    if not applied_decisions:
        return Cursor()
    last = applied_decisions[-1]
    passed = tuple(sorted({d.number for d in decisions if d.applied_at is None and d.number < last.number}))
    return Cursor(last.number, last.decision_id, passed, last.run_id)


def deliver(
    waiting: Mapping[str, Sequence[Decision]],
    sender: Sender,
    *,
    forms: Forms | None = None,
    at_most: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Delivery:
    """Send due decisions, each table in order, until all are delivered, ``at_most`` events were sent, or the time is over.
    ``forms``: default Kafka's.

    One message of a table is in flight at a time, so nothing can overtake. A table that fails waits for the next poll, and
    holds up no other.
    """
    forms = forms or event_forms
    end = clock() + seconds
    delivery = Delivery({table: [] for table in waiting})
    pending = {table: forms(decisions[0]) for table, decisions in waiting.items() if decisions}
    count = 0
    while pending and count < at_most and clock() < end:
        messages: dict[str, Message] = {}
        for table in islice(list(pending), at_most - count):
            try:
                messages[table] = next(pending[table])
            except StopIteration:
                delivery.errors[table] = "an event is larger than the receiver takes, even without its checks"
                del pending[table]
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                number = waiting[table][len(delivery.accepted[table])].number
                delivery.errors[table] = f"decision {number} cannot be serialized: {type(error).__name__}"
                del pending[table]
        if not messages:
            continue
        answers = sender.send(messages, max(end - clock(), 0.0))
        for table in messages:
            answer = answers[table]
            if answer.accepted:
                count += 1
                delivered = delivery.accepted[table]
                delivered.append(waiting[table][len(delivered)])
                pending.pop(table)
                if len(delivered) < len(waiting[table]):
                    pending[table] = forms(waiting[table][len(delivered)])
            elif not answer.too_large:
                delivery.errors[table] = answer.error
                del pending[table]
    return delivery


def event_forms(decision: Decision) -> Iterator[Message]:
    """Yield the whole event for Kafka, then shorter forms."""
    for event in shorten(event_of(decision)):
        yield Message(event.table, event.event_id, event.event_type, event.model_dump_json().encode())


def shorten(event: DecisionEvent) -> Iterator[DecisionEvent]:
    """Yield the event; without observed values; with texts cut to 200 characters; without passed checks; with the first 20
    checks and reasons, inputs and overrides. The field `shortened` lists what was left out.
    """
    yield event
    checks = tuple(check.model_copy(update={"observed": {}}) for check in event.checks)
    yield (event := _without(event, "observed", checks=checks))
    checks = tuple(check.model_copy(update={"message": _cut(check.message)}) for check in event.checks)
    reasons = tuple(reason.model_copy(update={"message": _cut(reason.message)}) for reason in event.reasons)
    person = {"because": event.because and _cut(event.because), "by": event.by and _cut(event.by)}
    yield (event := _without(event, "messages", checks=checks, reasons=reasons, **person))
    checks = tuple(check for check in event.checks if check.status != "passed")
    yield (event := _without(event, "passed checks", checks=checks))
    first = {name: getattr(event, name)[:SHOWN] for name in ("checks", "reasons", "waived")}
    yield _without(event, "checks", **first, inputs=dict(islice(event.inputs.items(), SHOWN)))


def _without(event: DecisionEvent, what: str, **changed: object) -> DecisionEvent:
    return event.model_copy(update={**changed, "shortened": (*event.shortened, what)})


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"
