"""What every kind of source offers: fingerprints of its windows, a lazy read, and a probe for what stopped a read.

Belongs here: the protocol, the shape of an extraction, and what several kinds write alike. Does not: any one kind of source.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.contracts.windows import Window

# What an action on an extraction's frame may raise. A failed scan is a Py4JJavaError in PySpark 4.1, and no PySparkException.
SCAN_ERRORS: tuple[type[Exception], ...] = (PySparkException, Py4JJavaError)
FETCH_JARS = "python -m lakehouse_assets.storage.session"


@dataclass(frozen=True)
class Extraction:
    """``frame``: ``p_extracted_at``, ``_source_file``, ``_columns``, ``_corrupt_record``, then the source's columns as strings.

    A row of a good record has ``_corrupt_record`` NULL; else it has the record's text, and its other columns are NULL.
    ``_columns`` and ``columns`` hold safe names. The one row of an unreadable file has an empty ``_columns``.
    ``problems``: what was found unreadable before the scan, by window. ``columns``: those of a window's files, in their order;
    ``lacking``: those of them that one of its readable files does not have. ``types``: their Spark types, where the source
    knows them. ``respelled``: those that came in other letter case than bronze has them, with how they came. ``control``: what
    the source says of its windows, where the table asks it to.
    """

    frame: DataFrame
    problems: Mapping[Window, list[str]]
    columns: Mapping[Window, tuple[str, ...]]
    lacking: Mapping[Window, tuple[str, ...]] = field(default_factory=dict)
    types: Mapping[Window, Mapping[str, str]] = field(default_factory=dict)
    respelled: Mapping[Window, Mapping[str, str]] = field(default_factory=dict)
    control: Mapping[Window, ControlTotals] = field(default_factory=dict)


class Source(Protocol):
    """One table's source."""

    def fingerprints(self, windows: Iterable[Window]) -> dict[Window, str]:
        """The windows among these that have arrived, each with a value that changes when its data does. Needs no Spark.

        Raises SourceError if the source as a whole cannot be reached.
        """
        ...

    def columns(self, window: Window) -> tuple[str, ...]:
        """The window's columns as the source spells them; empty where only a scan could tell. Needs no Spark."""
        ...

    def positions(self, windows: Sequence[Window]) -> dict[Window, str]:
        """What has to go on record before these windows are read, since the source cannot tell it twice, and is not yet: a text
        for each window (it may be of others than these). A source is opened with what is on record. Needs no Spark.
        """
        ...

    def read(self, spark: SparkSession, windows: Sequence[Window], unreadable: Mapping[str, str] | None = None) -> Extraction:
        """Exactly these windows. ``unreadable``: parts (by name) that are known not to be readable, and why.

        Bad data raises nothing here; a scan that cannot go on fails the caller's action with one of SCAN_ERRORS: then
        `probe`, and read again with what it found. Raises SourceError if the source as a whole cannot be reached.
        """
        ...

    def probe(self, spark: SparkSession, windows: Sequence[Window]) -> dict[str, str]:
        """The parts of these windows that stop a scan, each with the reason. Reads everything: only after a failed action."""
        ...


def innermost(error: Exception) -> str:
    """What the first of a Java error's causes said; of another error, its text. It may name addresses."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    text = str(error)
    while cause is not None:
        text, cause = str(cause.getMessage() or cause.getClass().getSimpleName()), cause.getCause()
    return text


def one_line_base64(value: Column) -> Column:
    """Binary as text. Spark breaks it into lines of 76 characters."""
    return F.replace(F.base64(value), F.lit("\r\n"), F.lit(""))
