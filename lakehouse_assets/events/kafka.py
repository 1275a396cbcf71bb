"""Kafka: the producer's properties, and a sender that reports for each message whether all brokers in sync have it.

Belongs here: the use of `confluent-kafka`. Does not: messages, their order, or how far they were sent (outbox).
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

# A broker that is down costs each poll this long.
PROBE_SECONDS = 3.0
OURS = {
    "bootstrap.servers": None,
    "enable.idempotence": True,
    "acks": "all",
    # One message of a table is in flight at a time (outbox): batching would only delay it.
    # Of two requests in flight for a partition of two tables, the client takes the first for accepted as soon as the second is,
    # though a broker may refuse one for a moment (its topic is new, its leader moves) and accept the next.
    "max.in.flight.requests.per.connection": 1,
    "linger.ms": 0,
    "batch.num.messages": 1,
    "message.timeout.ms": 10_000,
}
# The library's other names of these properties.
SYNONYMS = ("metadata.broker.list", "request.required.acks", "max.in.flight", "queue.buffering.max.ms", "delivery.timeout.ms")
# The library's own log messages name addresses, and repeat at every poll of a broker that is down.
_silent = logging.getLogger(f"{__name__}.client")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def client_properties(settings: Settings) -> dict[str, object]:
    """Return the producer's properties: those of ``LAKEHOUSE_KAFKA_CONF``, then ours; a file that names one of ours is refused.

    Raises EnvironmentMissing if a file or a variable is missing, ConfigError for an invalid line.
    """
    return {**settings.kafka_properties((*OURS, *SYNONYMS)), **OURS, "bootstrap.servers": settings.kafka_bootstrap}


class KafkaSender:
    """Sends to one topic. Opened and closed by `open_sender`."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer, self._topic = producer, topic

    def send(self, messages: Mapping[str, Message], seconds: float) -> dict[str, Answer]:
        """Send one message per table. Each answer says that the brokers have it, or why not within the time."""
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
                answers[table] = _answer(cause) if isinstance(cause, KafkaError) else Answer(error=str(error))
        self._producer.flush(max(end - time.monotonic(), 0.0))
        late = Answer(error="no broker has answered in time")
        return {table: answers.get(table, late) for table in messages}

    def probe(self, seconds: float) -> None:
        """Raise ConnectionError if no broker answers or the topic does not exist (and is not created on request)."""
        end = time.monotonic() + seconds
        while True:
            try:
                topic = self._producer.list_topics(self._topic, timeout=max(end - time.monotonic(), 0.1)).topics[self._topic]
            except KafkaException as error:
                raise ConnectionError(f"Kafka does not answer: {_error_text(error)}") from None
            if topic.error is None:
                return
            # A topic that is created on request takes a moment.
            if time.monotonic() > end:
                raise ConnectionError(f"topic {self._topic}: {topic.error.str()}")
            time.sleep(0.1)


def _answer(error: KafkaError | None) -> Answer:
    if error is None:
        return Answer(accepted=True)
    return Answer(too_large=error.code() == KafkaError.MSG_SIZE_TOO_LARGE, error=error.str())


def _error_text(error: KafkaException) -> str:
    cause = error.args[0]
    return cause.str() if isinstance(cause, KafkaError) else str(error)


@contextmanager
def open_sender(settings: Settings, probe_seconds: float = PROBE_SECONDS) -> Iterator[KafkaSender]:
    """Open a sender for the block. Raises ConfigError if the client refuses a property (no value is named), ConnectionError if
    no broker answers, EnvironmentMissing as `client_properties`.
    """
    properties = client_properties(settings)
    try:
        producer = Producer({**properties, "logger": _silent})
    except (KafkaException, TypeError, ValueError) as error:
        location = settings.kafka_conf or "LAKEHOUSE_KAFKA_BOOTSTRAP"
        raise ConfigError(f"{location}: {_without_values(error, properties)}") from None
    try:
        sender = KafkaSender(producer, settings.kafka_topic)
        sender.probe(probe_seconds)
        yield sender
    finally:
        # What is left is sent again at the next poll: do not wait for it.
        producer.purge(in_queue=True, in_flight=True, blocking=False)
        producer.flush(0)


def _without_values(error: Exception, properties: Mapping[str, object]) -> str:
    """Return the client's message, unless it repeats a value: that may be a secret."""
    message = _error_text(error) if isinstance(error, KafkaException) else str(error)
    if not any(value in message for name, value in properties.items() if name not in OURS and isinstance(value, str)):
        return message
    names = [name for name in properties if f'"{name}"' in message]
    return f"Kafka's client refuses the value of {', '.join(names) or 'a property'}"
