"""Reading CSV with real Spark: what becomes of each line, and of files whose headers differ.

Belongs here: rows and columns. Does not: files that cannot be read (test_unreadable), JSON.
"""

import gzip
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.windows import calendar
from lakehouse_assets.sources import csv_files, file_scans
from lakehouse_assets.sources.base import Extraction
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.storage.session_properties import disable_ansi
from lakehouse_assets_tests.sources.source_files import csv_source, day, land, rows


@pytest.fixture
def read(spark: SparkSession, tmp_path: Path):
    def read(*contents: bytes | str, declared=(), name: str = "", **settings) -> Extraction:
        """A file per day, from the first of March on."""
        for number, content in enumerate(contents, 1):
            land(tmp_path, f"t/2024-03-{number:02d}{name}.csv", content)
        if name:
            settings["path"] = "t/{window:%Y-%m-%d}*.csv"
        windows = [day(number) for number in range(1, len(contents) + 1)]
        return FilesReader(csv_source(**settings), str(tmp_path), declared).read(spark, windows)

    return read


def test_the_contract(read) -> None:
    extraction = read("origin,temp\nEWR,39.02\nJFK,NA\n", nulls=("NA",))
    assert dict(extraction.frame.dtypes) == {
        "p_extracted_at": "timestamp",
        "_source_file": "string",
        "_columns": "array<string>",
        "_corrupt_record": "string",
        "origin": "string",
        "temp": "string",
    }
    midnight, columns = day(1).start.replace(tzinfo=None), ["origin", "temp"]
    assert sorted(tuple(row) for row in extraction.frame.collect()) == [
        (midnight, "t/2024-03-01.csv", columns, None, "EWR", "39.02"),
        (midnight, "t/2024-03-01.csv", columns, None, "JFK", "NA"),
    ]
    assert (extraction.problems, extraction.columns) == ({}, {day(1): ("origin", "temp")})


def test_columns_are_bound_by_name(read) -> None:
    extraction = read("a,b\n1,2\n", "b,a\n4,3\n", "a,c\n5,6\n")
    assert rows(extraction, "a", "b", "c", "_columns") == [
        ("1", "2", None, ["a", "b"]),
        ("3", "4", None, ["b", "a"]),
        ("5", None, "6", ["a", "c"]),
    ]
    assert extraction.columns[day(2)] == ("b", "a")


def test_case_differs_between_files(read) -> None:
    extraction = read("Temp,X\n1,2\n", "temp,x\n3,4\n", declared=["temp"])
    assert rows(extraction, "temp", "X", "_columns") == [("1", "2", ["temp", "X"]), ("3", "4", ["temp", "X"])]


BAD_LINES = ["1", "1,2,3", '1,"open', '8,"a""', '9,"a"",1', "1,2,", "d\ufffdj\ufffd,2", "," * 250_000]


def test_a_bad_line_becomes_a_corrupt_record_alone(read) -> None:
    extraction = read("\n".join(["a,b", "0,0", *BAD_LINES, "9,9"]))
    assert rows(extraction, "_corrupt_record", "a", "b") == sorted(
        [(None, "0", "0"), (None, "9", "9"), *[(line, None, None) for line in BAD_LINES]], key=repr
    )
    assert extraction.problems == {}


def test_wrong_bytes_in_the_body(read) -> None:
    latin = "a,b\ndéjà,2\nx,y\n".encode("iso-8859-1")
    assert rows(read(latin), "_corrupt_record", "a", "b") == [("d\ufffdj\ufffd,2", None, None), (None, "x", "y")]
    assert rows(read(latin, encoding="latin-1"), "_corrupt_record", "a") == [(None, "déjà"), (None, "x")]
    assert rows(read("a,b\né,2\n", encoding="us-ascii"), "_corrupt_record") == [("\ufffd\ufffd,2",)]


@pytest.mark.parametrize("multiline", [False, True])
def test_windows_1252_in_names_and_values_and_bytes_that_it_lacks(read, multiline: bool) -> None:
    text = 'Preis €,“n…”\n5 €,–\n"„x“, y…",ŸŠ\n'.encode("cp1252")
    extraction = read(text + b"\x81,z\n\xe9,\x9f\n", encoding="windows-1252", multiline=multiline)
    assert extraction.problems == {}
    assert rows(extraction, "Preis_x20_€", "“n…”", "_corrupt_record") == sorted(
        [("5 €", "–", None), ("„x“, y…", "ŸŠ", None), (None, None, "\ufffd,z"), ("é", "Ÿ", None)], key=repr
    )


