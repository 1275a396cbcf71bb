"""The bounds of a topic's partitions on a real broker, and the times of their first messages: what retention deleted, and
transactions that are aborted or open.

Belongs here: what the light client reads. Does not: its requests (sources/test_kafka_client), or windows.
"""

import time
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lakehouse_assets.sources.kafka_client import Topic, open_topic
from lakehouse_assets.sources.kafka_ranges import Offsets
from lakehouse_assets_tests.e2e import streamed
from lakehouse_assets_tests.e2e.streamed import reading, send


@pytest.fixture
def topic(broker) -> str:
    return streamed.make_topic(broker, partitions=4)


def begin(broker, topic: str, partition: int, name: str) -> Producer:
    """Send one message within a transaction that goes on."""
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": f"{topic}-{name}"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b'{"sensor": 1}', partition=partition)
    assert producer.flush(60) == 0
    return producer


def wait_for_bounds(client: Topic, expected: tuple[Offsets, Offsets]) -> None:
    """The broker marks the end of a transaction a moment after it has confirmed it."""
    deadline = time.monotonic() + 30
    while (bounds := client.bounds()) != expected:
        assert time.monotonic() < deadline, f"{bounds} is not {expected}"
        time.sleep(0.05)


def test_bounds_end_after_the_last_committed_message(broker, topic, on):
    send(broker, topic, [reading(0, n) for n in range(10)], partitions=4)
    admin = AdminClient({"bootstrap.servers": broker.address})
    for deletion in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
        deletion.result()
    begin(broker, topic, 1, "committed").commit_transaction()
    begin(broker, topic, 1, "aborted").abort_transaction()
    under_way = begin(broker, topic, 1, "under way")
    begin(broker, topic, 2, "only aborted").abort_transaction()
    with open_topic(on, topic) as client:
        wait_for_bounds(client, ({0: 4, 1: 0, 2: 0, 3: 0}, {0: 10, 1: 4, 2: 2, 3: 0}))
        under_way.commit_transaction()
        bounds = ({0: 4, 1: 0, 2: 0, 3: 0}, {0: 10, 1: 6, 2: 2, 3: 0})
        wait_for_bounds(client, bounds)
    properties = {"bootstrap.servers": broker.address, "group.id": "test", "isolation.level": "read_committed"}
    consumer = Consumer(properties)
    alone = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30) for p in range(4)}
    consumer.close()
    assert alone == {p: (bounds[0][p], bounds[1][p]) for p in range(4)}


def test_the_oldest_time_is_of_small_and_of_large_messages(broker, topic, on):
    """A batch may be larger than a fetch, and a partition may have an aborted transaction alone."""
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 200, "batch.size": 900_000})
    for partition, milliseconds in ((0, 5000), (1, 3000), (2, 4000)):
        for _ in range(3):
            producer.produce(topic, b"a" * 250_000, partition=partition, timestamp=1_714_521_600_000 + milliseconds)
    assert producer.flush(60) == 0
    begin(broker, topic, 3, "only aborted").abort_transaction()
    with open_topic(on, topic) as client:
        for _ in range(2):  # also of a partition that was paused before
            assert client.oldest_time(dict.fromkeys(range(4), 0)) == (datetime(2024, 5, 1, 0, 0, 3, tzinfo=UTC), True)
        assert client.sample_values(1, 0, 3) == [b"a" * 250_000] * 2
