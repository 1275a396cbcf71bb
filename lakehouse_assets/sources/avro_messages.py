"""Messages in Confluent's wire format: a zero byte, the schema's id in four bytes, the record in Avro.

Belongs here: decoding values by the schema that each names. Does not: the registry (schema_registry), or ranges of a topic.
"""

import json
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import base
from lakehouse_assets.sources.avro_files import READER
from lakehouse_assets.sources.parquet_files import value_text
from lakehouse_assets.sources.schema_registry import RegisteredSchema, fetch_schemas

MAX_SCHEMAS = 100
PERMISSIVE = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}
IS_FRAMED = "length(value) >= 5 AND substring(value, 1, 1) = X'00'"
ID = f"CASE WHEN {IS_FRAMED} THEN CAST(conv(hex(substring(value, 2, 4)), 16, 10) AS BIGINT) END"
PAYLOAD = "substring(value, 6)"


def parse_avro(rows: DataFrame, registry: str, settings: Settings) -> DataFrame:
    """Replace ``value`` by ``_line`` and ``_object``: the record's fields and their texts; NULL unless it was decoded.
    ``_line`` is the reason for a NULL and the bytes as base64; NULL where there was no value. One job, which finds the schemas.
    Raises SourceError if the registry does not answer, or gives no schema that can be used.
    """
    jvm: Any = rows.sparkSession.sparkContext._jvm
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(READER):
        raise EnvironmentMissing(f"Spark lacks its Avro reader: `{base.FETCH_JARS}` fetches it, in this same environment")
    named = rows.withColumn("_id", F.expr(ID))
    ids = [row[0] for row in named.where("_id IS NOT NULL").select("_id").distinct().limit(MAX_SCHEMAS + 1).collect()]
    if len(ids) > MAX_SCHEMAS:
        raise SourceError(f"messages name more than {MAX_SCHEMAS} schemas, which is the most that one window may have")
    schemas = fetch_schemas(registry, ids, settings)
    if schemas and all(schema.problem for schema in schemas.values()):
        reasons = "; ".join(str(schema.problem) for schema in schemas.values())
        raise SourceError(f"no schema of these messages can be used: {reasons[:500]}. Is {registry} this topic's registry?")
    return decode_messages(named, schemas)


def decode_messages(named: DataFrame, schemas: Mapping[int, RegisteredSchema]) -> DataFrame:
    """Return `parse_avro`'s rows. ``named``: with ``value`` and ``_id``. ``schemas``: of each id."""
    problems = {number: schema.problem for number, schema in schemas.items() if schema.problem}
    rows, texts = named, {}
    for number, schema in schemas.items():
        if number in problems:
            continue
        record = F.when(F.col("_id") == number, from_avro(F.expr(PAYLOAD), schema.text, PERMISSIVE))
        try:
            # A column of its own: a record is decoded once, and not once for each field.
            rows = rows.withColumn(f"_record_{number}", record)
        except base.SCAN_ERRORS as error:
            problems[number] = f"schema {number}: {base.first_line(error)}"
            continue
        texts[number] = _texts(F.col(f"_record_{number}"), rows.schema[f"_record_{number}"].dataType, _all_null(schema.text))
    id_, reason = F.col("_id"), F.when(F.col("_id").isNull(), "it is not in the wire format of a schema registry")
    for number, problem in problems.items():
        reason = reason.when(id_ == number, problem)
    reason = reason.otherwise(F.concat(F.lit("it is no record of schema "), id_))
    line = F.when(F.col("value").isNotNull(), F.concat(reason, F.lit(": "), base.one_line_base64(F.col("value"))))
    object_ = F.coalesce(*texts.values(), F.lit(None).cast("map<string,string>"))
    other_columns = [name for name in named.columns if name not in ("value", "_id")]
    return rows.select(*other_columns, line.alias("_line"), object_.alias("_object"))


def _texts(record: Column, kind: Any, all_null: bytes | None) -> Column:
    """Return a record's fields as a map of texts; NULL if there is none. Spark makes a record of NULLs of bytes that it cannot
    decode. ``all_null``: the bytes of a record that is one.
    """
    pairs = [part for f in kind for part in (F.lit(f.name), value_text(record.getField(f.name), f.dataType))]
    has_value = reduce(or_, [record.getField(field.name).isNotNull() for field in kind])
    as_written = F.lit(False) if all_null is None else F.expr(f"{PAYLOAD} = X'{all_null.hex()}'")
    return F.when(record.isNotNull() & (has_value | as_written), F.create_map(*pairs))


def _all_null(text: str) -> bytes | None:
    """Return the bytes of a record whose fields are all NULL; None if the schema has a field that is never NULL.

    >>> _all_null('{"fields": [{"type": ["null", "int"]}, {"type": ["int", "null"]}, {"type": "null"}]}')
    b'\\x00\\x02'
    >>> _all_null('{"fields": [{"type": "int"}]}')
    """
    content = b""
    for field in json.loads(text)["fields"]:
        kind = field["type"]
        if kind in ("null", {"type": "null"}):
            continue
        if not isinstance(kind, list) or "null" not in kind:
            return None
        content += bytes([2 * kind.index("null")])
    return content
