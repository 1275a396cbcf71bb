"""JSON documents into rows: a file is one object, or one array of objects, over as many lines as it likes.

Belongs here: a file's elements, and files that are no document. Does not: values as text (json_files), or windows.

Spark reads such a file in one piece, and holds its parsed form: at most 128 MB of it.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.sources.file_scans import SCAN_OPTIONS

NO_DOCUMENT = "it is not one JSON document, or too large for one; for one object per line, remove `multiline`"


def read_documents(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return ``_file``, ``_line`` and ``_object`` of each element; ``_object`` is NULL unless the element is an object. A file
    that is no document has no rows.
    """
    documents = _documents(spark, paths).where("_document IS NOT NULL")
    items = F.expr("explode(coalesce(try_cast(_document AS ARRAY<VARIANT>), array(_document)))").alias("_item")
    object_ = F.expr("try_cast(_item AS MAP<STRING, VARIANT>)").alias("_object")
    return documents.select("_file", items).select("_file", F.to_json("_item").alias("_line"), object_)


def find_broken_documents(spark: SparkSession, paths: Sequence[str]) -> set[str]:
    """Return the files (as Spark names them) that are neither blank nor one JSON document. One job."""
    broken = _documents(spark, paths).where("_document IS NULL AND NOT _blank")
    return {row["_file"] for row in broken.select("_file").collect()}


def _documents(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    raw = spark.read.options(**SCAN_OPTIONS).text(list(paths), wholetext=True)
    # A byte order mark is no part of the document.
    text = F.expr("CASE WHEN startswith(value, '\ufeff') THEN substring(value, 2) ELSE value END")
    rows = raw.select(raw.metadataColumn("_metadata").getField("file_path").alias("_file"), text.alias("_text"))
    # As the one element of an array: text after the document makes the array invalid, or longer.
    parsed = F.expr("try_cast(try_parse_json(CASE WHEN is_valid_utf8(_text) THEN '[' || _text || ']' END) AS ARRAY<VARIANT>)")
    document = F.expr("CASE WHEN size(_parsed) = 1 THEN _parsed[0] END").alias("_document")
    blank = F.expr("_text RLIKE '^\\\\s*$'").alias("_blank")
    return rows.select("*", parsed.alias("_parsed")).select("_file", document, blank)