def test_windows_1252_with_a_quote_of_its_own_and_a_header_that_it_lacks(read) -> None:
    keys = {"encoding": "windows-1252", "multiline": True, "quote": "‰", "delimiter": "¦"}
    extraction = read("a¦b\n‰x\n¦‰¦€\n".encode("cp1252"), **keys)
    assert rows(extraction, "a", "b", "_corrupt_record") == [("x\n¦", "€", None)]
    assert "the name of column 1 cannot be decoded: the file has another encoding" in str(
        read(b"a\x81,b\n1,2\n", encoding="windows-1252").problems
    )


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (',"x"', None),
        ('"","x"', ""),
        ('"x""y",x', 'x"y'),
        ('"x,y",x', "x,y"),
        (" x ,x", " x "),
        ("x\\,x", "x\\"),
        ('"x\\",x', "x\\"),
        ('19" monitor,x', '19" monitor'),
        ('"x"y,x', '"x"y'),
        ("#x,x", "#x"),
        ("NULL,x", "NULL"),
        ("x\x00y,x", "x\x00y"),
        ("x\ufdd0,x", "x\ufdd0"),
        ("x\u2028y,x", "x\u2028y"),
    ],
)
def test_values_stay_as_they_came(read, line: str, value: str | None) -> None:
    assert rows(read(f"a,b\n{line}\n"), "a", "b", "_corrupt_record") == [(value, "x", None)]


ALPHABET = ["a", "b", " ", "\t", ",", "|", ";", ".", "\\", '"', "'", "#", "\0", "\x1f", "é", "\U0001f600", "\ufffd", "\u2028"]


@pytest.mark.parametrize("delimiter", [",", "|", "\t", "\\", ".", "a", "é"])
def test_a_line_that_is_split_gives_what_the_parser_gives(read, monkeypatch: pytest.MonkeyPatch, delimiter: str) -> None:
    chance = random.Random(7)
    # Delimiters often, quotes seldom: most lines are split, and many of those have the right number of fields.
    letters = [*ALPHABET, "\ufdd0", "\ufdd1", "\ufdd2", *[delimiter] * 8]
    lines = ["".join(chance.choices(letters, k=chance.randrange(1, 9))) for _ in range(3_000)]
    text = "\n".join([f"x{delimiter}y{delimiter}z", *lines])
    columns = ("_corrupt_record", "x", "y", "z")
    split = rows(read(text, delimiter=delimiter), *columns)
    monkeypatch.setattr(csv_files, "_is_plain", lambda *_: F.lit(False))
    assert split == rows(read(text, delimiter=delimiter), *columns)
    assert len([row for row in split if row[0] is None]) > 300


def test_quoted_lines_are_read_alike_without_ansi(read, spark: SparkSession) -> None:
    with disable_ansi(spark):
        assert rows(read('a,b\n"x,y",1\nz,2\n'), "a", "b", "_corrupt_record") == [("x,y", "1", None), ("z", "2", None)]


