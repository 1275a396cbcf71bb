"""Files that cannot be read: each is one corrupt row that names it, and never half of its rows.

Belongs here: reading and probing hostile files with real Spark. Does not: single bad lines (test_csv, test_json).
"""

import gzip
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_assets.sources import SCAN_ERRORS
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets_tests.sources.source_files import csv_source, day, json_source, land, rows

BODY = b"".join(os.urandom(8).hex().encode() + b",2\n" for _ in range(20_000))
TRUNCATED = gzip.compress(b"a,b\n" + BODY)[:150_000]


@pytest.mark.parametrize("multiline", [False, True])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a,b,a\n1,2,3\n", "two columns are called 'a'"),
        (b"Temp,temp\n1,2\n", "columns 'Temp' and 'temp' differ only in case"),
        (b"a,,c\n1,2,3\n", "column 2 has no name"),
        (b"a,b,\n1,2,3\n", "column 3 has no name"),
        (b"a,b\0\n1,2\n", "the name of column 2 has a NUL"),
        ("a,b\n1,2\n".encode("utf-16"), "NUL"),
        ("a,b\n1,2\n".encode("utf-16-le"), "NUL"),
        ("é,b\n1,2\n".encode("latin-1"), "another encoding"),
        (b"\n\na,b\n1,2\n", "its first line is blank"),
        (b'"a,b\n1,2\n', "its header is not CSV"),
        (",".join(f"c{n}" for n in range(5_001)).encode(), "more than 5,000 columns"),
        (b"x" * (4 * 1024 * 1024 + 1), "its first line is longer"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "the name of column 1"),
    ],
)
def test_headers_of_no_use(spark: SparkSession, tmp_path: Path, content: bytes, reason: str, multiline: bool) -> None:
    land(tmp_path, "t/2024-03-01.csv", content)
    land(tmp_path, "t/2024-03-02.csv", "a,b\n1,2\n")
    extraction = FilesReader(csv_source(multiline=multiline), str(tmp_path)).read(spark, [day(1), day(2)])
    (text, columns, a), good = rows(extraction, "_corrupt_record", "_columns", "a")
    assert text.startswith("unreadable file t/2024-03-01.csv: ")
    assert reason in text
    assert (columns, a, good) == ([], None, (None, ["a", "b"], "1"))
    assert extraction.problems == {day(1): [text]}
    assert extraction.columns == {day(1): (), day(2): ("a", "b")}


def test_only_unreadable_files(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "t/2024-03-01.csv", "a,a\n1,2\n")
    extraction = FilesReader(csv_source(), str(tmp_path)).read(spark, [day(1)])
    assert extraction.frame.columns == ["p_extracted_at", "_source_file", "_columns", "_corrupt_record"]
    assert extraction.frame.count() == 1


def test_a_link_that_leads_out(spark: SparkSession, tmp_path: Path) -> None:
    secret = land(tmp_path, "secret.csv", "a\nSECRET\n")
    land(tmp_path, "landing/t/2024-03-01.csv", "a\n1\n")
    (tmp_path / "landing/t/2024-03-02.csv").symlink_to(secret)
    extraction = FilesReader(csv_source(), str(tmp_path / "landing")).read(spark, [day(1), day(2)])
    assert rows(extraction, "_corrupt_record", "a") == [
        (None, "1"),
        ("unreadable file t/2024-03-02.csv: it is a link that leads out of the landing folder", None),
    ]


def gz(path: Path, number: int, content: bytes) -> None:
    land(path, f"t/2024-03-{number:02d}.csv.gz", content)


