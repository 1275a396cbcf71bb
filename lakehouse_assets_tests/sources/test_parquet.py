"""Reading Parquet with real Spark: typed values as text, files with other schemas, files that cannot be read.

Belongs here: rows and columns of Parquet files, and their fingerprints. Does not: other formats.
"""

import os
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pydantic import ValidationError

from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets_tests.sources.source_files import csv_source, day, rows


def source(**attributes) -> FilesSource:
    return csv_source(**({"path": "t/{window:%Y-%m-%d}*.parquet", "format": "parquet"} | attributes))


def land(folder: Path, name: str, **columns) -> Path:
    """A file of these columns, each an array or a list."""
    (folder / "t").mkdir(exist_ok=True)
    parquet.write_table(pa.table(columns), folder / "t" / name)
    return folder / "t" / name


NOON = datetime(2024, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
VALUES = {
    "text": (pa.array(["é\n"]), "é\n"),
    "empty": (pa.array([""]), ""),
    "nothing": (pa.array([None], pa.string()), None),
    "whole": (pa.array([-(2**63)], pa.int64()), str(-(2**63))),
    "unsigned": (pa.array([2**64 - 1], pa.uint64()), str(2**64 - 1)),
    "double": (pa.array([0.1]), "0.1"),
    "not_a_number": (pa.array([float("nan")]), "NaN"),
    "money": (pa.array([Decimal("12345678901234567890.10")], pa.decimal128(38, 2)), "12345678901234567890.10"),
    "yes": (pa.array([True]), "true"),
    "day": (pa.array([date(1500, 1, 2)]), "1500-01-02"),
    "utc": (pa.array([NOON], pa.timestamp("us", "UTC")), "2024-03-01T12:00:00.123456Z"),
    "zoned": (pa.array([NOON], pa.timestamp("us", "America/New_York")), "2024-03-01T12:00:00.123456Z"),
    "local": (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us")), "2024-03-01T12:00:00.123456"),
    "nanos": (pa.array([-1], pa.timestamp("ns", "UTC")), "1969-12-31T23:59:59.999999999Z"),
    "local_nanos": (pa.array([1_000_000_007], pa.timestamp("ns")), "1970-01-01T00:00:01.000000007"),
    "bytes": (pa.array([b"\xff\x00" * 40]), b64encode(b"\xff\x00" * 40).decode()),
    "list": (pa.array([[1, None, 3]]), "[1,null,3]"),
    "struct": (pa.array([{"a": None, "at": NOON}]), '{"a":null,"at":"2024-03-01T12:00:00.123456Z"}'),
    "map": (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), '{"k":1}'),
    "wind speed": (pa.array(["a"]), "a"),
    "a.b`c": (pa.array(["b"]), "b"),
    "_id": (pa.array([1], pa.int8()), "1"),
}


def test_values(spark, tmp_path) -> None:
    land(tmp_path, "2024-03-01.parquet", **{name: values for name, (values, _) in VALUES.items()})
    extraction = FilesReader(source(), str(tmp_path)).read(spark, [day(1)])
    names = extraction.columns[day(1)]
    assert names == tuple({"wind speed": "wind_x20_speed", "_id": "x5f_id"}.get(name, name) for name in VALUES)
    assert dict(zip(VALUES, rows(extraction, *names)[0], strict=True)) == {name: text for name, (_, text) in VALUES.items()}
    [row] = extraction.frame.collect()
    assert (row["p_extracted_at"].day, row["_source_file"], row["_corrupt_record"]) == (1, "t/2024-03-01.parquet", None)


def test_files_of_one_window_with_other_schemas(spark, tmp_path) -> None:
    land(tmp_path, "2024-03-01-a.parquet", id=pa.array([1]), v=pa.array([1.5]))
    land(tmp_path, "2024-03-01-b.parquet", v=pa.array(["x"]), ID=pa.array([2]), more=pa.array([[1]]))
    land(tmp_path, "2024-03-02.parquet", id=pa.array([], pa.int64()))
    reader = FilesReader(source(), str(tmp_path), ["id"])
    extraction = reader.read(spark, [day(1), day(2)])
    assert rows(extraction, "id", "v", "more", "_columns") == [
        ("1", "1.5", None, ["id", "v"]),
        ("2", "x", "[1]", ["v", "id", "more"]),
    ]
    assert extraction.columns == {day(1): ("id", "v", "more"), day(2): ("id",)}
    assert extraction.lacking == {day(1): ("more",), day(2): ()}
    assert reader.columns(day(1)) == ("id", "v", "ID", "more")


def test_files_that_cannot_be_read_are_a_row_each(spark, tmp_path) -> None:
    land(tmp_path, "2024-03-01-good.parquet", id=[1])
    content = land(tmp_path, "2024-03-01-torn.parquet", id=list(range(1000))).read_bytes()
    (tmp_path / "t" / "2024-03-01-torn.parquet").write_bytes(content[:-20])
    (tmp_path / "t" / "2024-03-02-text.parquet").write_text("id\n1\n")
    (tmp_path / "t" / "2024-03-02-empty.parquet").touch()
    land(tmp_path, "2024-03-03.parquet", at=pa.array([1], pa.time64("us")))
    land(tmp_path, "2024-03-04.parquet", **{"a": [1], "A": [1]})
    extraction = FilesReader(source(), str(tmp_path)).read(spark, [day(n) for n in (1, 2, 3, 4)])
    values = rows(extraction, "_corrupt_record", "id", "_columns")
    assert values[0] == (None, "1", ["id"])
    expected = ["2024-03-01-torn", "2024-03-02-empty", "2024-03-02-text", "2024-03-03", "2024-03-04"]
    assert [text.partition(":")[0] for text, *_ in values[1:]] == [f"unreadable file t/{name}.parquet" for name in expected]
    assert all(row[1:] == (None, []) for row in values[1:])
    assert "time64[us], which Spark does not read" in values[4][0]
    assert {window.start.day: len(texts) for window, texts in extraction.problems.items()} == {1: 1, 2: 2, 3: 1, 4: 1}


TWINS = pa.array([{"a": 1, "A": 2}], pa.struct([("a", pa.int64()), ("A", pa.int64())]))
LONG = pa.array([None], pa.decimal256(50, 2))


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (TWINS, "within column 'v': columns 'a' and 'A' differ only in case"),
        (LONG, "which Spark does not read"),
    ],
)
def test_types_within_that_spark_does_not_read_are_the_files_own_mistake(spark, tmp_path, cells, message) -> None:
    land(tmp_path, "2024-03-01.parquet", id=[1])
    land(tmp_path, "2024-03-02.parquet", id=[1], v=cells)
    extraction = FilesReader(source(), str(tmp_path)).read(spark, [day(1), day(2)])
    good, bad = (text for (text,) in rows(extraction, "_corrupt_record"))
    assert good is None
    assert message in bad


