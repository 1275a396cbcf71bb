"""CSV into rows of strings: headers read on the driver, one scan per distinct header, columns bound by name.

Belongs here: parsing CSV with Spark. Does not: windows, folders, other formats.

Without `multiline`, Spark only splits lines and drops the header. A line without quotes is split at its delimiters. Any other
is parsed by `from_csv`, which takes longer, with a mark appended. An unclosed quote swallows the mark; extra or missing fields
move it: such a line is corrupt, and its text is available. Blank lines are no records. `""` is an empty string, an unquoted
empty field is NULL.
"""

import codecs
import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.sources.base import find_name_problem
from lakehouse_assets.sources.charset import as_spark_reads, as_written, spark_encoding
from lakehouse_assets.sources.file_scans import SCAN_OPTIONS
from lakehouse_assets.sources.landing import Landing

LINE_BREAK = re.compile("\r\n|\n|\r")
BLOCKS = (64 * 1024, 4 * 1024 * 1024)
# Noncharacters of Unicode, which no text has: a separator that splits nothing, the mark at a line's end, "no such value".
NO_SEPARATOR, END, NO_VALUE = "\ufdd0", "\ufdd1", "\ufdd2"
MAX_FIELDS = 200_000
LIMIT = MAX_FIELDS - 10
COMMON = {"mode": "PERMISSIVE", "nullValue": NO_VALUE, "columnPruning": "false"}
# With enforceSchema off, a file whose header has changed since it was read here fails the scan.
SCAN = COMMON | SCAN_OPTIONS | {"header": "true", "enforceSchema": "false"}


@dataclass(frozen=True)
class Header:
    """The first line, unchanged, and its column names."""

    line: str
    names: tuple[str, ...]


def read_header(landing: Landing, path: str, source: FilesSource) -> Header | None:
    """Return a file's header; None if the file is empty. Raises OSError, EOFError, or ValueError for an unusable header."""
    for block in BLOCKS:
        content = landing.read_head(path, block)
        text = codecs.getincrementaldecoder(source.encoding)("replace").decode(content, final=len(content) < block)
        text = text.removeprefix("\ufeff")
        if not text:
            return None
        if len(content) < block or len(LINE_BREAK.split(text)) > 2:
            return _parse_header(text, source)
    raise ValueError(f"its first line is longer than {BLOCKS[-1]:,} bytes")


def _parse_header(text: str, source: FilesSource) -> Header:
    line = LINE_BREAK.split(text, maxsplit=1)[0]
    if not line.strip():
        raise ValueError("its first line is blank, and no header")
    rows = io.StringIO(text if source.multiline else line, newline="")
    try:
        names = next(csv.reader(rows, delimiter=source.delimiter, quotechar=source.quote, strict=True))
    except csv.Error as error:
        advice = "" if source.multiline else " (a quoted name with a line break needs `multiline: true`)"
        raise ValueError(f"its header is not CSV: {error}{advice}") from None
    names = [name.replace("\r\n", "\n") for name in names]  # as Spark's parser does
    if reason := find_name_problem(names):
        raise ValueError(reason)
    return Header(line, tuple(names))


def read_csv_rows(
    spark: SparkSession, paths: Sequence[str], header: Header, source: FilesSource, bound: Mapping[str, str]
) -> DataFrame:
    """Return ``_file``, ``_corrupt_record`` and the columns under their ``bound`` names, of files with this one header."""
    scan = _scan_records if source.multiline else _scan_lines
    rows, text, fields, good = scan(spark, paths, header, source)
    if source.encoding != "iso-8859-1":  # there every byte is a character
        good = good & ~F.contains(text, F.lit("\ufffd"))
    good = F.coalesce(good, F.lit(False))
    return rows.select(
        "_file",
        F.when(~good, text).alias("_corrupt_record"),
        *[F.when(good, field).alias(bound[name]) for name, field in zip(header.names, fields, strict=True)],
    )


Scanned = tuple[DataFrame, Column, list[Column], Column]