def test_line_ends_blank_lines_and_a_repeated_header(read) -> None:
    extraction = read(b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n   \r\na,b\r\n3,4", b"a,b\n5,6\n", b"a,b\r7,8\r")
    assert rows(extraction, "a", "b") == [("1", "2"), ("3", "4"), ("a", "b"), ("5", "6"), ("7", "8")]


def test_no_rows(read) -> None:
    extraction = read("", "a,b\n", "a,b", b"\xef\xbb\xbf")
    assert rows(extraction, "_corrupt_record") == []
    assert extraction.columns == {day(1): (), day(2): ("a", "b"), day(3): ("a", "b"), day(4): ()}


def test_only_the_requested_windows_are_read(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "t/2024-03-01.csv", "a\n1\n")
    land(tmp_path, "t/2024-03-02.csv", "a\n2\n")
    reader = FilesReader(csv_source(), str(tmp_path))
    assert rows(reader.read(spark, [day(2), day(3)]), "p_extracted_at", "a") == [(day(2).start.replace(tzinfo=None), "2")]
    nothing = reader.read(spark, [day(3)])
    assert (nothing.frame.count(), nothing.columns) == (0, {})


HEADERS = [
    "a.b",
    "wind speed (mph)",
    "a`b",
    "x;y",
    "_id",
    "_metadata",
    "p_extracted_at",
    "😀",
    "#a",
    "a\\b",
    "'q'",
    "a (corrupt)",
]


@pytest.mark.parametrize("multiline", [False, True])
def test_headers_that_spark_or_delta_mind(read, tmp_path: Path, multiline: bool) -> None:
    extraction = read(",".join(HEADERS) + ',"say ""hi"""\n' + ",".join(map(str, range(len(HEADERS) + 1))), multiline=multiline)
    names = extraction.columns[day(1)]
    assert rows(extraction, *names, "_corrupt_record") == [(*map(str, range(len(HEADERS) + 1)), None)]
    path = str(tmp_path / "delta")
    extraction.frame.write.format("delta").save(path)
    assert {"wind_x20_speed_x20__x28_mph_x29_", "x5f_id", "x70__extracted_at"} <= set(names)


NAMES = [" x", "#1", "%41", "+", "[1]", "{a,b}", "é", "e\u0301", "\\", "(1)", "=1", "&", "'", "%2B", "\n"]


def test_file_names(read, spark: SparkSession, tmp_path: Path) -> None:
    for name in NAMES:
        land(tmp_path, f"t/2024-03-01{name}.csv", "a\n1\n")
    extraction = FilesReader(csv_source(path="t/{window:%Y-%m-%d}*.csv"), str(tmp_path)).read(spark, [day(1)])
    assert {row[0] for row in rows(extraction, "_source_file")} == {f"t/2024-03-01{name}.csv" for name in NAMES}
    assert extraction.frame.count() == len(NAMES)


@pytest.mark.parametrize(
    "name",
    ["file:/a/b.csv", "file:///a/b%20c.csv", "s3a://bucket/x+y%25.csv", "/a:/b.csv", "///a/b", "file:/a:/b:/c", "b.csv", "abfss://c@d.e/é%C3%A9"],
)  # fmt: skip
def test_a_files_name_in_a_row_is_that_on_the_driver(spark: SparkSession, name: str) -> None:
    frame = spark.range(1).select(F.lit(name).alias("_file"))
    assert frame.select(file_scans.file_key_column(F.col("_file"))).collect()[0][0] == file_scans.file_key(name)


def test_folder_names_never_become_partition_columns(spark: SparkSession, tmp_path: Path) -> None:
    for number in (1, 2):
        land(tmp_path, f"day=2024-03-0{number}/a b/x.csv", f"day,b\n{number},x\n")
    source = csv_source(path="day={window:%Y-%m-%d}/*/x.csv")
    extraction = FilesReader(source, str(tmp_path)).read(spark, [day(1), day(2)])
    assert rows(extraction, "day", "_source_file") == [("1", "day=2024-03-01/a b/x.csv"), ("2", "day=2024-03-02/a b/x.csv")]


def test_gzip_and_another_delimiter(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "t/2024-03-01.csv.gz", gzip.compress(b"a\tb\n'x\ty'\t2\n"))
    source = csv_source(path="t/{window:%Y-%m-%d}.csv.gz", delimiter="\t", quote="'")
    assert rows(FilesReader(source, str(tmp_path)).read(spark, [day(1)]), "a", "b") == [("x\ty", "2")]


def test_multiline(read) -> None:
    extraction = read(b'a,b\r\n"x\r\ny",2\r\n1,2,3\r\n\r\n"",\r\n', multiline=True)
    assert rows(extraction, "a", "b", "_corrupt_record") == [("", None, None), ("x\ny", "2", None), (None, None, "1,2,3")]


def test_a_line_break_in_quotes_without_multiline(read) -> None:
    """The first half is corrupt, which is enough to know it; the second is a line like `19" monitor,2`."""
    assert rows(read('a,b\n"x\ny",2\n3,4\n'), "a", "_corrupt_record") == [("3", None), ('y"', None), (None, '"x')]


def test_a_year_of_files_needs_no_job_to_read_and_few_tasks_to_write(spark: SparkSession, tmp_path: Path) -> None:
    windows = list(calendar(datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC), "daily"))
    for window in windows:
        land(tmp_path, f"t/{window.key}.csv", "a,b\n1,2\n")
    context: Any = spark.sparkContext
    scheduler = context._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    listing = spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold")
    extraction = FilesReader(csv_source(), str(tmp_path)).read(spark, windows)
    assert scheduler.numTotalJobs() == before
    assert extraction.frame.rdd.getNumPartitions() <= 2
    assert extraction.frame.select("p_extracted_at").distinct().count() == 366
    assert spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold") == listing
