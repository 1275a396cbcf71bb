"""Parquet into rows of strings: schemas read from the footers on the driver, one scan per distinct schema, columns by name.

Belongs here: which files' schemas can be read, and how typed values become text. Does not: windows, folders, other formats.

Times become ISO in UTC (without `Z` where the column has no zone), binary base64, nested values JSON with its NULLs.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType, TimestampNTZType, TimestampType

from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.contracts.spark_types import Array, Atom, Decimal, Map, SparkType, Struct, sql_type
from lakehouse_assets.sources.base import one_line_base64
from lakehouse_assets.sources.landing import Landing
from lakehouse_assets.sources.names import refuse_names

SCAN = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    "mergeSchema": "false",
    # Dates before 1582 as they stand there.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
IN_JSON = {"ignoreNullFields": "false", "timestampFormat": f"{MOMENT}XXX", "timestampNTZFormat": MOMENT}
# Spark reads an unsigned number as the next larger signed one.
NAMES = {
    "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "uint8": "smallint", "uint16": "int",
    "uint32": "bigint", "float": "float", "double": "double", "bool": "boolean", "date32[day]": "date", "null": "void",
}  # fmt: skip
NANOSECONDS = 1_000_000_000
DIGITS = 38


def read_schemas(landing: Landing, paths: Sequence[str]) -> dict[str, pa.Schema | str]:
    """Each file's schema; a reason instead where it is unreadable."""

    def one(path: str) -> pa.Schema | str:
        try:
            with landing.filesystem.open_input_file(f"{landing.root}/{path}") as file:
                schema = parquet.read_schema(file).remove_metadata()
        except (OSError, pa.ArrowException, ValueError) as error:
            return str(error).splitlines()[0].replace(f"{landing.root}/", "") or type(error).__name__
        return refuse_names(schema.names) or _refuse_types(schema) or schema

    with ThreadPoolExecutor(8) as pool:
        return dict(zip(paths, pool.map(one, paths), strict=True))


def _refuse_types(schema: pa.Schema) -> str | None:
    refused = [(field.name, inner) for field in schema for inner in _types(field.type) if _unknown(inner)]
    if refused:
        return f"column {refused[0][0]!r} has the type {refused[0][1]}, which Spark does not read"
    for field in schema:
        whole, *within = _types(field.type)
        for kind in (whole, *within):
            if pa.types.is_struct(kind) and (why := refuse_names([part.name for part in kind])):
                return f"within column {field.name!r}: {why}"
        # Of a column by itself they are made into text; within another value Spark would take them for seconds.
        if any(pa.types.is_timestamp(kind) and kind.unit == "ns" for kind in within):
            return f"column {field.name!r} has times in nanoseconds within, which Spark does not read: write microseconds"
    return None


def _unknown(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return kind.precision > DIGITS
    return pa.types.is_time(kind) or pa.types.is_float16(kind) or pa.types.is_interval(kind)


def _types(kind: pa.DataType) -> list[pa.DataType]:
    """The type and those within it."""
    inner = [kind.field(place).type for place in range(kind.num_fields)]
    return [kind, *(each for one in inner for each in _types(one))]


def spark_types(schema: pa.Schema) -> dict[str, str]:
    """Spark's types of a file's columns."""
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


def parquet_rows(spark: SparkSession, paths: Sequence[str], schema: pa.Schema, bound: Mapping[str, str]) -> DataFrame:
    """``_file``, ``_corrupt_record``, and the columns under their ``bound`` names, of files with this one schema."""
    raw = spark.read.options(**SCAN).parquet(*paths)
    kinds = {field.name: field.dataType for field in raw.schema}
    nanos = {field.name: field.type.tz for field in schema if pa.types.is_timestamp(field.type) and field.type.unit == "ns"}
    cells = {name: _nanoseconds(name, nanos[name]) if name in nanos else _text(name, kind) for name, kind in kinds.items()}
    return raw.select(
        raw.metadataColumn("_metadata").getField("file_path").alias("_file"),
        F.lit(None).cast("string").alias("_corrupt_record"),
        *[cell.alias(bound[name]) for name, cell in cells.items()],
    )


def _text(name: str, kind: DataType) -> Column:
    value = F.col(identifier(name))
    if isinstance(kind, TimestampType):
        return F.date_format(value, f"{MOMENT}'Z'")
    if isinstance(kind, TimestampNTZType):
        return F.date_format(value, MOMENT)
    if isinstance(kind, BinaryType):
        return one_line_base64(value)
    if isinstance(kind, StructType | ArrayType | MapType):
        return F.to_json(value, IN_JSON)
    return value.cast("string")


def _nanoseconds(name: str, zone: str | None) -> Column:
    """Spark has no such times; it is told (`spark.sql.legacy.parquet.nanosAsLong`) to give their number."""
    value = F.col(identifier(name))
    whole = F.timestamp_seconds(F.floor(value / F.lit(NANOSECONDS).cast("decimal(20,0)")))
    fraction = F.lpad(F.pmod(value, F.lit(NANOSECONDS)).cast("string"), 9, "0")
    return F.concat(F.date_format(whole, "yyyy-MM-dd'T'HH:mm:ss."), fraction, F.lit("Z" if zone else ""))
