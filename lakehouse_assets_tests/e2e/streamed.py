"""What the tests of streams share: readings sent to a topic, a stream over them, and an oracle of plain Python.

Belongs here: sending, one window at a time, what silver must be. Does not: any test.
"""

import itertools
import json
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.pipeline.stream import publish_next
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import open_feed
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.source_positions import read_positions
from lakehouse_assets_tests.e2e.servers import Broker
from lakehouse_assets_tests.support import rows_of, runner

START = datetime(2024, 5, 1, tzinfo=UTC)
numbers = itertools.count(1)
Reading = dict[str, Any]


def make_topic(broker: Broker, partitions: int = 2, **config: str) -> str:
    name, admin = f"readings-{next(numbers)}", AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()
    return name


def wait_for_topic(broker: Broker, topic: str, partitions: int = 2) -> None:
    """Wait until the broker answers for each partition of a topic: it confirms the creation a moment before it does."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "test"})
    until, waiting = time.monotonic() + 30, list(range(partitions))
    while waiting:
        try:
            consumer.get_watermark_offsets(TopicPartition(topic, waiting[0]), timeout=10)
            waiting.pop(0)
        except KafkaException:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
    consumer.close()


def table(topic: str, stream: dict[str, Any] | None = None, **changes: Any) -> TableSpec:
    """Readings by sensor and time; the last offset of a key wins."""
    attributes = {
        "name": "readings",
        "source": {"kind": "kafka", "topic": topic, "message_key": ["sensor"]},
        "extraction": {
            "cadence": "hourly", "start": "2024-01-01", "mode": "upsert", "delete_when": "gone", "stream": stream or {},
        },
        "key": ["sensor"],
        "last_modified": "position",
        "columns": {
            "sensor": "bigint",
            "value": "double",
            "position": {"type": "bigint", "from": "kafka_offset"},
            "gone": {"type": "boolean", "from": "kafka_tombstone"},
        },
    }  # fmt: skip
    return TableSpec.model_validate(attributes | changes)


def reading(sensor: int, value: float | None) -> Reading:
    """``value``: None for a tombstone."""
    return {"sensor": sensor, "value": value}


def send(broker: Broker, topic: str, readings: Iterable[Reading], partitions: int = 2) -> None:
    """Send in order; a sensor's readings are in one partition."""
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5})
    for each in readings:
        value = None if each["value"] is None else json.dumps(each)
        producer.produce(topic, value, str(each["sensor"]), partition=each["sensor"] % partitions)
    assert producer.flush(120) == 0


def oracle(readings: Iterable[Reading]) -> dict[int, float]:
    """Each sensor's last value; none after a tombstone."""
    newest = {each["sensor"]: each["value"] for each in readings}
    return {sensor: value for sensor, value in newest.items() if value is not None}


def silver(settings: Settings) -> dict[int, float]:
    rows = rows_of(settings.path("silver", "readings"), ["sensor", "value"])
    assert len(rows) == len({row["sensor"] for row in rows})
    return {row["sensor"]: row["value"] for row in rows}


def bronze_offsets(settings: Settings) -> list[str]:
    """Partition and offset of each row in bronze: each message once."""
    return sorted(
        row["_source_file"].partition("/")[2] for row in rows_of(settings.path("bronze", "readings"), ["_source_file"])
    )


def all_offsets(readings: Sequence[Reading], partitions: int = 2) -> list[str]:
    counts = itertools.groupby(sorted(each["sensor"] % partitions for each in readings))
    return sorted(f"{partition}@{offset}" for partition, group in counts for offset, _ in enumerate(group))


def counted(settings: Settings) -> dict[str, int]:
    """The four counts of the current decisions, summed."""
    current = ledger.current_decisions(logs.decisions(settings, "readings")).values()
    names = ("rows_in", "rows_published", "rows_superseded", "rows_quarantined")
    return {name: sum(getattr(decision.counts, name) for decision in current) for name in names}


class Clock:
    """A clock of the test: each look is five seconds later."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=5)
        return self.now


def take(spark: Any, settings: Settings, spec: TableSpec, step: Any = lambda _: None) -> Any:
    """Take the next window; None if nothing waits."""
    feed = open_feed(spec, settings)
    try:
        return publish_next(runner(spark, settings, spec, step), feed)
    finally:
        feed.close()


def positions(settings: Settings) -> list[dict[str, list[int]]]:
    return [json.loads(text) for _, text in sorted(read_positions(settings, "readings").items())]
