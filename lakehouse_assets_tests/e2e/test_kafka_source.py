"""A topic of orders, from a real broker to silver: recorded ranges, late messages, tombstones, bad ones, lost ones.

Belongs here: what is read of a topic, compared with what plain Python makes of the messages sent. Does not: decisions sent to
Kafka (test_kafka), ranges as arithmetic (sources/test_kafka_ranges).
"""

import itertools
import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pydantic import SecretStr

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError, SourceError
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.table_source import source_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import open_source
from lakehouse_assets.sources.kafka_client import spark_options
from lakehouse_assets.storage import logs
from lakehouse_assets.testing import verify_source
from lakehouse_assets_tests.e2e.servers import Broker
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import rows_of, runner, window

Message = tuple[int, datetime, str | None, str | bytes | None]  # partition, time, key, value
names = (f"orders-{n}" for n in itertools.count(1))


@pytest.fixture
def topic(broker) -> str:
    """A topic of two partitions, empty."""
    return make_topic(broker)


def make_topic(broker: Broker) -> str:
    name, admin = next(names), AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result()
    return name


def table(topic: str, **changes: Any) -> TableSpec:
    attributes = {
        "name": "orders",
        "source": {"kind": "kafka", "topic": topic, "message_key": ["id"]},
        "extraction": {"cadence": "daily", "start": "2024-01-01", "end": "2024-01-05", "mode": "upsert", "delete_when": "gone"},
        "key": ["id"],
        "last_modified": "position",
        "columns": {
            "id": "bigint",
            "state": "string",
            "amount": "double",
            "position": {"type": "bigint", "from": "kafka_offset"},
            "gone": {"type": "boolean", "from": "kafka_tombstone"},
        },
    }
    return TableSpec.model_validate(attributes | changes)


def at(day: int, hour: int = 0) -> datetime:
    return datetime(2024, 1, day, hour, tzinfo=UTC)


def send(broker: Broker, topic: str, messages: Iterable[Message]) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})
    for partition, moment, key, value in messages:
        milliseconds = int(moment.timestamp() * 1000)
        producer.produce(topic, value, key, partition=partition, timestamp=milliseconds)
        assert producer.flush(120) == 0


def order(n: int, day: int, hour: int = 0, state: str = "new", amount: float = 1.5) -> Message:
    """An order's key decides its partition, as ever in Kafka."""
    return (n % 2, at(day, hour), str(n), json.dumps({"id": n, "state": state, "amount": amount}))


def tombstone(n: int, day: int, hour: int = 0) -> Message:
    return (n % 2, at(day, hour), str(n), None)


def silver(settings: Settings) -> dict[int, tuple]:
    rows = rows_of(settings.path("silver", "orders"), ["id", "state", "amount", "p_extracted_at"])
    assert len(rows) == len({row["id"] for row in rows})
    return {row["id"]: (row["state"], row["amount"], row["p_extracted_at"].day) for row in rows}


def oracle(batches: Iterable[tuple[int, Iterable[Message]]]) -> dict[int, tuple]:
    """Messages in the order of their offsets, with the day that took them: the last one of a key is what it is."""
    newest_rows: dict[int, tuple] = {}
    for day, messages in batches:
        for _, _, key, value in messages:
            newest_rows.pop(int(key or 0), None)
            if value is not None:
                document = json.loads(value)
                newest_rows[int(key or 0)] = (document["state"], document["amount"], day)
    return newest_rows


@pytest.mark.exhaustive(seconds=30)
def test_from_the_topic_to_silver(spark, broker, topic, tmp_path):
    first = [order(n, 1, n) for n in range(6)]
    second = [order(1, 2, 1, "paid"), tombstone(2, 2, 2), order(7, 2, 3)]
    send(broker, topic, [*first, *second])
    spec = table(topic)
    world = World(spark, tmp_path, [LakehouseTable(spec, tmp_path)], kafka_bootstrap=broker.address)
    report = world.run()
    assert (report.reported, [r[1:3] for r in report.ranges]) == (2, [("2024-01-01", "2024-01-02")])
    assert silver(world.settings) == oracle([(1, first), (2, second)])
    # A message of the 1st that comes late, and the 4th: nothing is taken again, the late one is of the day that comes.
    late = [order(8, 1, 5), (0, at(3, 1), "8", json.dumps({"id": 8, "state": "sent", "amount": 2})), order(3, 4, 2, "paid")]
    send(broker, topic, late)
    report = world.run()
    assert [r[1:3] for r in report.ranges] == [("2024-01-03", "2024-01-04")]
    assert silver(world.settings) == oracle([(1, first), (2, second), (3, late[:2]), (4, late[2:])])
    assert world.run().ranges == []
    assert [(r.p_extracted_at.day, r.extraction_seq, r.rows) for r in logs.extractions(world.settings, "orders")] == [
        (1, 1, 6),
        (2, 1, 3),
        (3, 1, 2),
        (4, 1, 1),
    ]


