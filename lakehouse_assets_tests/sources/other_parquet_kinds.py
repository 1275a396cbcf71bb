"""Parquet files that DuckDB, Spark and parquet-java write, and what bronze must have of each.

Belongs here: their kinds. Does not: pyarrow's (parquet_kinds), reading them. DuckDB's lie in `files/duckdb`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lakehouse_assets_tests.sources.parquet_kinds import AT, Kind

DUCKDB = Path(__file__).parent / "files" / "duckdb"


def _duckdb(name: str, expected: list[dict[str, str | None]] | str) -> Kind:
    return Kind(lambda path: path.write_bytes((DUCKDB / f"{name}.parquet").read_bytes()), expected)


BY_DUCKDB: dict[str, Kind] = {
    "uuid": _duckdb("uuid", "column 'v' has the type uuid, which Spark does not read"),
    "interval": _duckdb("interval", "column 'v' has the type interval, which Spark does not read"),
    "hugeint": _duckdb("hugeint", [{"v": "1.7014118346046923E38"}]),
    "ubigint": _duckdb("ubigint", [{"v": "18446744073709551615"}]),
    "utiny": _duckdb("utiny", [{"a": "255", "b": "65535", "c": "4294967295"}]),
    "enum": _duckdb("enum", [{"v": "b"}]),
    "json": _duckdb("json", [{"v": '{"a":1}'}]),
    "time": _duckdb("time", "time64[us], which Spark does not read"),
    "timetz": _duckdb("timetz", "time64[us], which Spark does not read"),
    "ts": _duckdb(
        "ts",
        [
            {
                "a": "2024-01-02T03:04:05.123456",
                "b": "2024-01-02T03:04:05.123456Z",
                "c": "2024-01-02T03:04:05.123456789",
                "d": "2024-01-02T03:04:05.123000",
                "e": "2024-01-02T03:04:05.000000",
            }
        ],
    ),
    "decimal": _duckdb("decimal", [{"a": "1.25", "b": "12345678901.25", "c": "12345678901234567890.25"}]),
    "list": _duckdb("list", [{"a": "[1,null,3]", "b": '{"x":1,"y":"z"}', "c": '{"k":1.5}', "d": "[[1],[2,3]]"}]),
    "blob": _duckdb("blob", [{"v": "qrs="}]),
    "zstd_v2": _duckdb("zstd_v2", [{"v": str(n), "t": f"text{n % 3}"} for n in range(5000)]),
    "brotli": _duckdb("brotli", "hadoop.io.compress.BrotliCodec"),
    "lz4": _duckdb("lz4", [{"v": "1"}]),
    "empty": _duckdb("empty", []),
    "array": _duckdb("array", [{"v": "[1,2,3]"}]),
    "union": _duckdb("union", [{"v": '{"element1":0,"n":1}'}]),
    "nested_ns": _duckdb(
        "nested_ns", [{"v": '{"at":"2024-01-02T03:04:05.123456789"}', "w": '["1969-12-31T23:59:59.999999999"]'}]
    ),
    "null": _duckdb("null", [{"v": None}]),
    "date": _duckdb("date", [{"a": "-0043-03-15", "b": "9999-12-31", "c": "+5881580-07-11"}]),
    "float": _duckdb("float", [{"a": "NaN", "b": "Infinity", "c": "-0.0"}]),
    "encrypted": _duckdb("encrypted", "encrypted metadata"),
}


SPARK_NAMES = (
    "int96, Spark's default",
    "the format of Hive",
    "the calendar of before 1582",
    "the calendar of before 1582, int96",
    "intervals, variants, bytes",
)


def by_spark(spark: Any, home: Path) -> dict[str, Kind]:
    """Files that Spark writes: its own defaults, and what older versions wrote."""

    def writer_of(sql: str, **conf: str) -> Callable[[Path], object]:
        def write(path: Path) -> None:
            before = {key: spark.conf.get(key, None) for key in conf}
            try:
                for key, value in conf.items():
                    spark.conf.set(key, value)
                spark.sql(sql).coalesce(1).write.parquet(f"{home}/{path.name}.spark")
            finally:
                for key, value in before.items():
                    spark.conf.unset(key) if value is None else spark.conf.set(key, value)
            [part] = Path(f"{home}/{path.name}.spark").glob("part-*.parquet")
            path.write_bytes(part.read_bytes())

        return write

    parquet_ = "spark.sql.parquet."
    at = "timestamp '2024-03-01 12:00:00.123456'"
    return {
        "int96, Spark's default": Kind(
            writer_of(
                f"select {at} v, named_struct('at', {at}, 'n', 1) s, array({at}, null) l, map('k', {at}) m, 1.25BD d",
                **{f"{parquet_}outputTimestampType": "INT96"},
            ),
            [
                {
                    "v": f"{AT}Z",
                    "s": f'{{"at":"{AT}Z","n":1}}',
                    "l": f'["{AT}Z",null]',
                    "m": f'{{"k":"{AT}Z"}}',
                    "d": "1.25",
                }
            ],
        ),
        "the format of Hive": Kind(
            writer_of(
                "select 1.25BD d, 12345678901234567890.5BD e, array(1, null) l, array(named_struct('a', 1)) s,"
                " map('k', array('x')) m",
                **{f"{parquet_}writeLegacyFormat": "true"},
            ),
            [{"d": "1.25", "e": "12345678901234567890.5", "l": "[1,null]", "s": '[{"a":1}]', "m": '{"k":["x"]}'}],
        ),
        "the calendar of before 1582": Kind(
            writer_of(
                "select date '1500-02-10' d, timestamp '1500-02-10 01:00:00' t, timestamp '1500-02-10 02:00:00' u",
                **{f"{parquet_}datetimeRebaseModeInWrite": "LEGACY", f"{parquet_}int96RebaseModeInWrite": "LEGACY"},
            ),
            [{"d": "1500-02-10", "t": "1500-02-10T01:00:00.000000Z", "u": "1500-02-10T02:00:00.000000Z"}],
        ),
        "the calendar of before 1582, int96": Kind(
            writer_of(
                "select timestamp '1500-02-10 01:00:00' t",
                **{f"{parquet_}int96RebaseModeInWrite": "LEGACY", f"{parquet_}outputTimestampType": "INT96"},
            ),
            [{"t": "1500-02-10T01:00:00.000000Z"}],
        ),
        "intervals, variants, bytes": Kind(
            writer_of(
                "select interval '1-2' year to month y, parse_json('{\"a\": [1, null]}') v, cast('x' as binary) b,"
                " timestamp_ntz '2024-03-01 12:00:00' n",
            ),
            [{"y": "INTERVAL '1-2' YEAR TO MONTH", "v": '{"a":[1,null]}', "b": "eA==", "n": "2024-03-01T12:00:00.000000"}],
        ),
    }


BY_JAVA = {
    "a decimal of bytes of any length": ("required binary v (DECIMAL(9,2));", [{"v": "1.25"}]),
    "an enum": ("required binary v (ENUM);", [{"v": "}"}]),
    "bson": ("required binary v (BSON);", [{"v": "fQ=="}]),
    "bytes with no annotation": ("required binary v;", [{"v": "fQ=="}]),
    "a list of before lists": ("repeated binary v (UTF8);", [{"v": '["}"]'}]),
    "a list of two levels": ("optional group v (LIST) { repeated binary array (UTF8); }", [{"v": '["}"]'}]),
}


def by_java(spark: Any, home: Path) -> dict[str, Kind]:
    """Files of shapes that neither writes, by parquet-java: one value, the byte 7D (125)."""
    jvm = spark._jvm
    files = {}
    for number, (name, (column, expected)) in enumerate(BY_JAVA.items()):
        schema = jvm.org.apache.parquet.schema.MessageTypeParser.parseMessageType(f"message m {{ {column} }}")
        file = home / f"java-{number}.parquet"
        hadoop_path = jvm.org.apache.hadoop.fs.Path(file.as_uri())
        writer = jvm.org.apache.parquet.hadoop.example.ExampleParquetWriter.builder(hadoop_path).withType(schema).build()
        row = jvm.org.apache.parquet.example.data.simple.SimpleGroup(schema)
        value = jvm.org.apache.parquet.io.api.Binary.fromConstantByteArray(bytes([125]))
        (row.addGroup("v") if "group" in column else row).add("array" if "group" in column else "v", value)
        writer.write(row)
        writer.close()
        files[name] = Kind(lambda path, file=file: path.write_bytes(file.read_bytes()), expected)
    return files
