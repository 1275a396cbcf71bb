"""Messages in Avro by a schema registry: frames of bytes, schemas that follow each other, and registries that do not answer.

Belongs here: decoding without a broker. Does not: a topic (e2e/test_kafka_avro).
"""

import doctest
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from lakehouse_assets.contracts.kafka_source import KafkaSource
from lakehouse_assets.errors import ConfigError, EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import avro_messages, schema_registry
from lakehouse_assets.sources.avro_messages import parse_avro
from lakehouse_assets.sources.kafka_client import spark_options
from lakehouse_assets.sources.schema_registry import fetch_schemas
from lakehouse_assets.storage.jars import JARS_FOR_AVRO
from lakehouse_assets_tests.sources.registry_server import binary, frame, number, optional, registry_server, text

ID, STATE = {"name": "id", "type": "long"}, {"name": "state", "type": ["null", "string"]}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
AMOUNT = {"name": "amount", "type": ["null", PRICE], "default": None}


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(schema_registry, "_CACHE", {})
    with registry_server() as registry:
        yield registry


def parse(spark, registry, settings: Settings, values: list[bytes | None]) -> list[tuple[Any, Any]]:
    if not list(JARS_FOR_AVRO.glob("*.jar")):
        pytest.skip("Spark's Avro reader could not be fetched")
    frame = spark.createDataFrame(list(enumerate(values)), "n int, value binary")
    rows = parse_avro(frame, registry.url, settings).orderBy("n").select("_line", "_object").collect()
    return [(row["_line"], row["_object"]) for row in rows]


def base64(value: bytes) -> str:
    return b64encode(value).decode()


def test_each_message_is_decoded_by_its_own_schema(spark, registry, settings):
    registry.add(7, ID, STATE)
    registry.add(2**31, ID, STATE, AMOUNT)
    registry.add(9, STATE, {"name": "never", "type": "null"})
    damaged = frame(7, number(3) + b"\x02\xff")
    rows = parse(
        spark, registry, settings,
        [
            frame(7, number(1) + optional(text('é"'))),
            frame(2**31, number(-2) + optional(None) + optional(binary(b"\x04\xce"))),
            None,
            damaged,
            b"{}",
            b"",
            b"\0\0\0\0",
            frame(5, b""),
            frame(9, optional(None)),
            frame(9, b"\x09"),
            frame(7, b""),
        ],
    )  # fmt: skip
    assert [row[1] for row in rows[:3]] == [
        {"id": "1", "state": 'é"'}, {"id": "-2", "state": None, "amount": "12.30"}, None
    ]  # fmt: skip
    assert rows[2][0] is None, "a tombstone"
    assert rows[3] == (f"it is no record of schema 7: {base64(damaged)}", None)
    framed = "it is not in the wire format of a schema registry: "
    assert rows[4:7] == [(framed + base64(value), None) for value in (b"{}", b"", b"\0\0\0\0")]
    assert rows[7] == (f"the registry has no schema 5: {base64(frame(5, b''))}", None)
    assert rows[8][1] == {"state": None, "never": None}, "a record whose fields are all NULL"
    assert [row[1] for row in rows[9:]] == [None, None], "and bytes of which Spark makes one"
    assert sorted(registry.requests) == sorted(f"/schemas/ids/{n}" for n in (5, 7, 9, 2**31))
    parse(spark, registry, settings, [frame(7, number(1) + optional(None))])
    assert len(registry.requests) == 4, "a schema never changes"


def test_a_registry_that_does_not_answer_fails_and_heals(spark, registry, settings):
    message = [frame(7, number(1) + optional(None))]
    for status, reason in ((500, "answers 500"), (404, "answers 404"), (403, "answers 403")):
        registry.status = status
        with pytest.raises(SourceError, match=f"the schema registry {registry.url} {reason} to the question for schema 7"):
            parse(spark, registry, settings, message)
    registry.status = None
    with pytest.raises(SourceError, match=r"no schema of these messages can be used: the registry has no schema 7\. Is http"):
        parse(spark, registry, settings, message)
    registry.add(7, ID, STATE)
    assert parse(spark, registry, settings, message)[0][1] == {"id": "1", "state": None}
    with pytest.raises(SourceError, match=r"the schema registry http://127.0.0.1:1 does not answer \(Connect"):
        fetch_schemas("http://127.0.0.1:1", [1], settings)


