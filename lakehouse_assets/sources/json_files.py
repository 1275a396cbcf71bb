"""JSON lines into rows of strings: one object per line, its top-level fields as text, columns found by one pass over all files.

Belongs here: what a line must be, and how its values become strings. Does not: windows, folders, other formats.

Lines are parsed as variants, since `from_json` to a map takes numbers through a double and allows what JSON does not
(single quotes, NaN, text after the object, a key twice). A number keeps its value, not its spelling: 1.10 becomes 1.1.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.sources.names import MAX_COLUMNS

SCAN = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false", "__globPaths__": "false", "recursiveFileLookup": "true"}


def json_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """``_file``, ``_line`` and ``_object`` (NULL where the line is not one JSON object in UTF-8). Blank lines are no lines."""
    raw = spark.read.options(**SCAN).text(list(paths))
    # Bytes as they are: most functions on text would first put U+FFFD in the place of what is no UTF-8.
    line = F.expr("CASE WHEN startswith(value, '\ufeff') THEN substring(value, 2) ELSE value END")  # a byte order mark
    rows = raw.select(raw.metadataColumn("_metadata").getField("file_path").alias("_file"), line.alias("_line"))
    return with_objects(rows.where(F.trim("_line") != ""))


def with_objects(rows: DataFrame) -> DataFrame:
    """``_object`` beside the rows' text ``_line``: its keys and values, NULL where it is not one JSON object in UTF-8."""
    # As the one element of an array: text after the object makes the array invalid, or longer.
    parsed = F.expr(
        "try_cast(try_parse_json(CASE WHEN is_valid_utf8(_line) THEN '[' || _line || ']' END) AS ARRAY<MAP<STRING, VARIANT>>)"
    )
    only = F.expr("CASE WHEN size(_parsed) = 1 THEN _parsed[0] END")
    return rows.select("*", parsed.alias("_parsed")).select(*rows.columns, only.alias("_object"))


def keys_by_file(spark: SparkSession, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The keys in each file (as Spark names it), sorted; files without a readable line are left out. One job."""
    keys = json_lines(spark, paths).select("_file", F.explode(F.map_keys("_object")).alias("key")).distinct()
    # One more than is allowed suffices to refuse the file.
    found = keys.groupBy("_file").agg(F.slice(F.sort_array(F.collect_set("key")), 1, MAX_COLUMNS + 1).alias("keys"))
    return {row["_file"]: tuple(row["keys"]) for row in found.collect()}


def json_rows(spark: SparkSession, paths: Sequence[str], bound: Mapping[str, str]) -> DataFrame:
    """``_file``, ``_corrupt_record`` (the line), and the keys under their ``bound`` names.

    Two keys may be bound to one name (another file spells it otherwise): a row has one of them.
    """
    rows = json_lines(spark, paths)
    spellings: dict[str, list[str]] = {}
    for key, name in bound.items():
        spellings.setdefault(name, []).append(key)

    line = F.make_valid_utf8("_line")
    return rows.select(
        "_file",
        F.when(F.col("_object").isNull(), line).alias("_corrupt_record"),
        *[field(keys).alias(name) for name, keys in spellings.items()],
    )


def field(keys: Sequence[str]) -> Column:
    """The value of the first of these keys that ``_object`` has, as text."""
    return F.coalesce(*[F.element_at("_object", F.lit(key)).cast("string") for key in keys])
