"""Kafka through a light client: where partitions begin and end, offsets of a time; and the options of Spark's client.

Belongs here: addresses and secrets of the environment, for both clients; no error shows them. Does not: windows.
"""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from lakehouse_assets.errors import ConfigError, EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.feed import moment_of
from lakehouse_assets.sources.kafka_ranges import Offsets

SECONDS = 10.0
OURS = ("bootstrap.servers", "group.id", "enable.auto.commit")
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
# The security properties that both clients take; any other is refused, not left out.
TRANSLATED = {"security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location"}
# Limits of a sample of messages.
MOST_VALUES, SAMPLE_SECONDS = 50, 0.2
# The longest wait for the first messages of all partitions.
OLDEST_SECONDS = 2.0
# A sample is small: no more is fetched ahead, and a fetch at the end of the topic, for which later requests wait, is short. A
# larger message comes by the broker's rule for the first one, or by the client's, which then asks for more.
SAMPLING = {
    "queued.min.messages": MOST_VALUES,
    "fetch.wait.max.ms": 20,
    "fetch.message.max.bytes": 16 * 1024,
    "enable.partition.eof": True,
}
_thread = threading.local()
# The library's own log messages name addresses.
_silent = logging.getLogger(f"{__name__}.client")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class Topic:
    """One topic, connected while `open_topic` or `share_topic` has it open.

    Every method but `is_answering` raises SourceError where the brokers do not answer.
    """

    def __init__(self, consumer: Consumer, name: str) -> None:
        self._consumer, self._name = consumer, name
        self._offsets_by_time: dict[datetime, Offsets] = {}
        self.partitions: list[int] = []
        self.find_partitions()

    def find_partitions(self) -> None:
        """Ask which partitions the topic has by now."""
        with _source_errors(self._name):
            metadata = self._consumer.list_topics(self._name, timeout=SECONDS).topics[self._name]
        if metadata.error is not None:
            raise SourceError(f"topic {self._name}: {metadata.error.str()}")
        self.partitions = sorted(metadata.partitions)

    def is_answering(self) -> bool:
        """Forget what was asked before, and return whether the brokers still answer."""
        self._offsets_by_time.clear()
        try:
            self.find_partitions()
        except SourceError:
            return False
        return True

    def bounds(self) -> tuple[Offsets, Offsets]:
        """Return each partition's first offset that still exists, and the offset after its last committed message."""
        low, high = (self._ask(dict.fromkeys(self.partitions, kind)) for kind in (OFFSET_BEGINNING, OFFSET_END))
        if unknown := sorted(p for p in self.partitions if low[p] < 0 or high[p] < 0):
            raise SourceError(f"topic {self._name}: partition {unknown[0]}: it does not answer")
        return low, high

    def offsets_at(self, moment: datetime) -> Offsets:
        """Return the offset of each partition's first message at this time or later; a partition without one is left out."""
        offsets = self._offsets_by_time.get(moment, {})
        # A partition that has no such message may have one by now, and the topic more partitions.
        if not offsets.keys() >= set(self.partitions):
            answers = self._ask(dict.fromkeys(self.partitions, round(moment.timestamp() * 1000)))
            offsets = self._offsets_by_time[moment] = {p: offset for p, offset in answers.items() if offset >= 0}
        return offsets

    def _ask(self, times: Mapping[int, int]) -> Offsets:
        """Return the offset of each partition's first message at this time (ms) or later, negative where it has none. The times
        OFFSET_BEGINNING and OFFSET_END, as in Kafka's protocol, ask for its bounds. One request for each broker, not partition.
        """
        topics = [TopicPartition(self._name, partition, time) for partition, time in times.items()]
        with _source_errors(self._name):
            answers = self._consumer.offsets_for_times(topics, timeout=SECONDS)
            if error := next((each.error for each in answers if each.error is not None), None):
                raise KafkaException(error)
        return {each.partition: each.offset for each in answers}

    def sample_values(self, partition: int, first: int, end: int) -> list[bytes]:
        """Return the values of the first messages of a partition between these offsets, at most MOST_VALUES. Waits for them at
        most SAMPLE_SECONDS, and for half of the offsets: compaction and transactions leave some without a message.
        """
        with _source_errors(self._name):
            self._consumer.assign([TopicPartition(self._name, partition, first)])
            try:
                messages = self._consumer.consume(min(MOST_VALUES, (end - first + 1) // 2), timeout=SAMPLE_SECONDS)
            finally:
                self._consumer.unassign()
        good = [message for message in messages if not message.error() and message.partition() == partition]
        within = [message for message in good if first <= (message.offset() or 0) < end]
        return [value for message in within if isinstance(value := message.value(), bytes)]

    def oldest_time(self, begin: Offsets) -> tuple[datetime | None, bool]:
        """Return the oldest time of the first messages from these offsets on, one of each partition, and whether all partitions
        answered within OLDEST_SECONDS. None if no message has a time. A partition may have no message there: compaction and
        transactions leave offsets without one.
        """
        times, pending, end = [], set(begin), time.monotonic() + OLDEST_SECONDS
        partitions = [TopicPartition(self._name, p, offset) for p, offset in begin.items()]
        with _source_errors(self._name):
            self._consumer.assign(partitions)
            try:
                while pending and (seconds := end - time.monotonic()) > 0:
                    message = self._consumer.poll(seconds)
                    partition = message.partition() if message else None
                    if message is None or partition is None or partition not in pending or _is_failure(message):
                        continue
                    pending.discard(partition)
                    self._consumer.pause([TopicPartition(self._name, partition)])
                    times += [] if message.error() else [_time_of(message)]
            finally:
                self._consumer.resume(partitions)  # a pause may outlive the assignment
                self._consumer.unassign()
        return min((time for time in times if time is not None), default=None), not pending


def _is_failure(message: Message) -> bool:
    """Whether this is an error, and not a message or the end of a partition."""
    error = message.error()
    return error is not None and error.code() != KafkaError._PARTITION_EOF  # the name that the client exports


def _time_of(message: Message) -> datetime | None:
    """Return a message's time; None if it has none, or one beyond the year 9999: some producers write micro- or nanoseconds."""
    kind, milliseconds = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else moment_of(milliseconds / 1000)


@contextmanager
def share_topic(settings: Settings, name: str) -> Iterator[Topic]:
    """Connect to a topic for the block, within which `open_topic` reuses this connection in the same thread: to connect takes
    longer than to ask. Raises the errors of `open_topic`.
    """
    topics, key = _topics_of_thread(), (settings.kafka_bootstrap, settings.kafka_conf, name)
    with _connect(settings, name) as topic:
        shared_topic = topics.setdefault(key, topic)
        try:
            yield topic
        finally:
            if shared_topic is topic:
                del topics[key]


@contextmanager
def open_topic(settings: Settings, name: str) -> Iterator[Topic]:
    """Open a topic for the block, over a connection that the thread shares if there is one. Raises SourceError;
    EnvironmentMissing and ConfigError for wrong settings.
    """
    topic = _topics_of_thread().get((settings.kafka_bootstrap, settings.kafka_conf, name))
    if topic is not None and topic.is_answering():
        yield topic
        return
    with _connect(settings, name) as own_topic:
        yield own_topic


def _topics_of_thread() -> dict[tuple[object, ...], Topic]:
    """Return the topics that this thread shares."""
    return _thread.__dict__.setdefault("topics", {})


@contextmanager
def _connect(settings: Settings, name: str) -> Iterator[Topic]:
    properties: dict[str, object] = {**settings.kafka_properties(OURS), "bootstrap.servers": _brokers(settings)}
    properties |= {"group.id": "lakehouse", "enable.auto.commit": False, "logger": _silent}
    properties |= {"isolation.level": "read_committed", **SAMPLING}  # committed messages, as Spark reads
    try:
        consumer = Consumer(properties)
    except (KafkaException, TypeError, ValueError):
        raise ConfigError(f"{settings.kafka_conf}: Kafka's client refuses one of its properties") from None
    try:
        yield Topic(consumer, name)
    finally:
        consumer.close()


def _brokers(settings: Settings) -> str:
    if not settings.kafka_bootstrap:
        raise EnvironmentMissing("set LAKEHOUSE_KAFKA_BOOTSTRAP to the brokers: a source of kind kafka needs it")
    return settings.kafka_bootstrap


@contextmanager
def _source_errors(name: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        message = cause.str() if isinstance(cause, KafkaError) else "it does not answer"
        raise SourceError(f"topic {name}: {message}") from None


# A range is there when it is read. At its end the client already asks for more, and its last questions about the range wait
# for that answer: half a second, by default.
FETCHING = {"fetch.max.wait.ms": "20", "max.poll.records": "5000"}


def spark_options(settings: Settings) -> dict[str, str]:
    """Return the options of Spark's (Java's) client. Raises ConfigError for a property that cannot be translated."""
    properties = settings.kafka_properties(OURS)
    security_keys = {key for key in properties if key.startswith(("sasl.", "ssl.", "security."))}
    if unknown := sorted(security_keys - TRANSLATED):
        allowed = ", ".join(sorted(TRANSLATED))
        raise ConfigError(f"{settings.kafka_conf}: {unknown[0]}: a source accepts only these security properties: {allowed}")
    options = {"bootstrap.servers": _brokers(settings), "isolation.level": "read_committed"} | FETCHING
    if protocol := properties.get("security.protocol"):
        options["security.protocol"] = protocol.upper()
    if authority := properties.get("ssl.ca.location"):
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")
    if mechanism:
        if mechanism not in MODULES:
            raise ConfigError(f"{settings.kafka_conf}: sasl.mechanism {mechanism}: a source accepts {', '.join(MODULES)}")
        user, password = (_quoted(properties.get(f"sasl.{part}", "")) for part in ("username", "password"))
        jaas = f"{MODULES[mechanism]} required username={user} password={password};"
        options |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    return {f"kafka.{name}": value for name, value in options.items()}


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