def bronze(settings: Settings, *columns: str) -> list[tuple]:
    rows = rows_of(settings.path("bronze", "orders"), ["p_extracted_at", "_source_file", *columns])
    return sorted(
        (row["p_extracted_at"].day, row["_source_file"].partition("/")[2], *[row[c] for c in columns]) for row in rows
    )


def test_offsets_are_recorded_before_the_read(spark, broker, topic, on):
    """Dead in between, it reads the same messages again, whatever has come since."""
    spec = table(topic)
    send(broker, topic, [order(n, 1, n) for n in range(4)])

    def die(step: str) -> None:
        if step == "positions_recorded":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(runner(spark, on, spec, die), [window(1)])
    send(broker, topic, [order(9, 1, 23)])
    extract(runner(spark, on, spec), [window(1)])
    assert [row[1] for row in bronze(on)] == ["0@0", "0@1", "1@0", "1@1"]
    # A window that is read before an older one: the older one's range is on record as well, and nothing is in both.
    send(broker, topic, [order(10, 2, 1), order(11, 3, 1)])
    extract(runner(spark, on, spec), [window(3)])
    extract(runner(spark, on, spec), [window(2)])
    assert [row[:2] for row in bronze(on)] == [
        (1, "0@0"),
        (1, "0@1"),
        (1, "1@0"),
        (1, "1@1"),
        (2, "0@2"),
        (2, "1@2"),
        (3, "1@3"),
    ]
    prints = source_of(spec, on).fingerprints([window(n) for n in (1, 2, 3, 4)])
    assert {w.start.day: text for w, text in prints.items()} == {
        r.p_extracted_at.day: r.fingerprint for r in logs.extractions(on, "orders")
    }


BAD: list[tuple[str | None, str | bytes | None]] = [
    ("1", "no object"),
    ("1", '{"id": 1} and more'),
    ("1", '{"id": 1, "ID": 2}'),
    ("1", '{"": 1}'),
    ("1", ""),
    ("1", b"\xff\xfe"),
    (None, None),
]


def test_a_message_that_is_no_object_becomes_a_corrupt_record(spark, broker, topic, on):
    good = '{"id": 5, "state": "é", "nested": {"a": [1, null]}, "p_extracted_at": "x"}'
    send(broker, topic, [(0, at(1, n), key, value) for n, (key, value) in enumerate([*BAD, ("5", good)])])
    extract(runner(spark, on, table(topic)), [window(1)])
    rows = bronze(on, "_corrupt_record", "id", "state", "nested", "x70__extracted_at", "_columns")
    assert rows[-1][2:7] == (None, "5", "é", '{"a":[1,null]}', "x")
    assert rows[-1][7] == ["id", "nested", "x70__extracted_at", "state", "kafka_offset", "kafka_tombstone"]
    corrupt_texts = [value.decode(errors="replace") if isinstance(value, bytes) else value for _, value in BAD[:-1]]
    assert [row[2] for row in rows[:-1]] == [*corrupt_texts, "a tombstone of the key (none)"]
    assert all(row[3:7] == (None,) * 4 for row in rows[:-1])


@pytest.mark.exhaustive(seconds=25)
def test_a_topic_keeps_the_contract_of_a_source(spark, broker, topic, on):
    """`change` sends a late message: the recorded ranges keep their rows. `corrupt` sends one that is no object."""
    send(broker, topic, [order(n, day, n) for day in (1, 2) for n in range(3)])
    verify_source(
        spark, lambda recorded: open_source(table(topic), on, recorded), [window(1), window(2)], window(4),
        change=lambda changed: send(broker, topic, [(0, changed.start, "8", '{"id": 8}')]),
        corrupt=lambda damaged: send(broker, topic, [(0, damaged.start, "9", "no object")]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "key", "expected"),
    [
        (["id"], "7", ("7", None)),
        (["id"], '{"id": 7}', ("7", None)),
        (["id", "state"], '{"id": 7, "state": "x"}', ("7", "x")),
        (["id", "state"], '{"id": 7}', "a tombstone of the key"),
        ([], "7", "a tombstone of the key 7"),
    ],
)
def test_a_tombstone_has_the_columns_of_its_key(spark, broker, topic, on, columns, key, expected):
    source = {"kind": "kafka", "topic": topic, "message_key": columns}
    send(broker, topic, [(0, at(1), key, None), order(2, 1)])
    frame = source_of(table(topic, source=source), on).read(spark, [window(1)]).frame
    [row] = [row for row in frame.collect() if row["_source_file"].endswith("/0@0")]
    if isinstance(expected, str):
        assert row["_corrupt_record"].startswith(expected)
        assert row["id"] is None
    else:
        assert (row["id"], row["state"], row["kafka_tombstone"], row["_corrupt_record"]) == (*expected, "true", None)