@pytest.mark.parametrize("multiline", [False, True])
def test_the_probe_finds_a_truncated_gzip(spark: SparkSession, tmp_path: Path, multiline: bool) -> None:
    for number in range(1, 6):
        gz(tmp_path, number, gzip.compress(b"a,b\n1,2\n"))
    gz(tmp_path, 2, TRUNCATED)
    gz(tmp_path, 4, TRUNCATED)
    source = csv_source(path="t/{window:%Y-%m-%d}.csv.gz", multiline=multiline)
    windows = [day(number) for number in range(1, 6)]
    reader = FilesReader(source, str(tmp_path))
    unreadable: dict[str, str] = {}
    if not multiline:  # there the look at quotes has found them already
        with pytest.raises(SCAN_ERRORS):
            reader.read(spark, windows).frame.write.format("delta").save(str(tmp_path / "delta"))
        unreadable = reader.probe(spark, windows)
        assert sorted(unreadable) == ["t/2024-03-02.csv.gz", "t/2024-03-04.csv.gz"]
    extraction = reader.read(spark, windows, unreadable=unreadable)
    assert [(text, a) for text, a in rows(extraction, "_corrupt_record", "a")] == [
        (None, "1"),
        ("unreadable file t/2024-03-02.csv.gz: Unexpected end of input stream", None),
        (None, "1"),
        ("unreadable file t/2024-03-04.csv.gz: Unexpected end of input stream", None),
        (None, "1"),
    ]
    assert set(extraction.problems) == {day(2), day(4)}


def test_a_gzip_that_is_none(spark: SparkSession, tmp_path: Path) -> None:
    gz(tmp_path, 1, b"a,b\n1,2\n")
    gz(tmp_path, 2, TRUNCATED[:20])
    extraction = FilesReader(csv_source(path="t/{window:%Y-%m-%d}.csv.gz"), str(tmp_path)).read(spark, [day(1), day(2)])
    assert rows(extraction, "_corrupt_record") == [
        ("unreadable file t/2024-03-01.csv.gz: zlib inflate failed: incorrect header check",),
        ("unreadable file t/2024-03-02.csv.gz: Truncated compressed stream",),
    ]


def test_a_good_range_has_nothing_to_find(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "t/2024-03-01.csv", "a,b\n1\né,1\n")
    assert FilesReader(csv_source(), str(tmp_path)).probe(spark, [day(1), day(2)]) == {}


def test_a_file_replaced_between_reading_its_header_and_the_scan_fails_loudly(spark: SparkSession, tmp_path: Path) -> None:
    file = land(tmp_path, "t/2024-03-01.csv", "a,b\n1,2\n")
    reader = FilesReader(csv_source(), str(tmp_path))
    extraction = reader.read(spark, [day(1)])
    file.write_text("b,a\n2,1\n")
    with pytest.raises(SCAN_ERRORS):
        extraction.frame.collect()
    assert reader.probe(spark, [day(1)]) == {}
    assert rows(reader.read(spark, [day(1)]), "a", "b") == [("1", "2")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('a,b\n0,0\n1,"open\n2,3\n4,5\n', "a quote is opened and never closed"),
        ('a,b\n0,0\n1,"open\n2,3\n4,"x"\n5,6"\n', None),
        ("a,b\n1,2\n" + "," * 30_000 + "\n", None),
    ],
)
def test_multiline_never_swallows_rows(spark: SparkSession, tmp_path: Path, content: str, reason: str | None) -> None:
    land(tmp_path, "t/2024-03-01.csv", content)
    land(tmp_path, "t/2024-03-02.csv", "a,b\n7,8\n")
    reader = FilesReader(csv_source(multiline=True), str(tmp_path))
    windows = [day(1), day(2)]
    unreadable = reader.probe(spark, windows)
    assert sorted(unreadable) == ([] if reason else ["t/2024-03-01.csv"])
    extraction = reader.read(spark, windows, unreadable=unreadable)
    (text, a), good = rows(extraction, "_corrupt_record", "a")
    assert text.startswith(f"unreadable file t/2024-03-01.csv: {reason or ''}")
    assert (a, good) == (None, (None, "7"))


def test_json_that_is_no_gzip_to_the_end(spark: SparkSession, tmp_path: Path) -> None:
    lines = b"".join(b'{"a": "%s"}\n' % os.urandom(8).hex().encode() for _ in range(20_000))
    land(tmp_path, "t/2024-03-01.json.gz", gzip.compress(lines)[:150_000])
    land(tmp_path, "t/2024-03-02.json.gz", gzip.compress(b'{"a": 1}\n'))
    source = json_source(path="t/{window:%Y-%m-%d}.json.gz")
    extraction = FilesReader(source, str(tmp_path)).read(spark, [day(1), day(2)])
    assert rows(extraction, "_corrupt_record", "a") == [
        ("unreadable file t/2024-03-01.json.gz: Unexpected end of input stream", None),
        (None, "1"),
    ]
