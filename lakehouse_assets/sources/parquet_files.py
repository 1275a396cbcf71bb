"""Parquet into rows of strings: schemas read from the footers on the driver, one scan per distinct schema, columns by name.

Belongs here: which schemas can be read, and how typed values become text. Does not: windows, folders, other formats.

Times become ISO in UTC (without `Z` if the column has no zone), binary base64, nested values JSON with its NULLs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.spark_types import Array, Atom, Decimal, Map, SparkType, Struct, sql_type
from lakehouse_assets.sources.base import find_name_problem, one_line_base64
from lakehouse_assets.sources.file_scans import SCAN_OPTIONS
from lakehouse_assets.sources.landing import Landing
from lakehouse_assets.storage.json_texts import MOMENT, as_json

SCAN = SCAN_OPTIONS | {
    "mergeSchema": "false",
    # Dates before 1582 as they stand there.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
# Spark reads an unsigned number as the next larger signed one.
NAMES = {
    "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "uint8": "smallint", "uint16": "int",
    "uint32": "bigint", "float": "float", "double": "double", "bool": "boolean", "date32[day]": "date", "null": "void",
}  # fmt: skip
NANOSECONDS = 1_000_000_000
MICROSECONDS = pa.timestamp("us", "UTC")
DIGITS = 38
LEAST_DIGITS_OF_BYTES = 19  # of a decimal that Spark reads from variable-length bytes
# Annotations of bytes of a fixed length.
REFUSED_BYTES = {"UUID", "INTERVAL"}


def read_schema(landing: Landing, path: str) -> pa.Schema:
    """Return a file's schema with the types that Spark reads. Raises OSError, pa.ArrowException or ValueError if unreadable."""
    with landing.filesystem.open_input_file(f"{landing.root}/{path}") as file:
        columns = parquet.read_metadata(file).schema
    schema = columns.to_arrow_schema().remove_metadata()
    if why := find_name_problem(schema.names) or _refuse_types(schema, columns):
        raise ValueError(why)
    return normalize_schema(schema, columns)


def normalize_schema(schema: pa.Schema, columns: parquet.ParquetSchema) -> pa.Schema:
    """Return the schema with the types that Spark reads. Arrow shows INT96 as nanoseconds without a zone and an ENUM as bytes.
    Spark, which writes INT96, reads it as a moment in microseconds, an ENUM as text, and a decimal of variable-length bytes
    with many digits.
    """
    if not any(_needs_footer(kind) for field in schema for kind in _types(field.type)):
        return schema
    leaves = map(columns.column, range(len(columns)))
    return pa.schema([field.with_type(_spark_reads(field.type, leaves)) for field in schema])


def _spark_reads(kind: pa.DataType, leaves: Iterator[Any]) -> pa.DataType:
    """Return the type as Spark reads it. ``leaves``: the Parquet columns of it and of what follows, consumed on the walk."""
    inner = [kind.field(index) for index in range(kind.num_fields)]
    if not inner:
        leaf = next(leaves)
        if leaf.physical_type == "INT96":
            return MICROSECONDS
        if pa.types.is_decimal(kind) and leaf.physical_type == "BYTE_ARRAY":
            return pa.decimal128(max(kind.precision, LEAST_DIGITS_OF_BYTES), kind.scale)
        return pa.string() if leaf.converted_type == "ENUM" else kind
    fields = [field.with_type(_spark_reads(field.type, leaves)) for field in inner]
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_map(kind):  # its one field is an entry, of key and value
        return pa.map_(fields[0].type.field(0), fields[0].type.field(1))
    return pa.list_(fields[0])


def _refuse_types(schema: pa.Schema, columns: parquet.ParquetSchema) -> str | None:
    if not schema.names:
        return "it has no columns"
    types = [(field.name, kind) for field in schema for kind in _types(field.type)]
    refused = [(name, str(kind)) for name, kind in types if _is_unsupported(kind)]
    if any(_needs_footer(kind) for _, kind in types):
        for leaf in map(columns.column, range(len(columns))):
            annotations = {leaf.logical_type.type, leaf.converted_type} & REFUSED_BYTES
            refused += [(leaf.path.partition(".")[0], annotation.lower()) for annotation in annotations]
    for name, kind in refused:
        return f"column {name!r} has the type {kind}, which Spark does not read"
    structs = [(name, [part.name for part in kind]) for name, kind in types if pa.types.is_struct(kind)]
    return next((f"within column {name!r}: {why}" for name, parts in structs if (why := find_name_problem(parts))), None)