def test_the_password_is_in_no_plan(spark, broker, topic, on, tmp_path, capfd):
    """The broker asks for none, so that it is passed and not used."""
    (tmp_path / "kafka.conf").write_text("sasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=${LAKEHOUSE_SECRET_KAFKA}\n")
    changes = {"kafka_conf": tmp_path / "kafka.conf", "secrets": {"KAFKA": SecretStr("what-nobody-may-see")}}
    send(broker, topic, [order(2, 1)])
    frame = source_of(table(topic), on.model_copy(update=changes)).read(spark, [window(1)]).frame
    assert frame.count() == 1
    shown_text = frame._jdf.queryExecution().toString() + "".join(capfd.readouterr()) + repr(on.model_copy(update=changes))
    assert "what-nobody" not in shown_text


def test_messages_lost_to_retention_are_named(spark, broker, topic, on):
    spec = table(topic)
    send(broker, topic, [order(2 * n, day, n) for day in (1, 2) for n in range(4)])
    extract(runner(spark, on, spec), [window(1)])
    admin = AdminClient({"bootstrap.servers": broker.address})
    for deletion in admin.delete_records([TopicPartition(topic, 0, 6)]).values():
        deletion.result()
    with pytest.raises(SourceError, match=rf"{topic}: .*partition 0, offsets 4 to 5 \(window 2024-01-02\)"):
        extract(runner(spark, on, spec), [window(2)])
    assert len(bronze(on)) == 4
    # It is no silence, and no end: the day after is read.
    send(broker, topic, [order(2, 3)])
    extract(runner(spark, on, spec), [window(3)])
    assert bronze(on)[-1][:2] == (3, "0@8")


def test_a_recreated_topic_is_another_source(spark, broker, topic, on):
    send(broker, topic, [order(2 * n, 1, n) for n in range(4)])
    spec = table(topic)
    extract(runner(spark, on, spec), [window(1)])
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.delete_topics([topic])[topic].result()
    while topic in admin.list_topics(timeout=10).topics:
        time.sleep(0.2)
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result()
    with pytest.raises(SourceError, match=f"topic {topic}: partition 0 ends at offset 0, and was read up to 4"):
        source_of(table(topic), on).fingerprints([window(1), window(2)])


def test_a_topic_of_another_name_is_not_read_by_the_offsets_of_the_first(spark, broker, topic, on):
    send(broker, topic, [order(2 * n, 1, n) for n in range(4)])
    extract(runner(spark, on, table(topic)), [window(1)])
    other = make_topic(broker)
    send(broker, other, [order(2 * n, 1, n) for n in range(9)])
    with pytest.raises(SourceError, match=f"topic {other}: this table has read a topic of another name"):
        source_of(table(other), on).fingerprints([window(1), window(2)])
    with pytest.raises(SourceError, match="of another name"):
        extract(runner(spark, on, table(other)), [window(1), window(2)])
    assert [row[1] for row in bronze(on)] == [f"0@{n}" for n in range(4)]
    assert source_of(table(topic), on).fingerprints([window(1)])


def test_a_topic_that_is_not_there(broker, on):
    with pytest.raises(SourceError, match=r"topic nothing: .*[Uu]nknown topic"):
        source_of(table("nothing"), on).fingerprints([window(1)])


def test_both_clients_get_the_security_properties(tmp_path: Path):
    file = tmp_path / "kafka.conf"
    file.write_text(
        "security.protocol=sasl_ssl\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=me\n"
        "sasl.password=${LAKEHOUSE_SECRET_KAFKA}\nssl.ca.location=/ca.pem\nclient.id=us\n"
    )
    environment = {
        "LAKEHOUSE_KAFKA_BOOTSTRAP": "b:1",
        "LAKEHOUSE_KAFKA_CONF": str(file),
        "LAKEHOUSE_SECRET_KAFKA": 'pa"ss\\',
    }
    assert spark_options(Settings.from_environment(environment)) == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.wait.ms": "20",
        "kafka.max.poll.records": "5000",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/ca.pem",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="me" password="pa\\"ss\\\\";',
    }
    file.write_text("ssl.key.password=word\n")
    with pytest.raises(ConfigError, match=r"ssl\.key\.password: a source accepts only these") as caught:
        spark_options(Settings.from_environment(environment))
    assert "word\n" not in str(caught.value)
