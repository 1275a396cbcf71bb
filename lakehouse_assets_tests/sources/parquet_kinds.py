"""Parquet files of many kinds: how pyarrow writes each, and what bronze must have of it.

Belongs here: pyarrow's. Does not: those of other writers (other_parquet_kinds), reading them.
"""

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

UTC = dt.UTC
NOON = dt.datetime(2024, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
LOCAL = NOON.replace(tzinfo=None)


@dataclass(frozen=True)
class Kind:
    """``write``: makes the file. ``expected``: each row's texts by column, or what the one corrupt row says."""

    write: Callable[[Path], object]
    expected: list[dict[str, str | None]] | str


def _table(expected: list[dict[str, str | None]] | str, columns: dict[str, Any], **options: Any) -> Kind:
    return Kind(lambda path: parquet.write_table(pa.table(columns), path, **options), expected)


def _bytes(expected: str, content: bytes) -> Kind:
    return Kind(lambda path: path.write_bytes(content), expected)


def _changed(expected: str, change: Callable[[bytes], bytes]) -> Kind:
    def write(path: Path) -> None:
        parquet.write_table(pa.table({"v": [f"text {n}" for n in range(2000)]}), path, compression="none", use_dictionary=False)
        path.write_bytes(change(path.read_bytes()))

    return Kind(write, expected)


NS = pa.timestamp("ns")
INT96 = {"use_deprecated_int96_timestamps": True}
MOMENTS = pa.array([NOON, dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), None], pa.timestamp("us", "UTC"))
MOMENT_TEXTS: list[dict[str, str | None]] = [
    {"v": "2024-03-01T12:00:00.123456Z"},
    {"v": "1969-12-31T23:59:59.999999Z"},
    {"v": None},
]
AT = "2024-03-01T12:00:00.123456"
NANOS = [1_000_000_007, -1, None]
NANO_TEXTS = ["1970-01-01T00:00:01.000000007", "1969-12-31T23:59:59.999999999", None]
CODECS = ("snappy", "gzip", "zstd", "lz4", "brotli", "none")
STRUCTS = pa.array(
    [{"a": {"b": [{"c": [("k", [1, None])]}]}}, None],
    pa.struct([("a", pa.struct([("b", pa.list_(pa.struct([("c", pa.map_(pa.string(), pa.list_(pa.int16())))])))]))]),
)
BY_PYARROW: dict[str, Kind] = {
    "int96": _table(MOMENT_TEXTS, {"v": MOMENTS}, **INT96),
    "int96 of long ago": _table(
        [{"v": "1700-01-01T00:00:00.000000Z"}],
        {"v": pa.array([LOCAL.replace(1700, 1, 1, 0, microsecond=0)], pa.timestamp("us"))},
        **INT96,
    ),
    "int96 within": _table(
        [{"s": f'{{"at":"{AT}Z","n":1}}', "l": f'["{AT}Z",null]', "m": f'{{"k":"{AT}Z"}}'}],
        {
            "s": pa.array([{"at": LOCAL, "n": 1}], pa.struct([("at", NS), ("n", pa.int32())])),
            "l": pa.array([[LOCAL, None]], pa.list_(NS)),
            "m": pa.array([[("k", LOCAL)]], pa.map_(pa.string(), NS)),
        },
        **INT96,
    ),
    "int96 without pyarrow's schema": _table(MOMENT_TEXTS, {"v": MOMENTS}, store_schema=False, **INT96),
    "nanoseconds": _table(
        [{"u": f"{text}Z" if text else None, "l": text} for text in NANO_TEXTS],
        {"u": pa.array(NANOS, pa.timestamp("ns", "UTC")), "l": pa.array(NANOS, NS)},
    ),
    "nanoseconds within": _table(
        [
            {
                "s": '{"n":{"at":"1970-01-01T00:00:01.000000007Z"},"x":1}',
                "l": '[["1969-12-31T23:59:59.999999999",null],null]',
                "m": '{"k":"1970-01-01T00:00:00.000000000"}',
            },
            {"s": None, "l": None, "m": None},
            {"s": '{"n":null,"x":null}', "l": "[]", "m": "{}"},
        ],
        {
            "s": pa.array(
                [{"n": {"at": 1_000_000_007}, "x": 1}, None, {"n": None, "x": None}],
                pa.struct([("n", pa.struct([("at", pa.timestamp("ns", "UTC"))])), ("x", pa.int8())]),
            ),
            "l": pa.array([[[-1, None], None], None, []], pa.list_(pa.list_(NS))),
            "m": pa.array([[("k", 0)], None, []], pa.map_(pa.string(), NS)),
        },
    ),
    "times of other units": _table(
        [{"s": "2024-03-01T12:00:00.000000Z", "m": "2024-03-01T12:00:00.123000"}],
        {
            "s": pa.array([NOON.replace(microsecond=0)], pa.timestamp("s", "UTC")),
            "m": pa.array([LOCAL.replace(microsecond=123000)], pa.timestamp("ms")),
        },
    ),
    "times at the ends": _table(
        [{"v": "0001-01-01T00:00:00.000000Z"}, {"v": "9999-12-31T23:59:59.999999Z"}],
        {
            "v": pa.array(
                [dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)],
                pa.timestamp("us", "UTC"),
            )
        },
    ),
    "dates before 1582": _table(
        [{"v": "1500-02-10", "t": "1500-02-10T01:00:00.000000"}],
        {"v": [dt.date(1500, 2, 10)], "t": [LOCAL.replace(1500, 2, 10, 1, microsecond=0)]},
    ),
    "date64": _table([{"v": "2024-03-01"}], {"v": pa.array([dt.date(2024, 3, 1)], pa.date64())}),
    "decimals as integers": _table(
        [{"a": "-1.25", "b": "12345678901.25", "c": "0.00"}, {"a": None, "b": None, "c": "12345678901234567890.25"}],
        {
            "a": pa.array([Decimal("-1.25"), None], pa.decimal128(4, 2)),
            "b": pa.array([Decimal("12345678901.25"), None], pa.decimal128(18, 2)),
            "c": pa.array([Decimal("0.00"), Decimal("12345678901234567890.25")], pa.decimal128(30, 2)),
        },
        store_decimal_as_integer=True,
    ),
    "decimals as bytes": _table(
        [{"a": "-1.25", "b": "99999999999999999999999999999999999999"}],
        {"a": pa.array([Decimal("-1.25")], pa.decimal128(4, 2)), "b": pa.array([Decimal(10**38 - 1)], pa.decimal128(38, 0))},
    ),
    "decimal32 and decimal64": _table(
        [{"a": "1.5", "b": "-2.25"}],
        {"a": pa.array([Decimal("1.5")], pa.decimal32(5, 1)), "b": pa.array([Decimal("-2.25")], pa.decimal64(12, 2))},
    ),
    "decimals with more digits than Spark has": _table(
        "which Spark does not read", {"v": pa.array([Decimal(1)], pa.decimal256(50, 2))}
    ),
    "dictionaries": _table(
        [{"s": "a", "n": "7"}, {"s": None, "n": "7"}, {"s": "b", "n": None}],
        {"s": pa.array(["a", None, "b"]).dictionary_encode(), "n": pa.array([7, 7, None]).dictionary_encode()},
    ),
    "unsigned": _table(
        [{"a": "255", "b": "65535", "c": "4294967295", "d": "18446744073709551615"}],
        {
            n: pa.array([2**b - 1], k)
            for n, b, k in (("a", 8, pa.uint8()), ("b", 16, pa.uint16()), ("c", 32, pa.uint32()), ("d", 64, pa.uint64()))
        },
    ),
    "small and large integers, booleans": _table(
        [{"a": "-128", "b": "-32768", "c": "-2147483648", "d": "-9223372036854775808", "e": "false"}],
        {
            "a": pa.array([-128], pa.int8()),
            "b": pa.array([-(2**15)], pa.int16()),
            "c": pa.array([-(2**31)], pa.int32()),
            "d": [-(2**63)],
            "e": [False],
        },
    ),
    "floats": _table(
        [{"a": "0.5", "b": "-0.0"}, {"a": "NaN", "b": "Infinity"}],
        {"a": pa.array([0.5, float("nan")], pa.float32()), "b": [-0.0, float("inf")]},
    ),
    "float16": _table("float, which Spark does not read", {"v": pa.array([1.5], pa.float16())}),
    "time32": _table("time32[ms], which Spark does not read", {"v": pa.array([1], pa.time32("ms"))}),
    "time64": _table("time64[ns], which Spark does not read", {"v": pa.array([1], pa.time64("ns"))}),
    "durations": _table([{"v": "90000000"}], {"v": pa.array([dt.timedelta(seconds=90)], pa.duration("us"))}),
    "uuid": _table(
        "column 'v' has the type uuid, which Spark does not read",
        {"v": pa.array([uuid.UUID("01234567-89ab-cdef-0123-456789abcdef").bytes], pa.uuid())},
    ),
    "json": _table([{"v": '{"a":1}'}], {"v": pa.array(['{"a":1}'], pa.json_())}),
    "nothing but NULL": _table([{"v": None, "i": "1"}], {"v": pa.array([None], pa.null()), "i": [1]}),
    "large text and bytes": _table(
        [{"a": "é", "b": "/w==", "c": "AAE="}],
        {
            "a": pa.array(["é"], pa.large_string()),
            "b": pa.array([b"\xff"], pa.large_binary()),
            "c": pa.array([b"\0\1"], pa.binary(2)),
        },
    ),
    "views": _table(
        [{"a": "x", "b": "/w=="}], {"a": pa.array(["x"], pa.string_view()), "b": pa.array([b"\xff"], pa.binary_view())}
    ),
    "lists of all kinds": _table(
        [{"a": "[1]", "b": "[1,2]", "c": "[[],null]"}],
        {
            "a": pa.array([[1]], pa.large_list(pa.int8())),
            "b": pa.array([[1, 2]], pa.list_(pa.int8(), 2)),
            "c": pa.array([[[], None]], pa.list_(pa.list_(pa.int8()))),
        },
    ),
    "deep": _table([{"v": '{"a":{"b":[{"c":{"k":[1,null]}}]}}'}, {"v": None}], {"v": STRUCTS}),
    "maps of numbers": _table(
        [{"v": '{"1":"a","2":null}'}], {"v": pa.array([[(1, "a"), (2, None)]], pa.map_(pa.int32(), pa.string()))}
    ),
    "data pages of version 2": _table(
        [{"v": str(n), "t": f"x{n % 2}"} for n in range(5)],
        {"v": [*range(5)], "t": [f"x{n % 2}" for n in range(5)]},
        data_page_version="2.0",
        compression="zstd",
    ),
    "differences": _table(
        [{"i": "1", "s": "prefix a", "t": "a"}, {"i": "2", "s": "prefix b", "t": "b"}],
        {"i": [1, 2], "s": ["prefix a", "prefix b"], "t": ["a", "b"]},
        use_dictionary=False,
        column_encoding={"i": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY", "t": "DELTA_LENGTH_BYTE_ARRAY"},
    ),
    "streams of split bytes": _table(
        "Unsupported encoding: BYTE_STREAM_SPLIT",
        {"v": [0.25]},
        use_dictionary=False,
        column_encoding={"v": "BYTE_STREAM_SPLIT"},
    ),
    "many row groups": _table(
        [{"v": str(n)} for n in range(20)],
        {"v": [*range(20)]},
        row_group_size=2,
        write_page_index=True,
        write_page_checksum=True,
    ),
    "no row groups": Kind(lambda path: parquet.ParquetWriter(path, pa.schema([("v", pa.int64())])).close(), []),
    "no columns": Kind(lambda path: parquet.write_table(pa.table({"v": [1, 2]}).select([]), path), "it has no columns"),
    "strange names": _table([{"a.b`c": "1", "é": "2"}], {"a.b`c": [1], "é": [2]}),
    "very wide": _table([{f"c{n}": str(n) for n in range(60)}], {f"c{n}": [n] for n in range(60)}),
    "required": Kind(
        lambda path: parquet.write_table(
            pa.table(
                {"v": [1], "s": [{"a": 1}]},
                pa.schema(
                    [pa.field("v", pa.int64(), False), pa.field("s", pa.struct([pa.field("a", pa.int8(), False)]), False)]
                ),
            ),
            path,
        ),
        [{"v": "1", "s": '{"a":1}'}],
    ),
    "two columns of one name": Kind(
        lambda path: parquet.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["v", "v"]), path),
        "two columns are called 'v'",
    ),
    "names that differ in case": _table("columns 'v' and 'V' differ only in case", {"v": [1], "V": [2]}),
    "CSV": _bytes("Parquet magic bytes not found", b"v,w\n1,2\n" * 10),
    "0 bytes": _bytes("Parquet file size is 0 bytes", b""),
    "magic alone": _bytes("", b"PAR1PAR1"),
    "truncated": _changed("", lambda content: content[:-20]),
    "a footer that is none": _changed("", lambda content: content[:-40] + b"\xff" * 32 + content[-8:]),
    "a footer of no length": _changed("", lambda content: content[:-8] + b"\xff\xff\xff\x7fPAR1"),
    "a broken page": _changed("", lambda content: content[:4] + b"\0" * 200 + content[204:]),
    "broken values": _changed("", lambda content: content[:200] + b"\xff" * 2000 + content[2200:]),
    **{
        f"codec {codec}": _table(
            "hadoop.io.compress.BrotliCodec" if codec == "brotli" else [{"v": "a" * 50}], {"v": ["a" * 50]}, compression=codec
        )
        for codec in CODECS
    },
}
