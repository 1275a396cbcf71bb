"""Files of lines of fixed width into rows of strings: each field is cut from its characters.

Belongs here: cutting lines with Spark, and lines of another width. Does not: windows, folders, where fields are (contracts).

Spark's text reader gives the bytes of each line as they are. A line without any character is no record. Padding is no value.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.fixed_width import line_width
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.sources.charset import LATIN, WINDOWS, as_written
from lakehouse_assets.sources.file_scans import SCAN_OPTIONS


def read_fixed_rows(spark: SparkSession, paths: Sequence[str], source: FilesSource, bound: Mapping[str, str]) -> DataFrame:
    """Return ``_file``, ``_corrupt_record`` and the fields under their ``bound`` names. A field of spaces only is NULL.

    A line of another width, or of another encoding, is corrupt: its record has the reason, then the line.
    """
    raw = spark.read.options(**SCAN_OPTIONS).text(list(paths))
    lines = raw.select(raw.metadataColumn("_metadata").getField("file_path").alias("_file"), "value")
    lines = lines.where(F.octet_length("value") > 0)
    if source.encoding in (LATIN, WINDOWS):
        line = as_written(F.decode(F.col("value").cast("binary"), LATIN), source.encoding)
        decoded = ~F.contains(line, F.lit("\ufffd"))
    else:
        # A byte order mark; bytes that are no UTF-8 stay as they are, until they are judged.
        line = F.expr("CASE WHEN startswith(value, '\ufeff') THEN substring(value, 2) ELSE value END")
        decoded = F.expr("is_valid_utf8(value)")
        if source.encoding == "us-ascii":
            decoded = decoded & (F.octet_length("value") == F.char_length("value"))
    rows = lines.select("_file", line.alias("_line"), decoded.alias("_decoded")).where(F.octet_length("_line") > 0)
    width = line_width(source.positions)
    good = F.col("_decoded") & (F.char_length("_line") == width)
    return rows.select(
        "_file",
        F.when(~good, _reason(width, source.encoding)).alias("_corrupt_record"),
        *[F.when(good, _cut(start, size)).alias(bound[name]) for name, start, size in source.positions],
    )


def _cut(start: int, size: int) -> Column:
    value = F.trim(F.substring("_line", start, size))
    return F.when(value != "", value)


def _reason(width: int, encoding: str) -> Column:
    length = F.char_length("_line")
    other = F.concat(F.lit("a line of "), length.cast("string"), F.lit(f" characters instead of {width}: "), F.col("_line"))
    undecoded = F.concat(F.lit(f"a line that is not {encoding}: "), F.make_valid_utf8("_line"))
    return F.when(F.col("_decoded"), other).otherwise(undecoded)