def _scan_lines(spark: SparkSession, paths: Sequence[str], header: Header, source: FilesSource) -> Scanned:
    column, encoding = as_spark_reads(header.line, source.encoding), spark_encoding(source.encoding)
    corrupt = f"{column} (corrupt)"
    options = SCAN | {"sep": NO_SEPARATOR, "quote": "", "encoding": encoding, "columnNameOfCorruptRecord": corrupt}
    raw = spark.read.options(**options).schema(_strings([column, corrupt])).csv(list(paths))
    # A line that has even the separator that no text has is in the corrupt column as it stands.
    line = as_written(F.coalesce(F.col(identifier(corrupt)), F.col(identifier(column))), source.encoding)
    lines = raw.select(raw.metadataColumn("_metadata").getField("file_path").alias("_file"), line.alias("_line"))
    cells = [f"c{index}" for index in range(len(header.names))]
    schema = ", ".join(f"{name} string" for name in [*cells, "mark", "bad"])
    parsing = COMMON | _quoting(source) | {"maxColumns": str(MAX_FIELDS), "columnNameOfCorruptRecord": "bad"}
    delimiters = F.length("_line") - F.length(F.replace(F.col("_line"), F.lit(source.delimiter), F.lit("")))
    is_plain = _is_plain(F.col("_line"), source)
    # Beyond its limit the parser throws, and would take the other rows with it.
    marked = F.when(~is_plain & (delimiters < LIMIT), F.concat("_line", F.lit(source.delimiter + END)))
    # One field more than there are columns is as wrong as a million, which would not fit into memory.
    split = F.when(is_plain, F.split("_line", re.escape(source.delimiter), len(cells) + 1))
    rows = lines.select("_file", "_line", F.from_csv(marked, schema, parsing).alias("_parsed"), split.alias("_split"))
    fields = [
        F.coalesce(F.col(f"_parsed.{cell}"), F.nullif(F.get("_split", F.lit(index)), F.lit("")))
        for index, cell in enumerate(cells)
    ]
    is_whole = F.col("_parsed.bad").isNull() & (F.col("_parsed.mark") == END)
    has_all = F.when(F.col("_split").isNotNull(), F.size("_split") == len(cells)).otherwise(is_whole)
    return rows, F.col("_line"), fields, has_all


def _is_plain(line: Column, source: FilesSource) -> Column:
    """Whether a line has nothing that the parser reads as more than itself, but for delimiters."""
    return reduce(and_, [~F.contains(line, F.lit(text)) for text in (source.quote, "\r", "\n", "\0", END, NO_VALUE)])


def _scan_records(spark: SparkSession, paths: Sequence[str], header: Header, source: FilesSource) -> Scanned:
    names, corrupt = [as_spark_reads(name, source.encoding) for name in header.names], "corrupt"
    while corrupt in [name.lower() for name in names]:
        corrupt += "_"
    quoting = {key: as_spark_reads(value, source.encoding) for key, value in _quoting(source).items()}
    options = SCAN | quoting | {"multiLine": "true", "columnNameOfCorruptRecord": corrupt}
    options["encoding"] = spark_encoding(source.encoding)
    options["unescapedQuoteHandling"] = "RAISE_ERROR"  # quotes that do not pair would put rows into a value
    raw = spark.read.options(**options).schema(_strings([*names, corrupt])).csv(list(paths))
    cells = [f"c{index}" for index in range(len(names))]
    rows = raw.select(
        raw.metadataColumn("_metadata").getField("file_path").alias("_file"),
        as_written(F.col(identifier(corrupt)), source.encoding).alias("_bad"),
        *[as_written(F.col(identifier(name)), source.encoding).alias(cell) for name, cell in zip(names, cells, strict=True)],
    )
    text = F.coalesce(F.col("_bad"), F.concat_ws(source.delimiter, *cells))
    return rows, text, [F.col(cell) for cell in cells], F.col("_bad").isNull()


def find_unpaired_quotes(spark: SparkSession, paths: Sequence[str], quote: str) -> set[str]:
    """Return the files (as Spark names them) with an odd number of quotes: with `multiline`, an unclosed quote swallows what
    follows. One job.
    """
    lines = spark.read.options(**SCAN_OPTIONS).text(list(paths))
    quotes = F.length("value") - F.length(F.replace(F.col("value"), F.lit(quote), F.lit("")))
    by_file = lines.groupBy(lines.metadataColumn("_metadata").getField("file_path").alias("f")).agg(F.sum(quotes).alias("n"))
    return {row["f"] for row in by_file.where("n % 2 = 1").collect()}


def _quoting(source: FilesSource) -> dict[str, str]:
    # Spark reads one backslash as the beginning of an escape, such as \t.
    return {"sep": source.delimiter.replace("\\", r"\\"), "quote": source.quote, "escape": source.quote}


def _strings(names: Sequence[str]) -> StructType:
    return StructType([StructField(name, StringType()) for name in names])
