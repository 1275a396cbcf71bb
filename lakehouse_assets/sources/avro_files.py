"""Avro files into rows of strings: schemas read from the files' heads on the driver, one scan per distinct schema.

Belongs here: a file's schema, and its rows by Spark's Avro reader. Does not: windows, folders, other formats.

Times become ISO in UTC (without `Z` if they are local), binary base64, nested values and unions of several types JSON.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.sources.base import FETCH_JARS, find_name_problem
from lakehouse_assets.sources.file_scans import SCAN_OPTIONS
from lakehouse_assets.sources.landing import Landing
from lakehouse_assets.sources.parquet_files import value_text

MAGIC = b"Obj\x01"
# How much of a file is read for its head: a schema has a few kilobytes.
BLOCKS = (64 * 1024, 16 * 1024 * 1024)
LONGEST_NUMBER = 70  # bits, of the ten bytes of a 64-bit number
READER = "org.apache.spark.sql.avro.AvroFileFormat"
TYPES = {
    "int": "int", "long": "bigint", "float": "float", "double": "double", "boolean": "boolean", "string": "string",
    "bytes": "binary", "fixed": "binary", "enum": "string",
}  # fmt: skip
LOGICAL = {
    "date": "date", "timestamp-millis": "timestamp", "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz", "local-timestamp-micros": "timestamp_ntz", "uuid": "string",
}  # fmt: skip
# A duration of Avro is twelve bytes, and Spark reads them as such.
WITHOUT_A_TYPE = ("duration", "time-millis", "time-micros", "timestamp-nanos", "local-timestamp-nanos")


@dataclass(frozen=True)
class AvroHead:
    """A file's schema as it stands there, as JSON, and its columns."""

    schema: str
    names: tuple[str, ...]

    @property
    def types(self) -> dict[str, str]:
        """Spark's types of the columns; nested ones, unions of several types and times of day are left out."""
        types = {field["name"]: spark_type(field["type"]) for field in json.loads(self.schema)["fields"]}
        return {name: kind for name, kind in types.items() if kind}


def read_avro_head(landing: Landing, path: str) -> AvroHead:
    """Return a file's schema and columns. Raises OSError, or ValueError for a file that is no Avro file of records."""
    if path.endswith((".gz", ".bz2")):
        raise ValueError("the file is compressed as a whole: Avro compresses its blocks by itself")
    text = _schema_text(landing, path)
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("its schema is not JSON") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("its values are no records")
    fields = schema.get("fields")
    if not isinstance(fields, list) or not all(isinstance(each, dict) and {"name", "type"} <= each.keys() for each in fields):
        raise ValueError("its schema has a field without a name or a type")
    names = tuple(str(field["name"]) for field in fields)
    if why := find_name_problem(names):
        raise ValueError(why)
    return AvroHead(text, names)


def _schema_text(landing: Landing, path: str) -> str:
    for block in BLOCKS:
        content = landing.read_head(path, block)
        if not content.startswith(MAGIC):
            raise ValueError("it is not an Avro file")
        try:
            return _metadata(content)[b"avro.schema"].decode()
        except IndexError:
            if len(content) < block:
                break
        except (KeyError, UnicodeDecodeError):
            raise ValueError("its head has no schema") from None
    raise ValueError("its head is cut off")


def _metadata(content: bytes) -> dict[bytes, bytes]:
    """Return the metadata of a head. Raises IndexError if it is cut off."""
    metadata: dict[bytes, bytes] = {}
    count, at = _number(content, len(MAGIC))
    while count:
        if count < 0:
            count, (_, at) = -count, _number(content, at)
        for _ in range(count):
            key, at = _bytes(content, at)
            metadata[key], at = _bytes(content, at)
        count, at = _number(content, at)
    return metadata


def _number(content: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag number at a position, and the position after it."""
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if shift > LONGEST_NUMBER:
            raise ValueError("its head is damaged")
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _bytes(content: bytes, at: int) -> tuple[bytes, int]:
    size, at = _number(content, at)
    if size < 0 or at + size > len(content):
        raise IndexError
    return content[at : at + size], at + size


def spark_type(kind: Any) -> str | None:
    """Return Spark's type of an Avro type; None for one that is left out.

    >>> spark_type(["null", "long"]), spark_type({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})
    ('bigint', 'decimal(9,2)')
    >>> spark_type({"type": "long", "logicalType": "timestamp-micros"}), spark_type(["string", "long"])
    ('timestamp', None)
    """
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        return spark_type(kinds[0]) if len(kinds) == 1 else None
    if isinstance(kind, str):
        return TYPES.get(kind)
    logical = kind.get("logicalType")
    if logical == "decimal" and kind.get("precision", 0) <= 38:
        return f"decimal({kind['precision']},{kind.get('scale', 0)})"
    return None if logical in WITHOUT_A_TYPE else LOGICAL.get(logical) or spark_type(kind["type"])


def read_avro_rows(spark: SparkSession, paths: Sequence[str], head: AvroHead, bound: Mapping[str, str]) -> DataFrame:
    """Return ``_file``, ``_corrupt_record`` and the columns under their ``bound`` names, of files with this one schema.
    Raises EnvironmentMissing without Spark's Avro reader.
    """
    jvm: Any = spark.sparkContext._jvm
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(READER):
        raise EnvironmentMissing(f"Spark lacks its Avro reader: `{FETCH_JARS}` fetches it, in this same environment")
    options = SCAN_OPTIONS | {"avroSchema": head.schema, "datetimeRebaseMode": "CORRECTED"}
    raw = spark.read.format("avro").options(**options).load(list(paths))
    return raw.select(
        raw.metadataColumn("_metadata").getField("file_path").alias("_file"),
        F.lit(None).cast("string").alias("_corrupt_record"),
        *[value_text(F.col(identifier(field.name)), field.dataType).alias(bound[field.name]) for field in raw.schema],
    )
