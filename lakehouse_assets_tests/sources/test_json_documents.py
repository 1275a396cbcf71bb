"""JSON files that are one document each: objects and arrays over several lines, elements that are no object, broken files.

Belongs here: `multiline` of JSON files, with real Spark. Does not: JSON lines (test_json).
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_assets.sources.files import FilesReader
from lakehouse_assets.sources.json_documents import NO_DOCUMENT
from lakehouse_assets.testing import verify_source
from lakehouse_assets_tests.sources.source_files import day, json_source, land, rows

PRETTY = '\ufeff{\n  "a": 1,\n  "b c": {\n    "d": [1, null]\n  }\n}\n'
ARRAY = '[\n  {"a": 2,\n   "e": "x\\ny"},\n  {"a": 3}, 7, [{"a": 4}]\n]'


@pytest.fixture
def reader(tmp_path: Path):
    return FilesReader(json_source(multiline=True), str(tmp_path))


def test_objects_and_arrays(spark: SparkSession, tmp_path: Path, reader) -> None:
    land(tmp_path, "t/2024-03-01.json", PRETTY)
    land(tmp_path, "t/2024-03-02.json", ARRAY)
    land(tmp_path, "t/2024-03-03.json", " \n[]")
    land(tmp_path, "t/2024-03-04.json", "\n")
    extraction = reader.read(spark, [day(1), day(2), day(3), day(4)])
    assert extraction.columns == {day(1): ("a", "b_x20_c"), day(2): ("a", "e"), day(3): (), day(4): ()}
    assert sorted(rows(extraction, "a", "e", "_corrupt_record"), key=str) == sorted(
        [("1", None, None), ("2", "x\ny", None), ("3", None, None), (None, None, "7"), (None, None, '[{"a":4}]')], key=str
    )
    assert not extraction.problems


@pytest.mark.parametrize(
    "content", ['{"a": 1}\n{"a": 2}', '{"a": 1,', "[1] x", '{"a": 1, "a": 2}', "no json", b'{"a": "\xff"}', "{'a': 1}"]
)
def test_a_file_that_is_no_document_is_one_row(spark: SparkSession, tmp_path: Path, reader, content) -> None:
    land(tmp_path, "t/2024-03-01.json", content)
    land(tmp_path, "t/2024-03-02.json", PRETTY)
    extraction = reader.read(spark, [day(1), day(2)])
    message = f"unreadable file t/2024-03-01.json: {NO_DOCUMENT}"
    assert extraction.problems == {day(1): [message]}
    assert sorted(rows(extraction, "a", "_corrupt_record"), key=str) == sorted([(None, message), ("1", None)], key=str)


def test_the_contract(spark: SparkSession, tmp_path: Path, reader) -> None:
    for number in (1, 2):
        land(tmp_path, f"t/2024-03-0{number}.json", ARRAY.replace(', 7, [{"a": 4}]', ""))
    verify_source(
        spark, lambda _: reader, [day(1), day(2)], day(9),
        change=lambda window: land(tmp_path, f"t/{window.key}.json", PRETTY),
        corrupt=lambda window: land(tmp_path, f"t/{window.key}.json", ARRAY),
    )  # fmt: skip
