"""CSV into rows of strings: headers read on the driver, one scan per distinct header, columns bound by name.

Belongs here: what Spark's CSV parser does to a line, and what is made of it. Does not: windows, folders, other formats.

Without `multiline` Spark only splits lines and drops the header; `from_csv` parses each line with a mark put at its end.
A quote that is never closed swallows the mark, extra or missing fields move it: such a line is corrupt, and its text is
at hand. Blank lines are no records. `""` is an empty string, an unquoted empty field is NULL.
"""

import codecs
import csv
import io
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.sources.landing import Landing
from lakehouse_assets.sources.names import refuse_names

LINE_BREAK = re.compile("\r\n|\n|\r")
BLOCKS = (64 * 1024, 4 * 1024 * 1024)
# Noncharacters of Unicode, which no text has: a separator that splits nothing, the mark at a line's end, "no such value".
NO_SEPARATOR, END, NO_VALUE = "\ufdd0", "\ufdd1", "\ufdd2"
MAX_FIELDS = 200_000
LIMIT = MAX_FIELDS - 10
COMMON = {"mode": "PERMISSIVE", "nullValue": NO_VALUE, "columnPruning": "false"}
SCAN = COMMON | {
    "header": "true",
    "enforceSchema": "false",  # a file whose header has changed since it was read here fails the scan
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "__globPaths__": "false",  # a file's name is no pattern: `a[1].csv`
    "recursiveFileLookup": "true",  # `day=1/` is a folder's name and no column
}


@dataclass(frozen=True)
class Header:
    """The first line as it stands in the file, and the names in it."""

    line: str
    names: tuple[str, ...]


class UnreadableFile(Exception):
    """Why a file's header cannot be used."""


def read_headers(landing: Landing, paths: Sequence[str], source: FilesSource) -> dict[str, Header | str | None]:
    """Each file's header; a reason instead where it is unreadable, ``None`` where the file is empty."""

    def one(path: str) -> Header | str | None:
        try:
            return _read_header(landing, path, source)
        except UnreadableFile as error:
            return str(error)
        except (OSError, EOFError) as error:
            return str(error).splitlines()[0].replace(f"{landing.root}/", "") or type(error).__name__

    with ThreadPoolExecutor(8) as pool:
        return dict(zip(paths, pool.map(one, paths), strict=True))


def _read_header(landing: Landing, path: str, source: FilesSource) -> Header | None:
    for block in BLOCKS:
        content = b""
        with landing.open(path) as stream:
            while len(content) < block and (more := stream.read(block - len(content))):
                content += more
        text = codecs.getincrementaldecoder(source.encoding)("replace").decode(content, final=len(content) < block)
        text = text.removeprefix("\ufeff")
        if not text:
            return None
        if len(content) == block and len(LINE_BREAK.split(text)) < 3:
            continue
        return _parse_header(text, source)
    raise UnreadableFile(f"its first line is longer than {BLOCKS[-1]:,} bytes")


def _parse_header(text: str, source: FilesSource) -> Header:
    line = LINE_BREAK.split(text, maxsplit=1)[0]
    if not line.strip():
        raise UnreadableFile("its first line is blank, and no header")
    rows = io.StringIO(text if source.multiline else line, newline="")
    try:
        names = next(csv.reader(rows, delimiter=source.delimiter, quotechar=source.quote, strict=True))
    except csv.Error as error:
        advice = "" if source.multiline else " (a quoted name with a line break needs `multiline: true`)"
        raise UnreadableFile(f"its header is not CSV: {error}{advice}") from None
    names = [name.replace("\r\n", "\n") for name in names]  # as Spark's parser does
    reason = refuse_names(names)
    if reason:
        raise UnreadableFile(reason)
    return Header(line, tuple(names))


def csv_rows(
    spark: SparkSession, paths: Sequence[str], header: Header, source: FilesSource, bound: Mapping[str, str]
) -> DataFrame:
    """``_file``, ``_corrupt_record``, and the columns under their ``bound`` names, of files with this one header."""
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
    corrupt = f"{header.line} (corrupt)"
    options = SCAN | {"sep": NO_SEPARATOR, "quote": "", "encoding": source.encoding, "columnNameOfCorruptRecord": corrupt}
    raw = spark.read.options(**options).schema(_strings([header.line, corrupt])).csv(list(paths))
    # A line that has even the separator that no text has is in the corrupt column as it stands.
    line = F.coalesce(F.col(identifier(corrupt)), F.col(identifier(header.line)))
    lines = raw.select(raw.metadataColumn("_metadata").getField("file_path").alias("_file"), line.alias("_line"))
    places = [f"c{place}" for place in range(len(header.names))]
    schema = ", ".join(f"{name} string" for name in [*places, "mark", "bad"])
    parsing = COMMON | {
        "sep": source.delimiter,
        "quote": source.quote,
        "escape": source.quote,
        "maxColumns": str(MAX_FIELDS),
        "columnNameOfCorruptRecord": "bad",
    }
    delimiters = F.length("_line") - F.length(F.replace(F.col("_line"), F.lit(source.delimiter), F.lit("")))
    # Beyond its limit the parser throws, and would take the other rows with it.
    marked = F.when(delimiters < LIMIT, F.concat("_line", F.lit(source.delimiter + END)))
    rows = lines.select("_file", "_line", F.from_csv(marked, schema, parsing).alias("_parsed"))
    fields = [F.col(f"_parsed.{name}") for name in places]
    return rows, F.col("_line"), fields, F.col("_parsed.bad").isNull() & (F.col("_parsed.mark") == END)


def _scan_records(spark: SparkSession, paths: Sequence[str], header: Header, source: FilesSource) -> Scanned:
    corrupt = "corrupt"
    while corrupt in [name.lower() for name in header.names]:
        corrupt += "_"
    options = SCAN | {
        "sep": source.delimiter,
        "quote": source.quote,
        "escape": source.quote,
        "encoding": source.encoding,
        "multiLine": "true",
        "unescapedQuoteHandling": "RAISE_ERROR",  # quotes that do not pair would put rows into a value
        "columnNameOfCorruptRecord": corrupt,
    }
    raw = spark.read.options(**options).schema(_strings([*header.names, corrupt])).csv(list(paths))
    places = [f"c{place}" for place in range(len(header.names))]
    rows = raw.select(
        raw.metadataColumn("_metadata").getField("file_path").alias("_file"),
        F.col(identifier(corrupt)).alias("_bad"),
        *[F.col(identifier(name)).alias(place) for name, place in zip(header.names, places, strict=True)],
    )
    text = F.coalesce(F.col("_bad"), F.concat_ws(source.delimiter, *places))
    return rows, text, [F.col(place) for place in places], F.col("_bad").isNull()


def unpaired_quotes(spark: SparkSession, paths: Sequence[str], quote: str) -> set[str]:
    """The files (as Spark names them) with an odd number of quotes: one is never closed, and would swallow what follows.

    One job. Only for `multiline`: otherwise each line is judged by itself.
    """
    lines = spark.read.options(**{k: v for k, v in SCAN.items() if k not in COMMON}).text(list(paths))
    quotes = F.length("value") - F.length(F.replace(F.col("value"), F.lit(quote), F.lit("")))
    by_file = lines.groupBy(lines.metadataColumn("_metadata").getField("file_path").alias("f")).agg(F.sum(quotes).alias("n"))
    return {row["f"] for row in by_file.where("n % 2 = 1").collect()}


def _strings(names: Sequence[str]) -> StructType:
    return StructType([StructField(name, StringType()) for name in names])
