"""Text files in Windows-1252, which Spark does not know: read as Latin-1, from which it differs in 32 bytes only.

Belongs here: names and characters as Spark reads them, and back. Does not: reading a file.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

LATIN, WINDOWS = "iso-8859-1", "windows-1252"
# What Latin-1 has for these bytes, and Windows-1252. The latter has no character for five of them.
CONTROLS = bytes(range(0x80, 0xA0)).decode(LATIN)
OF_WINDOWS = CONTROLS.encode(LATIN).decode(WINDOWS, "replace")


def spark_encoding(encoding: str) -> str:
    """Return the encoding by which Spark reads files of this one."""
    return LATIN if encoding == WINDOWS else encoding


def as_spark_reads(text: str, encoding: str) -> str:
    """Return a file's text as Spark reads it. Raises ValueError for characters that the encoding does not have.

    >>> as_spark_reads("5 €", "windows-1252"), as_spark_reads("5 €", "utf-8")
    ('5 \\x80', '5 €')
    """
    return text.encode(WINDOWS).decode(LATIN) if encoding == WINDOWS else text


def as_written(column: Column, encoding: str) -> Column:
    """Return the characters of what Spark has read; `\\ufffd` for a byte that is no character."""
    return F.translate(column, CONTROLS, OF_WINDOWS) if encoding == WINDOWS else column
