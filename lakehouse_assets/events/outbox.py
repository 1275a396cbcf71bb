"""The outbox: applied decisions that have not been sent yet, in order, and sending them table by table.

Belongs here: which are due, how an event that is too large is shortened, what counts as sent. Does not: Kafka, or where it is
kept how far each table was sent (orchestration). The decisions' log is the outbox: nothing is written twice, nothing is lost.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.event import DecisionEvent, event_of

TEXT = 200
SHOWN = 20


@dataclass(frozen=True)
class Cursor:
    """How far a table was sent: the number of the last decision that is, and its id, by which the log is known again.

    ``passed``: numbers before it that were not applied then.
    """

    number: int = 0
    decision_id: str = ""
    passed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Message:
    """What is sent of one decision: the key decides the order, the id is what a reader knows a repetition by."""

    table: str
    event_id: str
    event_type: str
    value: bytes


@dataclass(frozen=True)
class Answer:
    """What became of a message: taken for good, too large, or neither, with the reason."""

    taken: bool = False
    too_large: bool = False
    trouble: str = ""


class Sender(Protocol):
    """Whoever carries messages."""

    def send(self, messages: Mapping[str, Message], seconds: float) -> dict[str, Answer]:
        """Send one message per table, and wait so long at most. An answer for each."""
        ...


@dataclass
class Delivered:
    """Which decisions of each table were taken, an unbroken beginning of what was due; and what went wrong, by table."""

    taken: dict[str, list[Decision]] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)


def due(decisions: Sequence[Decision], cursor: Cursor) -> list[Decision]:
    """Applied decisions of one table that are not sent yet, in the order in which they were made.

    ``decisions``: all of the table, as `logs.decisions` gives them. A log in which the cursor's decision does not stand is
    another one, and is sent from its beginning.
    """
    if cursor.number and cursor.decision_id not in {d.decision_id for d in decisions}:
        cursor = Cursor()
    return [d for d in decisions if d.applied_at and (d.number > cursor.number or d.number in cursor.passed)]


def moved(decisions: Sequence[Decision], taken: Sequence[Decision], cursor: Cursor) -> Cursor:
    """The cursor once these were taken: at the last number of which all is. ``decisions`` and ``taken`` as in `due`.

    What was passed over unapplied (a gold table's, whose inputs were gone) is remembered, should it be applied after all.
    """
    sent = {d.decision_id for d in taken}
    left = [d for d in due(decisions, cursor) if d.decision_id not in sent]
    if not sent:
        return cursor
    first = min((d.number for d in left), default=None)
    done = [d for d in decisions if d.applied_at and (first is None or d.number < first)]
    if not done:
        return Cursor()
    last = done[-1]
    passed = tuple(sorted({d.number for d in decisions if d.applied_at is None and d.number < last.number}))
    return Cursor(last.number, last.decision_id, passed)


def deliver(
    waiting: Mapping[str, Sequence[Decision]],
    sender: Sender,
    *,
    at_most: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Delivered:
    """Send what is due, each table in order, until all is taken, ``at_most`` events were, or the time is over.

    Of a table, one message is on its way at a time: the next follows when it was taken. So nothing can overtake, whatever
    fails. A table whose message is not taken waits for the next time, and holds up no other.
    """
    end = clock() + seconds
    found = Delivered({table: [] for table in waiting})
    forms = {table: _forms(decisions[0]) for table, decisions in waiting.items() if decisions}
    count = 0
    while forms and count < at_most and clock() < end:
        messages: dict[str, Message] = {}
        for table in islice(list(forms), at_most - count):
            try:
                messages[table] = next(forms[table])
            except StopIteration:
                found.troubles[table] = "an event is larger than the broker takes, even without its checks"
                del forms[table]
            except (ValueError, KeyError) as error:
                place = waiting[table][len(found.taken[table])].number
                found.troubles[table] = f"decision {place} cannot be told: {type(error).__name__}"
                del forms[table]
        if not messages:
            continue
        answers = sender.send(messages, max(end - clock(), 0.0))
        for table in messages:
            answer = answers[table]
            if answer.taken:
                count += 1
                taken = found.taken[table]
                taken.append(waiting[table][len(taken)])
                forms.pop(table)
                if len(taken) < len(waiting[table]):
                    forms[table] = _forms(waiting[table][len(taken)])
            elif not answer.too_large:
                found.troubles[table] = answer.trouble
                del forms[table]
    return found


def _forms(decision: Decision) -> Iterator[Message]:
    """The event whole, then shorter and shorter: each is tried only where the one before was too large."""
    for event in shortened(event_of(decision)):
        yield Message(event.table, event.event_id, event.event_type, event.model_dump_json().encode())


def shortened(event: DecisionEvent) -> Iterator[DecisionEvent]:
    """The event; without what was observed; with the first 200 characters of each text; without the checks that passed; with
    the first 20 checks and reasons, inputs and overrides. `shortened` says what was done.
    """
    yield event
    checks = tuple(check.model_copy(update={"observed": {}}) for check in event.checks)
    event = _less(event, "observed", checks=checks)
    yield event
    checks = tuple(check.model_copy(update={"message": _cut(check.message)}) for check in event.checks)
    reasons = tuple(reason.model_copy(update={"message": _cut(reason.message)}) for reason in event.reasons)
    because = event.because and _cut(event.because)
    event = _less(event, "messages", checks=checks, reasons=reasons, because=because, by=event.by and _cut(event.by))
    yield event
    event = _less(event, "passed checks", checks=tuple(check for check in event.checks if check.status != "passed"))
    yield event
    yield _less(
        event,
        "checks",
        checks=event.checks[:SHOWN],
        reasons=event.reasons[:SHOWN],
        waived=event.waived[:SHOWN],
        inputs=dict(islice(event.inputs.items(), SHOWN)),
    )


def _less(event: DecisionEvent, what: str, **changed: object) -> DecisionEvent:
    return event.model_copy(update={**changed, "shortened": (*event.shortened, what)})


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"