def test_too_many_schemas_are_refused(spark, registry, settings, monkeypatch):
    monkeypatch.setattr(avro_messages, "MAX_SCHEMAS", 2)
    with pytest.raises(SourceError, match="more than 2 schemas"):
        parse(spark, registry, settings, [frame(n, b"") for n in range(3)])
    assert registry.requests == []


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"schema": "{}", "schemaType": "PROTOBUF"}, "schema 1 is PROTOBUF, and not AVRO"),
        ({"schema": "{}", "references": [{"name": "x"}]}, "schema 1 refers to other schemas"),
        ({"schema": '"long"'}, "schema 1: its values are no records with fields"),
        ({"schema": "{"}, "schema 1: it is not JSON"),
        ({"schema": '{"type": "record", "fields": []}'}, "schema 1: its values are no records with fields"),
        ({"schema": '{"type": "record", "fields": [{"name": "a", "type": 0}, {"name": "A", "type": 0}]}'}, "differ only"),
    ],
)  # fmt: skip
def test_schemas_that_cannot_be_used(registry, settings, answer, problem):
    registry.schemas[1] = answer
    assert problem in str(fetch_schemas(registry.url, [1], settings)[1].problem)


def test_a_recursive_schema_leaves_the_other_messages(spark, registry, settings):
    registry.add(7, ID, STATE)
    registry.add(8, {"name": "next", "type": ["null", "Order"]})
    good, bad = parse(spark, registry, settings, [frame(7, number(1) + optional(None)), frame(8, b"\0")])
    assert good[1] == {"id": "1", "state": None}
    assert bad[1] is None and bad[0].startswith("schema 8: ") and "recursive" in bad[0].lower()


def test_credentials_are_of_the_environment_and_are_not_shown(settings, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(schema_registry, "_CACHE", {})
    conf = tmp_path / "kafka.conf"
    conf.write_text("linger.ms=5\nschema.registry.basic.auth.user.info=reader:${LAKEHOUSE_SECRET_REGISTRY}\n")
    with registry_server("reader:pa:ss") as registry:
        registry.add(1, ID)
        with_registry = settings.model_copy(
            update={"kafka_conf": conf, "kafka_bootstrap": "b:1", "secrets": {"REGISTRY": SecretStr("pa:ss")}}
        )
        assert fetch_schemas(registry.url, [1], with_registry)[1].names == ("id",)
        assert with_registry.kafka_properties(()) == {"linger.ms": "5"} and not [
            k for k in spark_options(with_registry) if "registry" in k
        ]
        wrong = with_registry.model_copy(update={"secrets": {"REGISTRY": SecretStr("wrong-word")}})
        with pytest.raises(SourceError, match="answers 401") as raised:
            fetch_schemas(registry.url, [2], wrong)
        assert "wrong-word" not in str(raised.value)
        with pytest.raises(EnvironmentMissing, match="LAKEHOUSE_SECRET_REGISTRY"):
            fetch_schemas(registry.url, [2], with_registry.model_copy(update={"secrets": {}}))
        conf.write_text("schema.registry.url=http://x\n")
        with pytest.raises(ConfigError, match=r"schema.registry.url: a source accepts only schema.registry.basic"):
            fetch_schemas(registry.url, [2], with_registry)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"format": "avro"}, "format avro needs the address of its schema registry"),
        ({"registry": "http://h"}, "json has none"),
        ({"format": "avro", "registry": "http://me:word@h:1"}, "without user and password"),
        ({"format": "avro", "registry": "h:8081"}, "is no address of a registry"),
    ],
)
def test_refused_declarations(attributes, message):
    with pytest.raises(ValidationError, match=message):
        KafkaSource.model_validate({"kind": "kafka", "topic": "t"} | attributes)


def test_a_json_topic_keeps_its_rule_set():
    assert not {"format", "registry"} & KafkaSource(kind="kafka", topic="t").model_dump().keys()
    assert doctest.testmod(avro_messages).failed == 0
