"""Reading JSON lines with real Spark: values as text, lines that are no object, keys as columns.

Belongs here: rows and columns of JSON files. Does not: files that cannot be read (test_unreadable).
"""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_assets.sources.base import Extraction
from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.sources.json_files import ADVICE
from lakehouse_assets_tests.sources.source_files import day, json_source, land, rows


@pytest.fixture
def read(spark: SparkSession, tmp_path: Path):
    def read(*contents: bytes | str, declared=()) -> Extraction:
        for number, content in enumerate(contents, 1):
            land(tmp_path, f"t/2024-03-{number:02d}.json", content)
        windows = [day(number) for number in range(1, len(contents) + 1)]
        return FilesReader(json_source(), str(tmp_path), declared).read(spark, windows)

    return read


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"x"', "x"),
        ('""', ""),
        ("null", None),
        ("true", "true"),
        ("7", "7"),
        ("1.10", "1.1"),
        ("0.1234567890123456789", "0.1234567890123456789"),
        ("12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
        # Beyond 38 digits the nearest double, as docs/sources.md warns; a text keeps them.
        ("123456789012345678901234567890123456789", "1.2345678901234568E38"),
        ('"123456789012345678901234567890123456789"', "123456789012345678901234567890123456789"),
        ('"\\u00e9\\n"', "é\n"),
        ('{"k": [1, 2.5], "z": null}', '{"k":[1,2.5],"z":null}'),
        ('[1, "a"]', '[1,"a"]'),
        ('"2024-03-01"', "2024-03-01"),
    ],
)
def test_values(read, value: str, text: str | None) -> None:
    assert rows(read(f'{{"a": {value}}}\n'), "a", "_corrupt_record") == [(text, None)]


BAD = [
    "[1, 2]",
    '[{"a": 1}]',
    "3",
    '"s"',
    "null",
    "{bad",
    '{"a": "open',
    '{"a": 1} trailing',
    '{"a": 1}{"a": 2}',
    '{"a": 1},{"a": 2}',
    '{"a": 1, "a": 2}',
    "{'a': 1}",
    '{"a": NaN}',
]


@pytest.mark.parametrize("line", BAD)
def test_a_line_that_is_no_object_becomes_a_corrupt_record(read, line: str) -> None:
    extraction = read(f'{{"a": 0}}\n{line}\n')
    assert rows(extraction, "_corrupt_record", "a") == sorted([(None, "0"), (line, None)], key=repr)
    assert extraction.problems == {}


def test_blank_lines_and_a_byte_order_mark(read) -> None:
    assert rows(read(b'\xef\xbb\xbf{"a": 1}\r\n\r\n  \n{}\n'), "a", "_corrupt_record") == [("1", None), (None, None)]


def test_wrong_bytes(read) -> None:
    extraction = read('{"a": "é"}\n{"a": "x"}\n'.encode("latin-1"))
    assert rows(extraction, "_corrupt_record", "a") == [('{"a": "\ufffd"}', None), (None, "x")]


def test_columns_are_those_of_each_file(read) -> None:
    extraction = read('{"b": 1, "wind speed": 2}\n{"a": 3}\n', '{"a.b": 4, "_id": 5}\n', "", "{}\n")
    assert extraction.columns == {day(1): ("a", "b", "wind_x20_speed"), day(2): ("x5f_id", "a.b"), day(3): (), day(4): ()}
    assert rows(extraction, "a", "b", "wind_x20_speed", "x5f_id", "a.b") == [
        ("3", None, None, None, None),
        (None, "1", "2", None, None),
        (None, None, None, "5", "4"),
        (None, None, None, None, None),
    ]


def test_case_differs_between_files(read) -> None:
    extraction = read('{"Temp": 1}\n', '{"temp": 2}\n', declared=["TEMP"])
    assert rows(extraction, "TEMP", "_columns") == [("1", ["TEMP"]), ("2", ["TEMP"])]


@pytest.mark.parametrize(("content", "reason"), [('{"A": 1}\n{"a": 2}\n', "differ only in case"), ('{"": 1}\n', "no name")])
def test_keys_that_cannot_be_columns(read, content: str, reason: str) -> None:
    (text,) = rows(read(content), "_corrupt_record")[0]
    assert text.startswith("unreadable file t/2024-03-01.json: ") and reason in text


def test_many_keys(read) -> None:
    content = "".join(f'{{"k{n}": 1}}\n' for n in range(5_001))
    assert "more than 5,000 columns" in rows(read(content), "_corrupt_record")[0][0]


def test_a_document_over_several_lines_is_one_file_that_cannot_be_read(read) -> None:
    """Not as many corrupt lines as it has, nor a good one among them."""
    one, many = {"a": 1, "b": [{"x": 1}]}, [{"a": n, "text": "x" * 100} for n in range(1000)]
    bare = "[\n" + ",\n".join(json.dumps(each) for each in many) + "\n]\n"
    contents = [
        json.dumps(one, indent=2),
        json.dumps(many, indent=2),
        json.dumps([one]),
        bare,
        json.dumps(one, indent=2) + "\n" + json.dumps(one, indent=2),
        '{"items": [\n{"x": 1},\n{"x": 2}\n]}',
        '{"a": 1}\n',
        '{\n{"a": 2}\n',
    ]
    extraction = read(*contents)
    values = rows(extraction, "_source_file", "_corrupt_record", "a")
    names = [f"t/2024-03-0{number}.json" for number in range(1, 7)]
    arrays = {names[1], names[2], names[3]}
    what = {name: "a JSON array" if name in arrays else "pretty-printed JSON" for name in names}
    expected = [(name, f"unreadable file {name}: it is {what[name]}; {ADVICE}", None) for name in names]
    last = "t/2024-03-08.json"
    assert values == [*expected, ("t/2024-03-07.json", None, "1"), (last, "{", None), (last, None, "2")]
    assert {len(texts) for texts in extraction.problems.values()} == {1}
