"""The publisher: each applied decision becomes an event in Kafka, at least once and in order, from the log itself.

Belongs here: how far each table was sent (kept by the instance), and the sensor. Does not: the event, its order, or Kafka
(events).
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.errors import LakehouseError, LockedError
from lakehouse_assets.events.kafka import kafka_sender
from lakehouse_assets.events.outbox import Cursor, Sender, deliver, due, moved
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.lock import table_lock

PREFIX = "lakehouse_published/"
# Of one look: what is left is for the next, half a minute later.
AT_MOST = 1000
SECONDS = 10.0
OFF = "LAKEHOUSE_KAFKA_BOOTSTRAP is not set: decisions are told to nobody; they stay in the log"
Open = Callable[[Settings], AbstractContextManager[Sender]]


@dataclass
class Published:
    """Events that were sent, events that wait, and what went wrong: it is tried again."""

    sent: int = 0
    waiting: int = 0
    troubles: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """For a person."""
        told = f"{self.sent} event(s) sent" if self.sent or not self.waiting else "nothing sent"
        return "; ".join([told, *([f"{self.waiting} wait"] if self.waiting else []), *self.troubles])


def publish_decisions(
    instance: dg.DagsterInstance,
    settings: Settings,
    *,
    opened: Open = kafka_sender,
    at_most: int = AT_MOST,
    seconds: float = SECONDS,
    step: Callable[[str], None] = lambda _: None,
) -> Published:
    """Send what has not been sent, for ``seconds`` at most once the log is read. Without a broker's address, nothing is read.

    ``step``: told `events_sent`, once brokers have them and before that is marked: a crash there sends them again.
    """
    if settings.kafka_bootstrap is None:
        return Published()
    try:
        # Two at once would send everything twice. That is allowed, but good for nothing.
        with table_lock(settings, "ops_outbox", wait_seconds=0):
            return _publish(instance, settings, opened, at_most, seconds, step)
    except LockedError:
        return Published(troubles=["another process is sending"])


def _publish(
    instance: dg.DagsterInstance, settings: Settings, opened: Open, at_most: int, seconds: float, step: Callable[[str], None]
) -> Published:
    known: dict[str, list[Decision]] = {}
    for decision in logs.decisions(settings, evidence=False):
        known.setdefault(decision.table, []).append(decision)
    cursors = {table: _cursor(instance, settings, table) for table in known}
    behind = [table for table in sorted(known) if due(known[table], cursors[table])]
    if not behind:
        return Published()
    # Only now the checks, and only of those tables: most looks find nothing.
    for table in behind:
        known[table] = logs.decisions(settings, table, evidence=False, checks=True)
    waiting = {table: due(known[table], cursors[table]) for table in behind}
    found = Published(waiting=sum(map(len, waiting.values())))
    try:
        with opened(settings) as sender:
            delivered = deliver(waiting, sender, at_most=at_most, seconds=seconds)
    except (LakehouseError, ConnectionError) as error:
        found.troubles.append(str(error))
        return found
    step("events_sent")
    for table, taken in delivered.taken.items():
        if taken:
            _mark(instance, settings, table, moved(known[table], taken, cursors[table]))
            found.sent += len(taken)
    found.waiting -= found.sent
    found.troubles += [f"{table}: {trouble}" for table, trouble in sorted(delivered.troubles.items())]
    return found


def _key(settings: Settings, table: str) -> str:
    # Another topic has had nothing yet, and gets everything.
    return f"{PREFIX}{settings.kafka_topic}/{table}"


def _cursor(instance: dg.DagsterInstance, settings: Settings, table: str) -> Cursor:
    key = _key(settings, table)
    kept = instance.daemon_cursor_storage.get_cursor_values({key}).get(key)
    if not kept:
        return Cursor()
    values = json.loads(kept)
    return Cursor(values["number"], values["decision_id"], tuple(values["passed"]))


def _mark(instance: dg.DagsterInstance, settings: Settings, table: str, cursor: Cursor) -> None:
    instance.daemon_cursor_storage.set_cursor_values({_key(settings, table): json.dumps(asdict(cursor))})


def state_of(settings: Settings) -> str:
    """Where it is as it was, nothing new is to be sent. To read the log of a year takes seconds, and most looks find it so."""
    return f"{settings.kafka_topic} {delta.state(settings.path('ops', 'decisions'))}"


def publisher_sensor(settings: Settings) -> dg.SensorDefinition:
    """The sensor, on by default: it reads the decisions' log without a JVM. Without a broker's address it says so."""

    @dg.sensor(
        name="publish_decisions",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends each applied decision to Kafka as an event, where LAKEHOUSE_KAFKA_BOOTSTRAP names a broker.",
    )
    def publish(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        if settings.kafka_bootstrap is None:
            return dg.SkipReason(OFF)
        looked_at = state_of(settings)
        if context.cursor == looked_at:
            return dg.SkipReason("nothing has been decided since the last look")
        found = publish_decisions(context.instance, settings)
        for trouble in found.troubles:
            context.log.warning(trouble)
        context.update_cursor("" if found.troubles or found.waiting else looked_at)
        return dg.SkipReason(str(found))

    return publish
