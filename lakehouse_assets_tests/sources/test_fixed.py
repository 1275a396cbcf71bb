"""Files of lines of fixed width: fields, padding, encodings, lines of another width, and what the YAML refuses.

Belongs here: `format: fixed`, with real Spark. Does not: what all files share (test_unreadable, test_landing).
"""

import doctest
import gzip
from pathlib import Path

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from lakehouse_assets.contracts import fixed_width
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.testing import verify_source
from lakehouse_assets_tests.sources.source_files import day, land, rows

FIELDS = [{"name": "id", "width": 4}, {"name": "The name", "width": 6}, {"name": "amount", "start": 13, "width": 5}]
GOOD = "0001Zoë 😀 xx 1.50\n   2      ..     \n"


def fixed(**settings) -> FilesSource:
    own = {"kind": "files", "path": "t/{window:%Y-%m-%d}.txt", "format": "fixed", "fields": FIELDS}
    return FilesSource.model_validate(own | settings)


def test_fields_are_cut_and_padding_is_no_value(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "t/2024-03-01.txt", "\ufeff" + GOOD.replace("\n", "\r\n") + "\r\n\r\n")
    land(tmp_path, "t/2024-03-02.txt", GOOD.rstrip("\n"))
    land(tmp_path, "t/2024-03-03.txt", "")
    extraction = FilesReader(fixed(), str(tmp_path)).read(spark, [day(1), day(2), day(3)])
    names = ("id", "The_x20_name", "amount")
    assert extraction.columns == dict.fromkeys((day(1), day(2), day(3)), names)
    expected = [("0001", "Zoë 😀", "1.50"), ("2", None, None)]
    assert rows(extraction, *names) == sorted(expected, key=repr) * 2
    assert not extraction.problems and rows(extraction, "_corrupt_record") == [(None,)] * 4


def test_a_line_of_another_width_is_kept_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "t/2024-03-01.txt", GOOD + "0003too short\n0004too   xx long  \n \n" + " " * 17 + "\n")
    extraction = FilesReader(fixed(), str(tmp_path)).read(spark, [day(1)])
    corrupt = {row[0] for row in rows(extraction, "_corrupt_record")}
    assert corrupt == {
        None,
        "a line of 13 characters instead of 17: 0003too short",
        "a line of 19 characters instead of 17: 0004too   xx long  ",
        "a line of 1 characters instead of 17:  ",
    }
    assert rows(extraction, "id").count((None,)) == 4 and len(rows(extraction, "id")) == 6


@pytest.mark.parametrize(
    ("encoding", "content", "expected"),
    [
        ("iso-8859-1", "0001Zo\xeb   xx 1.50\n".encode("latin-1"), ("Zoë", None)),
        ("windows-1252", "0001Zoë€“–xx 1.50\n".encode("cp1252"), ("Zoë€“–", None)),
        ("windows-1252", b"0001Zo\x81   xx 1.50\n", (None, "a line that is not windows-1252: 0001Zo\ufffd   xx 1.50")),
        ("utf-8", "0001Zo\xeb   xx 1.50\n".encode("latin-1"), (None, "a line that is not utf-8: 0001Zo\ufffd   xx 1.50")),
        ("us-ascii", "0001Zoë   xx 1.50\n".encode(), (None, "a line that is not us-ascii: 0001Zoë   xx 1.50")),
        ("us-ascii", b"0001Zoe   xx 1.50\n", ("Zoe", None)),
    ],
)
def test_encodings(spark: SparkSession, tmp_path: Path, encoding, content, expected) -> None:
    land(tmp_path, "t/2024-03-01.txt", content)
    extraction = FilesReader(fixed(encoding=encoding), str(tmp_path)).read(spark, [day(1)])
    assert rows(extraction, "The_x20_name", "_corrupt_record") == [expected]


def test_a_truncated_archive_is_one_row(spark: SparkSession, tmp_path: Path) -> None:
    source = fixed(path="t/{window:%Y-%m-%d}.txt.gz")
    packed = gzip.compress((GOOD * 5000).encode())
    land(tmp_path, "t/2024-03-01.txt.gz", packed[: len(packed) // 2])
    land(tmp_path, "t/2024-03-02.txt.gz", gzip.compress(GOOD.encode()))
    reader = FilesReader(source, str(tmp_path))
    unreadable = reader.probe(spark, [day(1), day(2)])
    assert list(unreadable) == ["t/2024-03-01.txt.gz"]
    extraction = reader.read(spark, [day(1), day(2)], unreadable)
    assert len(rows(extraction, "id")) == 3 and list(extraction.problems) == [day(1)]


def test_the_contract(spark: SparkSession, tmp_path: Path) -> None:
    for number in (1, 2):
        land(tmp_path, f"t/2024-03-0{number}.txt", GOOD)
    verify_source(
        spark, lambda _: FilesReader(fixed(), str(tmp_path)), [day(1), day(2)], day(9),
        change=lambda window: land(tmp_path, f"t/{window.key}.txt", GOOD * 2),
        corrupt=lambda window: land(tmp_path, f"t/{window.key}.txt", GOOD + "short\n"),
    )  # fmt: skip


def test_positions() -> None:
    assert doctest.testmod(fixed_width).failed == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fields": []}, "format fixed needs the name and width of each"),
        ({"format": "csv"}, "no other format has them"),
        ({"delimiter": ";"}, "format fixed: multiline, delimiter and quote do not apply"),
        ({"fields": [{"name": "a", "width": 0}]}, "greater than or equal to 1"),
        ({"fields": [{"name": "a", "start": 0, "width": 1}]}, "greater than or equal to 1"),
        ({"fields": [{"name": "a", "width": 3}, {"name": "A", "width": 3}]}, "'a' and 'A' are one name"),
        ({"fields": [{"name": "a", "width": 3}, {"name": "b", "start": 3, "width": 1}]}, "'b' and 'a' overlap at character 3"),
        ({"fields": [{"name": "a", "length": 3}]}, "length"),
    ],
)
def test_refused_fields(settings, message) -> None:
    with pytest.raises(ValidationError, match=message):
        fixed(**settings)
