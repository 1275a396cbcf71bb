"""Kafka: the client's properties, and a sender of messages that says of each whether all brokers in sync have it.

Belongs here: what `confluent-kafka` is told and asked. Does not: which messages, their order, how far they were sent (outbox).
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Report

from lakehouse_assets.errors import ConfigError
from lakehouse_assets.events.outbox import Answer, Message
from lakehouse_assets.settings import Settings

# Down, a broker may cost each look so long and no longer.
PROBE_SECONDS = 3.0
OURS = {
    "bootstrap.servers": None,
    "enable.idempotence": True,
    "acks": "all",
    # One message of a table is on its way at a time (outbox): there is nothing to wait for, and no batch to grow too large.
    "linger.ms": 0,
    "batch.num.messages": 1,
    "message.timeout.ms": 10_000,
}
# What the client library says by itself names addresses and comes with every look at a broker that is down.
_silent = logging.getLogger(f"{__name__}.client")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def properties(settings: Settings) -> dict[str, object]:
    """The client's properties: those of ``LAKEHOUSE_KAFKA_CONF`` (``key=value`` lines), then ours, which win no contest: a file
    that names one of them is refused. ``${LAKEHOUSE_SECRET_<NAME>}`` in a value stands for that variable.

    Raises EnvironmentMissing where a file or a variable is not there, ConfigError for a line that is none.
    """
    return {**settings.kafka_properties(OURS), **OURS, "bootstrap.servers": settings.kafka_bootstrap}


class KafkaSender:
    """Sends to one topic. Made by `kafka_sender`, which also ends it."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer, self._topic = producer, topic

    def send(self, messages: Mapping[str, Message], seconds: float) -> dict[str, Answer]:
        """One message per table; each is answered when the brokers have, or as not taken when the time is over."""
        answers: dict[str, Answer] = {}
        end = time.monotonic() + seconds
        for table, message in messages.items():

            def reported(error: KafkaError | None, _: Report, table: str = table) -> None:
                answers[table] = _answer(error)

            try:
                self._producer.produce(
                    self._topic,
                    key=table,
                    value=message.value,
                    headers=[("event_id", message.event_id.encode()), ("event_type", message.event_type.encode())],
                    on_delivery=reported,
                )
            except (KafkaException, BufferError) as error:
                cause = error.args[0] if error.args else None
                answers[table] = _answer(cause) if isinstance(cause, KafkaError) else Answer(trouble=str(error))
        self._producer.flush(max(end - time.monotonic(), 0.0))
        late = Answer(trouble="no broker has answered in time")
        return {table: answers.get(table, late) for table in messages}

    def probe(self, seconds: float) -> None:
        """Raise ConnectionError where no broker answers or the topic is not there (and is not made by being asked for)."""
        end = time.monotonic() + seconds
        while True:
            try:
                topic = self._producer.list_topics(self._topic, timeout=max(end - time.monotonic(), 0.1)).topics[self._topic]
            except KafkaException as error:
                raise ConnectionError(f"Kafka does not answer: {_said(error)}") from None
            if topic.error is None:
                return
            # A topic that is made by being asked for is not there at once.
            if time.monotonic() > end:
                raise ConnectionError(f"topic {self._topic}: {topic.error.str()}")
            time.sleep(0.1)


def _answer(error: KafkaError | None) -> Answer:
    if error is None:
        return Answer(taken=True)
    return Answer(too_large=error.code() == KafkaError.MSG_SIZE_TOO_LARGE, trouble=error.str())


def _said(error: KafkaException) -> str:
    cause = error.args[0]
    return cause.str() if isinstance(cause, KafkaError) else str(error)


@contextmanager
def kafka_sender(settings: Settings, probe_seconds: float = PROBE_SECONDS) -> Iterator[KafkaSender]:
    """A sender for as long as the block lasts. Raises ConfigError where the client refuses a property (no value is named),
    ConnectionError where nobody answers, EnvironmentMissing as `properties`.
    """
    given = properties(settings)
    try:
        producer = Producer({**given, "logger": _silent})
    except (KafkaException, TypeError, ValueError) as error:
        raise ConfigError(f"{settings.kafka_conf or 'LAKEHOUSE_KAFKA_BOOTSTRAP'}: {_without_values(error, given)}") from None
    try:
        sender = KafkaSender(producer, settings.kafka_topic)
        sender.probe(probe_seconds)
        yield sender
    finally:
        # What is still here was not taken, and will be sent again: to wait for it would hold up whoever called.
        producer.purge(in_queue=True, in_flight=True, blocking=False)
        producer.flush(0)


def _without_values(error: Exception, given: Mapping[str, object]) -> str:
    """The client's words, but where they repeat a value: it may be a secret."""
    said = _said(error) if isinstance(error, KafkaException) else str(error)
    if not any(value in said for name, value in given.items() if name not in OURS and isinstance(value, str)):
        return said
    names = [name for name in given if f'"{name}"' in said]
    return f"Kafka's client refuses the value of {', '.join(names) or 'a property'}"
