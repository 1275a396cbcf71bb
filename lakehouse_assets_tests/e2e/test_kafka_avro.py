"""A topic of orders in Avro, from a real broker to silver: a schema that grows, bad messages, a registry that is down.

Belongs here: one story. Does not: decoding (sources/test_avro_messages), ranges of a topic (test_kafka_source).
"""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lakehouse_assets.errors import SourceError
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.sources import schema_registry
from lakehouse_assets_tests.e2e.test_kafka_source import at, table
from lakehouse_assets_tests.sources.registry_server import frame, number, optional, registry_server, text
from lakehouse_assets_tests.support import heal, rows_of, runner, window

ID, STATE = {"name": "id", "type": "long"}, {"name": "state", "type": "string"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
AMOUNT = {"name": "amount", "type": ["null", PRICE], "default": None}


@pytest.mark.exhaustive(seconds=60)
def test_a_schema_grows_within_a_window_and_a_registry_that_is_down_heals(spark, broker, settings, monkeypatch):
    monkeypatch.setattr(schema_registry, "_CACHE", {})
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic("avro-orders", 2, 1)])["avro-orders"].result()
    producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 0})

    def send(day: int, n: int, value: bytes | None) -> None:
        producer.produce("avro-orders", value, str(n), partition=n % 2, timestamp=int(at(day).timestamp() * 1000))
        assert producer.flush(120) == 0

    def order(n: int, state: str, schema: int = 1, amount: bytes | None = None) -> bytes:
        return frame(
            schema, number(n) + text(state) + (optional(amount and text(amount.decode("latin-1"))) if schema > 1 else b"")
        )

    settings = settings.model_copy(update={"kafka_bootstrap": broker.address})
    with registry_server() as registry:
        registry.add(1, ID, STATE)
        source = {"kind": "kafka", "topic": "avro-orders", "message_key": ["id"], "format": "avro", "registry": registry.url}
        spec = table("avro-orders", source=source)
        send(1, 1, order(1, "new"))
        send(1, 2, order(2, "new", 2, b"\x04\x4e"))
        send(1, 3, order(3, "gone soon"))
        send(1, 5, b"{}")
        send(1, 7, frame(1, b"\x02\xff"))
        send(2, 3, None)
        send(2, 1, order(1, "paid", 2))
        registry.status = 503
        with pytest.raises(SourceError, match=r"topic avro-orders: the schema registry .* answers 503"):
            extract(runner(spark, settings, spec), [window(1)])
        assert rows_of(settings.path("bronze", "orders")) == [], "nothing is read by half"
        registry.status = None
        registry.add(2, ID, STATE, AMOUNT)
        heal(spark, settings, [1], spec)
        silver_rows = {row["id"]: (row["state"], row["amount"]) for row in rows_of(settings.path("silver", "orders"))}
        assert silver_rows == {1: ("new", None), 2: ("new", 11.02), 3: ("gone soon", None)}
        corrupt_records = sorted(row["_corrupt_record"] for row in rows_of(settings.path("quarantine", "orders")))
        assert corrupt_records == [
            "it is no record of schema 1: AAAAAAEC/w==", "it is not in the wire format of a schema registry: e30=",
        ]  # fmt: skip
        heal(spark, settings, [2], spec)
        silver_rows = {row["id"]: row["state"] for row in rows_of(settings.path("silver", "orders"))}
        assert silver_rows == {1: "paid", 2: "new"}
        assert sorted(registry.requests[1:]) == ["/schemas/ids/1", "/schemas/ids/2"]
