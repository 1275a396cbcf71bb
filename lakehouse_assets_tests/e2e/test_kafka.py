"""Decisions on a real Kafka broker: in order by table, each known by its id, none lost while the broker is down or a look dies.

Belongs here: what a reader of the topic sees. Does not: the event's fields and the bookkeeping (events, orchestration).
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import jsonschema
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lakehouse_assets.events.kafka import open_sender
from lakehouse_assets.orchestration.notify import DeliveryReport, publish_decisions
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.e2e.kafka_proxy import RefusingProxy
from lakehouse_assets_tests.e2e.servers import Broker, free_port, kafka_jars
from lakehouse_assets_tests.logbook import decided, outcome, write
from lakehouse_assets_tests.support import PROJECT_ROOT, heal, land, readings

SCHEMA = json.loads((PROJECT_ROOT / "docs" / "decision-event.schema.json").read_text())
# Made once: to look whether the schema is one takes most of a validation.
EVENT = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
SMALLEST = 20_000


@pytest.fixture(scope="module")
def jars() -> Path:
    try:
        return kafka_jars()
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no Kafka: {error}")


@pytest.fixture(scope="module")
def proxy() -> RefusingProxy:
    """Not up yet, but its port is known: the broker advertises it."""
    return RefusingProxy(free_port())


@pytest.fixture(scope="module")
def broker(jars, proxy, tmp_path_factory) -> Iterator[Broker]:
    """A broker that takes messages of 20 kB at most, and has a second door behind the proxy."""
    doors = {
        "listeners": f"PROXIED://127.0.0.1:{proxy.broker_port}",
        "advertised_listeners": f"PROXIED://127.0.0.1:{proxy.port}",
    }
    with Broker(tmp_path_factory.mktemp("kafka"), message_max_bytes=SMALLEST, **doors).up() as running:
        yield running


@pytest.fixture
def instance(tmp_path):
    (tmp_path / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as local_instance:
        yield local_instance


def on(settings: Settings, broker: Broker) -> Settings:
    """A topic of the test's own."""
    return settings.model_copy(update={"kafka_bootstrap": broker.address, "kafka_topic": f"decisions-{uuid4().hex}"})


def send(instance: dg.DagsterInstance, settings: Settings, **options: Any) -> DeliveryReport:
    """A look that has time: a broker that has just started on a busy machine answers late."""
    return publish_decisions(instance, settings, open_sender=partial(open_sender, probe_seconds=60), seconds=120, **options)


def read_events(settings: Settings, count: int) -> list[dict]:
    """So many events of the topic and whatever comes at once after them, with key, id and partition; each is held to the
    schema. A reader that hears nothing for long is not asked for ever: another one reads from the beginning.
    """
    consumed = []
    for _ in range(2):
        batch, ends = read_once(settings, count)
        if len(batch) >= count:
            return batch
        consumed.append(f"{len(batch)} read of {count}; the broker has, by partition, {ends}")
    raise AssertionError("; ".join(consumed))


def read_once(settings: Settings, count: int, silence: int = 20) -> tuple[list[dict], dict[int, tuple[int, int]]]:
    """What one reader hears until it hears nothing for a second and has so many, or nothing for so many seconds; and the first
    and the next offset of each partition.
    """
    reader = Consumer({"bootstrap.servers": settings.kafka_bootstrap, "group.id": "not used", "auto.offset.reset": "earliest"})
    # All partitions by name: joining a group takes seconds.
    topic = settings.kafka_topic
    partitions = reader.list_topics(topic, timeout=30).topics[topic].partitions
    reader.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    events: list[dict] = []
    silent = 0
    try:
        while silent < silence:
            message = reader.poll(1.0)
            if message is None:
                silent += 1
                if len(events) >= count:
                    break
                continue
            silent = 0
            assert message.error() is None, message.error()
            event = json.loads(message.value())
            EVENT.validate(event)
            headers = dict(message.headers())
            assert headers["event_id"].decode() == event["event_id"]
            assert headers["event_type"].decode() == event["event_type"]
            assert message.key().decode() == event["table"]
            events.append({**event, "partition": message.partition(), "offset": message.offset()})
        return events, {
            number: reader.get_watermark_offsets(TopicPartition(topic, number), timeout=30) for number in partitions
        }
    finally:
        reader.close()


def of(events: list[dict], table: str) -> list[str]:
    """A table's ids in the order of its partition, repetitions passed over."""
    matches = [event for event in events if event["table"] == table]
    assert len({event["partition"] for event in matches}) <= 1, "a table has one partition"
    return list(dict.fromkeys(event["event_id"] for event in sorted(matches, key=lambda event: event["offset"])))


def ids(settings: Settings, table: str) -> list[str]:
    return [d.decision_id for d in logs.decisions(settings, table) if d.applied_at]


