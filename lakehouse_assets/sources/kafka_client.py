"""Kafka asked by a light client: where a topic's partitions begin and end, where a time is; and what Spark's client is told.

Belongs here: addresses and secrets of the environment, for either client; nothing of them is in an error. Does not: windows.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lakehouse_assets.errors import ConfigError, EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.kafka_ranges import Offsets

SECONDS = 10.0
OURS = ("bootstrap.servers", "group.id", "enable.auto.commit")
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
# Of what secures a connection, all that both clients are told; anything else of the kind is refused, not left out.
TRANSLATED = {"security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location"}
# The library's own words name addresses.
_silent = logging.getLogger(f"{__name__}.client")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


class Topic:
    """One topic, for as long as `topic` has it open. Every question raises SourceError where the brokers do not answer it."""

    def __init__(self, consumer: Consumer, name: str) -> None:
        self._consumer, self._name = consumer, name
        self.partitions = self._partitions()
        self._asked: dict[datetime, Offsets] = {}

    def _partitions(self) -> list[int]:
        with _told(self._name):
            found = self._consumer.list_topics(self._name, timeout=SECONDS).topics[self._name]
        if found.error is not None:
            raise SourceError(f"topic {self._name}: {found.error.str()}")
        return sorted(found.partitions)

    def bounds(self) -> tuple[Offsets, Offsets]:
        """Each partition's first offset that is still there, and the one after its last committed message."""
        with _told(self._name):
            found = {
                p: self._consumer.get_watermark_offsets(TopicPartition(self._name, p), timeout=SECONDS) for p in self.partitions
            }
        return {p: low for p, (low, _) in found.items()}, {p: high for p, (_, high) in found.items()}

    def at(self, moment: datetime) -> Offsets:
        """Each partition's first message of this time or later; a partition that has none is left out."""
        if moment not in self._asked:
            milliseconds = round(moment.timestamp() * 1000)
            asked = [TopicPartition(self._name, p, milliseconds) for p in self.partitions]
            with _told(self._name):
                found = self._consumer.offsets_for_times(asked, timeout=SECONDS)
            self._asked[moment] = {each.partition: each.offset for each in found if each.offset >= 0}
        return self._asked[moment]


@contextmanager
def topic(settings: Settings, name: str) -> Iterator[Topic]:
    """A topic for as long as the block lasts. Raises SourceError; EnvironmentMissing and ConfigError for what it is told."""
    given: dict[str, object] = {**settings.kafka_properties(OURS), "bootstrap.servers": _brokers(settings)}
    given |= {"group.id": "lakehouse", "enable.auto.commit": False, "logger": _silent}
    try:
        consumer = Consumer(given)
    except (KafkaException, TypeError, ValueError):
        raise ConfigError(f"{settings.kafka_conf}: Kafka's client refuses a property of it") from None
    try:
        yield Topic(consumer, name)
    finally:
        consumer.close()


def _brokers(settings: Settings) -> str:
    if not settings.kafka_bootstrap:
        raise EnvironmentMissing("the environment has no LAKEHOUSE_KAFKA_BOOTSTRAP, which a source of kind kafka is read from")
    return settings.kafka_bootstrap


@contextmanager
def _told(name: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        said = cause.str() if isinstance(cause, KafkaError) else "it does not answer"
        raise SourceError(f"topic {name}: {said}") from None


def spark_options(settings: Settings) -> dict[str, str]:
    """The same for Spark's (Java's) client, whose properties have other names. Raises ConfigError for one it cannot be told."""
    given = settings.kafka_properties(OURS)
    secured = {key for key in given if key.startswith(("sasl.", "ssl.", "security."))}
    if unknown := sorted(secured - TRANSLATED):
        known = ", ".join(sorted(TRANSLATED))
        raise ConfigError(f"{settings.kafka_conf}: {unknown[0]}: for a source only these secure a connection: {known}")
    told = {"bootstrap.servers": _brokers(settings), "isolation.level": "read_committed"}
    if protocol := given.get("security.protocol"):
        told["security.protocol"] = protocol.upper()
    if authority := given.get("ssl.ca.location"):
        told |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    mechanism = given.get("sasl.mechanism") or given.get("sasl.mechanisms")
    if mechanism:
        if mechanism not in MODULES:
            raise ConfigError(f"{settings.kafka_conf}: sasl.mechanism {mechanism}: for a source one of {', '.join(MODULES)}")
        user, password = (_quoted(given.get(f"sasl.{part}", "")) for part in ("username", "password"))
        told |= {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{MODULES[mechanism]} required username={user} password={password};",
        }
    return {f"kafka.{name}": value for name, value in told.items()}


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