def _needs_footer(kind: pa.DataType) -> bool:
    """Whether Arrow may show another type than Spark reads."""
    of_bytes = pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind) or isinstance(kind, pa.BaseExtensionType)
    return of_bytes or _is_nanoseconds(kind) or pa.types.is_decimal(kind)


def _is_nanoseconds(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.unit == "ns"


def _is_unsupported(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return kind.precision > DIGITS
    return pa.types.is_time(kind) or pa.types.is_float16(kind) or pa.types.is_interval(kind)


def _types(kind: pa.DataType) -> list[pa.DataType]:
    """Return the type and all types within it."""
    inner = [kind.field(index).type for index in range(kind.num_fields)]
    return [kind, *(each for one in inner for each in _types(one))]


def spark_types(schema: pa.Schema) -> dict[str, str]:
    """Return Spark's types of a file's columns."""
    return {field.name: sql_type(_spark_type(field.type)) for field in schema}


def _spark_type(kind: pa.DataType) -> SparkType:
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    if pa.types.is_struct(kind):
        return Struct(tuple((field.name, _spark_type(field.type)) for field in kind))
    if pa.types.is_map(kind):
        return Map(_spark_type(kind.key_type), _spark_type(kind.item_type))
    if pa.types.is_nested(kind):
        return Array(_spark_type(kind.field(0).type))
    if pa.types.is_decimal(kind):
        return Decimal(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return Atom("timestamp" if kind.tz else "timestamp_ntz")
    if pa.types.is_uint64(kind):
        return Decimal(20, 0)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return Atom("binary")
    return Atom(NAMES.get(str(kind), "string"))


def read_parquet_rows(spark: SparkSession, paths: Sequence[str], schema: pa.Schema, bound: Mapping[str, str]) -> DataFrame:
    """Return ``_file``, ``_corrupt_record`` and the columns under their ``bound`` names, of files with this one schema."""
    reader = spark.read.options(**SCAN)
    raw = reader.parquet(*paths)
    decimals = {f.name: T.DecimalType(f.type.precision, f.type.scale) for f in schema if pa.types.is_decimal(f.type)}
    fields = [T.StructField(f.name, decimals[f.name]) if f.name in decimals else f for f in raw.schema]
    if fields != list(raw.schema):
        raw = reader.schema(T.StructType(fields)).parquet(*paths)
    kinds = {field.name: field.dataType for field in raw.schema}
    cells = []
    for field in schema:
        # Spark has no nanoseconds; `spark.sql.legacy.parquet.nanosAsLong` makes it return their number.
        value = _with_nanoseconds(F.col(identifier(field.name)), field.type)
        text = value if _is_nanoseconds(field.type) else value_text(value, kinds[field.name])
        cells.append(text.alias(bound[field.name]))
    return raw.select(
        raw.metadataColumn("_metadata").getField("file_path").alias("_file"),
        F.lit(None).cast("string").alias("_corrupt_record"),
        *cells,
    )


def value_text(value: Column, kind: T.DataType) -> Column:
    """Return a typed value as the text that bronze has."""
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        return F.date_format(value, f"{MOMENT}'Z'" if isinstance(kind, T.TimestampType) else MOMENT)
    if isinstance(kind, T.BinaryType):
        return one_line_base64(value)
    if isinstance(kind, T.StructType | T.ArrayType | T.MapType):
        return as_json(value, with_nulls=True)
    return value.cast("string")


def _with_nanoseconds(value: Column, kind: pa.DataType) -> Column:
    """Return the value with text in place of each count of nanoseconds in it."""
    if _is_nanoseconds(kind):
        return _nanoseconds(value, kind.tz)
    if not any(_is_nanoseconds(inner) for inner in _types(kind)):
        return value
    if pa.types.is_struct(kind):
        parts = [_with_nanoseconds(value.getField(part.name), part.type).alias(part.name) for part in kind]
        return F.when(value.isNotNull(), F.struct(*parts))
    if pa.types.is_map(kind):
        texts = F.transform_values(value, lambda _, item: _with_nanoseconds(item, kind.item_type))
        return F.transform_keys(texts, lambda key, _: _with_nanoseconds(key, kind.key_type))
    return F.transform(value, lambda each: _with_nanoseconds(each, kind.field(0).type))


def _nanoseconds(value: Column, zone: str | None) -> Column:
    seconds = F.timestamp_seconds(F.floor(value / F.lit(NANOSECONDS).cast("decimal(20,0)")))
    fraction = F.lpad(F.pmod(value, F.lit(NANOSECONDS)).cast("string"), 9, "0")
    return F.concat(F.date_format(seconds, "yyyy-MM-dd'T'HH:mm:ss."), fraction, F.lit("Z" if zone else ""))