@pytest.mark.exhaustive(seconds=30)
def test_decisions_of_a_real_lake_are_sent_in_order(spark, settings, broker, instance):
    settings = on(settings, broker)
    spec = readings(
        columns={"sensor": {"type": "string", "pii": True}, "hour": "int", "value": "double", "updated": "timestamp"}
    )
    land(settings, 1, ["anna@example.com,1,1,2024-01-01T00:00:00Z", "bob@example.com,1,900,2024-01-01T00:00:00Z"])
    land(settings, 2, [])
    heal(spark, settings, [1, 2], spec)
    land(settings, 1, ["anna@example.com,1,2,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1], spec)
    assert send(instance, settings).sent == 4
    events = read_events(settings, 4)
    assert of(events, "readings") == ids(settings, "readings")
    sequence = [(e["number"], e["event_type"], e["verdict"]) for e in sorted(events, key=lambda e: e["offset"])]
    assert sequence == [
        (1, "decision.applied", "published_with_warnings"),
        (2, "decision.applied", "quarantined"),
        (3, "decision.applied", "published"),
        (3, "batch.superseded", "published_with_warnings"),
    ]
    first = min(events, key=lambda e: e["offset"])
    assert {c["status"] for c in first["checks"]} == {"passed", "failed"}
    assert "example.com" not in json.dumps(events), "values of pii columns"


@pytest.mark.exhaustive(seconds=20)
def test_many_tables_each_in_order(settings, broker, instance):
    settings = on(settings, broker)
    for table in ("readings", "sensors", "gold_days", "gold_hours"):
        write(settings, [decided(number, table) for number in range(1, 31)])
    sent = 0
    while report := send(instance, settings, max_events=50):
        assert not report.warnings
        sent += report.sent
        if not report.waiting:
            break
    assert sent == 120
    events = read_events(settings, 120)
    assert len(events) == 120
    for table in ("readings", "sensors", "gold_days", "gold_hours"):
        assert of(events, table) == ids(settings, table)


@pytest.mark.exhaustive(seconds=25)
def test_a_message_that_is_refused_for_a_moment_is_not_taken_for_accepted(settings, broker, proxy, instance):
    """Two tables of one partition: what is accepted of the second says nothing about the first, though the client concludes it
    if both are in flight.
    """
    settings = on(settings, broker)
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(settings.kafka_topic, num_partitions=1)])[settings.kafka_topic].result()
    for table in ("readings", "sensors"):
        write(settings, [decided(1, table)])
    with proxy.up():
        behind = settings.model_copy(update={"kafka_bootstrap": f"127.0.0.1:{proxy.port}"})
        assert send(instance, behind).sent == 2
    assert proxy.refused
    assert sorted(event["table"] for event in read_events(settings, 2)) == ["readings", "sensors"]


@pytest.mark.exhaustive(seconds=20)
def test_while_the_broker_is_down_decisions_wait_and_then_all_arrive(jars, settings, tmp_path, instance):
    broker = Broker(tmp_path)
    settings = on(settings, broker)
    with broker.up():
        write(settings, [decided(n) for n in (1, 2)])
        assert send(instance, settings).sent == 2
    write(settings, [decided(n) for n in range(3, 8)])
    began = time.monotonic()
    report = publish_decisions(instance, settings)
    assert (report.sent, report.waiting) == (0, 5)
    assert "Kafka does not answer" in str(report)
    assert time.monotonic() - began < 60
    with broker.up():
        write(settings, [decided(8)])
        assert send(instance, settings).sent == 6
        assert of(read_events(settings, 8), "readings") == ids(settings, "readings")


@pytest.mark.exhaustive(seconds=20)
def test_a_hanging_broker_delays_a_tick_by_a_bounded_time(jars, settings, tmp_path, instance):
    """Stopped (SIGSTOP) it holds its connections and answers nothing, as behind a network that swallows everything."""
    broker = Broker(tmp_path)
    settings = on(settings, broker)
    with broker.up(started := []):
        write(settings, [decided(1)])
        assert send(instance, settings).sent == 1
        write(settings, [decided(2)])
        os.kill(started[0].pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            report = publish_decisions(instance, settings)
            assert (report.sent, report.waiting) == (0, 1)
            assert time.monotonic() - began < 60
        finally:
            os.kill(started[0].pid, signal.SIGCONT)
        assert send(instance, settings).sent == 1
        assert of(read_events(settings, 2), "readings") == ids(settings, "readings")


def kill_process(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(home: str, address: str, topic: str) -> None:
    """A look that dies when the broker has all and nothing is marked."""
    folder = Path(home)
    settings = Settings(
        root=str(folder / "lake"), landing=home, dagster_home=folder, kafka_bootstrap=address, kafka_topic=topic
    )
    with dg.DagsterInstance.local_temp(str(folder / "dagster")) as instance:
        send(instance, settings, step=kill_process)


@pytest.mark.exhaustive(seconds=20)
def test_an_event_sent_twice_keeps_its_id(settings, broker, tmp_path, instance):
    settings = on(settings, broker)
    write(settings, [decided(n) for n in (1, 2, 3)])
    arguments = (str(tmp_path), broker.address, settings.kafka_topic)
    code = f"from lakehouse_assets_tests.e2e.test_kafka import main; main(*{arguments!r})"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr
    write(settings, [decided(4)])
    assert send(instance, settings).sent == 4
    events = read_events(settings, 7)
    assert len(events) == 7, "three of them twice"
    assert of(events, "readings") == ids(settings, "readings")


@pytest.mark.exhaustive(seconds=20)
@pytest.mark.parametrize("limit", ["the broker's", "the client's"])
def test_an_event_that_is_too_large_is_shortened_and_blocks_nothing(settings, broker, instance, tmp_path, limit):
    settings = on(settings, broker)
    if limit == "the client's":
        (tmp_path / "kafka.conf").write_text("message.max.bytes=15000\n")
        settings = settings.model_copy(update={"kafka_conf": tmp_path / "kafka.conf"})
    checks = tuple(outcome(f"c{n}", observed={"figures": "x" * 1000}) for n in range(50))
    write(settings, [decided(1, checks=checks), decided(2)])
    assert send(instance, settings).sent == 2
    first, second = sorted(read_events(settings, 2), key=lambda event: event["offset"])
    assert (first["shortened"], second["shortened"]) == (["observed"], [])
    assert len(first["checks"]) == 50
