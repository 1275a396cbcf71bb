"""Avro files: values of every type as text, several schemas, files that are none, and Spark's reader that is not there.

Belongs here: `format: avro`, with files that Avro's own Java library writes. Does not: what all files share (test_unreadable).
"""

import doctest
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.sources import avro_files
from lakehouse_assets.sources.avro_files import AvroHead, read_avro_rows
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.sources.landing import Landing
from lakehouse_assets.storage.jars import JARS_FOR_AVRO
from lakehouse_assets.testing import verify_source
from lakehouse_assets_tests.sources.source_files import day, land, rows


@pytest.fixture(autouse=True)
def _jar(spark):
    if not list(JARS_FOR_AVRO.glob("*.jar")):
        pytest.skip("Spark's Avro reader could not be fetched")


def avro(**settings) -> FilesSource:
    return FilesSource.model_validate({"kind": "files", "path": "t/{window:%Y-%m-%d}.avro", "format": "avro"} | settings)


def write(spark: SparkSession, path: Path, fields: list[dict], records: list[dict], codec: str = "deflate") -> Path:
    """Write records, each as Avro's JSON, by Avro's own library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    jvm: Any = spark.sparkContext._jvm
    avro = jvm.org.apache.avro
    schema = jvm.org.apache.avro.Schema.Parser().parse(json.dumps({"type": "record", "name": "Row", "fields": fields}))
    writer = avro.file.DataFileWriter(avro.generic.GenericDatumWriter(schema))
    writer.setCodec(avro.file.CodecFactory.fromString(codec))
    writer.create(schema, jvm.java.io.File(str(path)))
    reader = avro.generic.GenericDatumReader(schema)
    for record in records:
        writer.append(reader.read(None, avro.io.DecoderFactory.get().jsonDecoder(schema, json.dumps(record))))
    writer.close()
    return path


# Avro's type, the value in Avro's JSON, bronze's text, the Spark type that the schema contract compares.
MICROS = 1_709_294_400_123_456  # 2024-03-01T12:00:00.123456Z
VALUES = [
    ("int", -7, "-7", "int"),
    ("long", -(2**63), "-9223372036854775808", "bigint"),
    ("double", 0.1, "0.1", "double"),
    ("float", 0.5, "0.5", "float"),
    ("boolean", True, "true", "boolean"),
    ("string", 'é"😀\n', 'é"😀\n', "string"),
    ("string", "", "", "string"),
    (["null", "string"], None, None, "string"),
    (["null", "string"], {"string": "x"}, "x", "string"),
    ("bytes", "\u00ff\u0000", b64encode(b"\xff\x00").decode(), "binary"),
    ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\u0000", b64encode(b"\xff\x00").decode(), "binary"),
    ({"type": "enum", "name": "E", "symbols": ["NEW", "PAID"]}, "PAID", "PAID", "string"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "\u00ff\u00ce", "-0.50", "decimal(9,2)"),
    ({"type": "int", "logicalType": "date"}, 19783, "2024-03-01", "date"),
    ({"type": "long", "logicalType": "timestamp-micros"}, MICROS, "2024-03-01T12:00:00.123456Z", "timestamp"),
    ({"type": "long", "logicalType": "timestamp-millis"}, MICROS // 1000, "2024-03-01T12:00:00.123000Z", "timestamp"),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, MICROS, "2024-03-01T12:00:00.123456", "timestamp_ntz"),
    ({"type": "int", "logicalType": "time-millis"}, 1000, "1000", None),
    ({"type": "string", "logicalType": "uuid"}, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
     "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "string"),
    (["int", "string"], {"string": "x"}, '{"member0":null,"member1":"x"}', None),
    ({"type": "array", "items": ["null", "int"]}, [{"int": 1}, None], "[1,null]", None),
    ({"type": "map", "values": "int"}, {"a": 1}, '{"a":1}', None),
    ({"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}, {"x": 1}, '{"x":1}', None),
]  # fmt: skip


def test_values(spark: SparkSession, tmp_path: Path) -> None:
    fields = [{"name": f"v{n}", "type": kind} for n, (kind, *_) in enumerate(VALUES)]
    record = {f"v{n}": value for n, (_, value, *_) in enumerate(VALUES)}
    write(spark, tmp_path / "t/2024-03-01.avro", fields, [record])
    extraction = FilesReader(avro(), str(tmp_path)).read(spark, [day(1)])
    names = [f"v{n}" for n in range(len(VALUES))]
    assert rows(extraction, *names) == [tuple(text for _, _, text, _ in VALUES)]
    assert extraction.columns[day(1)] == tuple(names) and not extraction.problems
    types = extraction.types[day(1)]
    assert [types.get(name) for name in names] == [kind for *_, kind in VALUES]


@pytest.mark.parametrize("codec", ["null", "snappy", "zstandard"])
def test_schemas_that_differ_are_bound_by_name(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    a, b = {"name": "a", "type": "int"}, {"name": "b", "type": "string"}
    write(spark, tmp_path / "t/2024-03-01.avro", [a, b], [{"a": 1, "b": "x"}], codec)
    write(spark, tmp_path / "t/2024-03-02.avro", [b, {"name": "A", "type": "long"}], [{"b": "y", "A": 2}], codec)
    write(spark, tmp_path / "t/2024-03-03.avro", [a], [], codec)
    extraction = FilesReader(avro(), str(tmp_path), ["a"]).read(spark, [day(1), day(2), day(3)])
    assert rows(extraction, "a", "b") == [("1", "x"), ("2", "y")]
    assert extraction.respelled[day(2)] == {"a": "A"} and extraction.columns[day(3)] == ("a",)


def test_files_that_are_none_are_one_row_each(spark: SparkSession, tmp_path: Path) -> None:
    good = write(spark, tmp_path / "t/2024-03-01.avro", [{"name": "a", "type": "string"}], [{"a": "x" * 99}] * 999, "null")
    content = good.read_bytes()
    land(tmp_path, "t/2024-03-02.avro", content[: len(content) // 2])
    land(tmp_path, "t/2024-03-03.avro", content[:30])
    land(tmp_path, "t/2024-03-04.avro", "a,b\n1,2\n")
    land(tmp_path, "t/2024-03-05.avro", "")
    recursive = [{"name": "next", "type": ["null", "Row"]}]
    write(spark, tmp_path / "t/2024-03-06.avro", recursive, [{"next": None}])
    windows = [day(number) for number in range(1, 7)]
    reader = FilesReader(avro(), str(tmp_path))
    unreadable = reader.probe(spark, windows)
    extraction = reader.read(spark, windows, unreadable)
    assert len(rows(extraction, "a")) == 999 + 5
    reasons = {window.start.day: texts[0].partition(": ")[2] for window, texts in extraction.problems.items()}
    assert sorted(reasons) == [2, 3, 4, 5, 6]
    assert reasons[3] == "its head is cut off" and reasons[4] == reasons[5] == "it is not an Avro file"
    assert "recursive" in reasons[6].lower()


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"\x00", "its head has no schema"),
        (b"\xff" * 99_000, "its head is damaged"),
        (b"\x02\x16avro.schema\x04{]\x00", "its schema is not JSON"),
        (b'\x02\x16avro.schema\x0a"int"\x00', "its values are no records"),
        (b'\x02\x16avro.schema\x24{"type": "record"}\x00', "its schema has a field without a name or a type"),
    ],
)
def test_a_damaged_head_is_named(tmp_path: Path, head: bytes, reason: str) -> None:
    land(tmp_path, "t/2024-03-01.avro", avro_files.MAGIC + head)
    with pytest.raises(ValueError, match=reason):
        avro_files.read_avro_head(Landing(str(tmp_path)), "t/2024-03-01.avro")


def test_a_file_compressed_as_a_whole_is_named(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "t/2024-03-01.avro.gz", b"")
    extraction = FilesReader(avro(path="t/{window:%Y-%m-%d}.avro.gz"), str(tmp_path)).read(spark, [day(1)])
    assert "compressed as a whole" in extraction.problems[day(1)][0]


def test_the_contract(spark: SparkSession, tmp_path: Path) -> None:
    fields = [{"name": "a", "type": ["null", "int"]}]

    def change(window) -> None:
        write(spark, tmp_path / f"t/{window.key}.avro", fields, [{"a": None}] * 9)

    for number in (1, 2):
        write(spark, tmp_path / f"t/2024-03-0{number}.avro", fields, [{"a": {"int": number}}])
    verify_source(spark, lambda _: FilesReader(avro(), str(tmp_path)), [day(1), day(2)], day(9), change=change)


def test_a_missing_reader_is_named_with_the_way_out(spark: SparkSession, monkeypatch) -> None:
    monkeypatch.setattr(avro_files, "READER", "org.example.None")
    with pytest.raises(EnvironmentMissing, match="Spark lacks its Avro reader: `python -m lakehouse_assets"):
        read_avro_rows(spark, ["/nowhere"], AvroHead("{}", ()), {})


def test_the_types_of_a_schema() -> None:
    assert doctest.testmod(avro_files).failed == 0


def test_refused_settings() -> None:
    with pytest.raises(ValidationError, match="format avro: multiline, encoding, delimiter and quote apply to text files only"):
        avro(encoding="utf-8")
