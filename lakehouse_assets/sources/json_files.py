"""JSON lines into rows of strings: one object per line, top-level fields as text, columns found by one pass over all files.

Belongs here: valid lines, values as strings, and files that hold one document instead. Does not: windows, folders.

Lines are parsed as variants. `from_json` to a map turns numbers into doubles, and accepts invalid JSON (single quotes, NaN,
text after the object, duplicate keys). A number keeps its value, not its spelling: 1.10 becomes 1.1.
"""

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.sources.base import MAX_COLUMNS
from lakehouse_assets.sources.file_scans import SCAN_OPTIONS
from lakehouse_assets.sources.json_documents import read_documents
from lakehouse_assets.sources.landing import Landing

HEAD = 64 * 1024
ADVICE = "declare source.multiline: true, or convert it to one object per line (`jq -c '.[]?' file`, or `jq -c .`)"


def read_json_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return ``_file``, ``_line`` and ``_object``; NULL unless the line is one JSON object in UTF-8. Skips blank lines."""
    raw = spark.read.options(**SCAN_OPTIONS).text(list(paths))
    # Bytes as they are: most functions on text would first put U+FFFD in the place of what is no UTF-8.
    line = F.expr("CASE WHEN startswith(value, '\ufeff') THEN substring(value, 2) ELSE value END")  # a byte order mark
    rows = raw.select(raw.metadataColumn("_metadata").getField("file_path").alias("_file"), line.alias("_line"))
    return parse_objects(rows.where(F.trim("_line") != ""))


def parse_objects(rows: DataFrame) -> DataFrame:
    """Add ``_object`` to rows with the text ``_line``: its keys and values; NULL unless it is one JSON object in UTF-8."""
    # As the one element of an array: text after the object makes the array invalid, or longer.
    parsed = F.expr(
        "try_cast(try_parse_json(CASE WHEN is_valid_utf8(_line) THEN '[' || _line || ']' END) AS ARRAY<MAP<STRING, VARIANT>>)"
    )
    only = F.expr("CASE WHEN size(_parsed) = 1 THEN _parsed[0] END")
    return rows.select("*", parsed.alias("_parsed")).select(*rows.columns, only.alias("_object"))


def sorted_keys(rows: DataFrame, column: str) -> DataFrame:
    """Return ``keys`` by the values of a column: the sorted keys of ``_object``, at most one more than a table can have."""
    # Most rows have the same keys: to compare each row's keys as one costs less than to compare every key of every row.
    lists = rows.select(column, F.map_keys("_object").alias("keys")).distinct()
    keys = lists.select(column, F.explode("keys").alias("key")).distinct()
    return keys.groupBy(column).agg(F.slice(F.sort_array(F.collect_set("key")), 1, MAX_COLUMNS + 1).alias("keys"))


def keys_by_file(spark: SparkSession, paths: Sequence[str], documents: bool = False) -> dict[str, tuple[str, ...]]:
    """Return the sorted keys of each file (as Spark names it); files without a readable object are left out. One job.
    ``documents``: each file is one document.
    """
    rows = read_documents(spark, paths) if documents else read_json_lines(spark, paths)
    return {row["_file"]: tuple(row["keys"]) for row in sorted_keys(rows, "_file").collect()}


def read_json_rows(spark: SparkSession, paths: Sequence[str], bound: Mapping[str, str], documents: bool = False) -> DataFrame:
    """Return ``_file``, ``_corrupt_record`` (the line or element), and the keys under their ``bound`` names.
    ``documents``: each file is one document.

    Keys that files spell differently are bound to one name: a row has one of them.
    """
    rows = read_documents(spark, paths) if documents else read_json_lines(spark, paths)
    spellings: dict[str, list[str]] = {}
    for key, name in bound.items():
        spellings.setdefault(name, []).append(key)
    line = F.make_valid_utf8("_line")
    return rows.select(
        "_file",
        F.when(F.col("_object").isNull(), line).alias("_corrupt_record"),
        *[field_text(keys).alias(name) for name, keys in spellings.items()],
    )


def field_text(keys: Sequence[str]) -> Column:
    """Return the value of the first of these keys that ``_object`` has, as text."""
    return F.coalesce(*[F.element_at("_object", F.lit(key)).cast("string") for key in keys])


def find_documents(landing: Landing, paths: Sequence[str]) -> dict[str, str]:
    """Return the files that hold one document instead of JSON lines, each with a description. Reads at most 64 KB of each."""

    def describe(path: str) -> str | None:
        content = landing.read_head(path, HEAD)
        return describe_document(content.decode("utf-8", "replace"), len(content) == HEAD)

    # The scan reports why a file cannot be read.
    return {path: why for path, why in landing.read_each(paths, describe).items() if why and ADVICE in why}


def describe_document(text: str, cut: bool = False) -> str | None:
    """Return what a file with this beginning is, if it is not JSON lines. ``cut``: whether the file goes on.

    >>> describe_document('{"a": 1}\\n{"a": 2}'), describe_document('{bad\\n{"a": 2}'), describe_document('[1]\\n[2]')
    (None, None, None)
    >>> [(describe_document(text) or "").split(";")[0] for text in ('{\\n "a": 1\\n}', '[{"a": 1}]')]
    ['it is pretty-printed JSON', 'it is a JSON array']
    """
    text = text.removeprefix("\ufeff").strip()
    kind = {"{": "pretty-printed JSON", "[": "a JSON array"}.get(text[:1])
    if kind is None:
        return None
    first, _, rest = text.partition("\n")
    value, is_json = _parse_line(first)
    if is_json:
        is_whole = isinstance(value, list) and not rest.strip() and not cut
        return f"it is {kind}; {ADVICE}" if is_whole and _holds_objects(value) else None
    lines = [line for line in text.splitlines()[: -1 if cut else None] if line.strip()]
    try:
        _, end = json.JSONDecoder().raw_decode(text)
        is_document = "\n" in text[:end]
    except (ValueError, RecursionError):
        # Too long to be seen whole, or broken. A broken first line with good ones after it is no document.
        good = any(isinstance(_parse_line(line)[0], dict) for line in lines[1:])
        is_document = first.strip() in ("{", "[") and not (good and kind == "pretty-printed JSON" and not cut)
        is_document = is_document or (cut and not good and len(lines) > 1)
    return f"it is {kind}; {ADVICE}" if is_document else None


def _holds_objects(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(each, dict) for each in value)


def _parse_line(line: str) -> tuple[object, bool]:
    try:
        return json.loads(line), True
    except (ValueError, RecursionError):
        return None, False