def test_the_scan_finds_a_damaged_page(spark, tmp_path) -> None:
    land(tmp_path, "2024-03-01.parquet", id=[1])
    broken = land(tmp_path, "2024-03-02.parquet", id=[f"text {n}" for n in range(1000)])
    content = bytearray(broken.read_bytes())
    content[4:200] = b"\0" * 196
    broken.write_bytes(content)
    reader = FilesReader(source(), str(tmp_path))
    unreadable = reader.probe(spark, [day(1), day(2)])
    assert list(unreadable) == ["t/2024-03-02.parquet"]
    extraction = reader.read(spark, [day(1), day(2)], unreadable)
    assert [(text or "")[:15] for (text,) in rows(extraction, "_corrupt_record")] == ["", "unreadable file"]


@pytest.mark.parametrize("option", [{"delimiter": ";"}, {"multiline": True}, {"encoding": "utf-8"}])
def test_text_file_options_are_refused_for_parquet(option) -> None:
    with pytest.raises(ValidationError, match="apply to text files only"):
        source(**option)


def test_appended_replaced_and_late_files_are_other_fingerprints(tmp_path) -> None:
    reader = FilesReader(source(), str(tmp_path))

    def prints() -> dict[int, str]:
        return {window.start.day: text for window, text in reader.fingerprints([day(n) for n in (1, 2, 3)]).items()}

    first_file = land(tmp_path, "2024-03-01-a.parquet", id=[1])
    land(tmp_path, "2024-03-03-a.parquet", id=[3])
    first = prints()
    land(tmp_path, "2024-03-01-b.parquet", id=[2])
    appended = prints()
    written = first_file.stat()
    land(tmp_path, "2024-03-01-a.parquet", id=[9])
    assert first_file.stat().st_size == written.st_size, "of the same size: only the time tells"
    os.utime(first_file, ns=(written.st_atime_ns, written.st_mtime_ns + 1))
    replaced = prints()
    land(tmp_path, "2024-03-02-a.parquet", id=[5])
    late = prints()
    assert [sorted(fingerprints) for fingerprints in (first, appended, replaced, late)] == [[1, 3], [1, 3], [1, 3], [1, 2, 3]]
    assert len({first[1], appended[1], replaced[1]}) == 3
    assert late[1] == replaced[1] and late[3] == first[3]
