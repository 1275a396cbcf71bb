"""A topic's messages that are parsed: those whose keys can be columns, and what of each message is needed further on.

Belongs here: these columns. Does not: reading a topic (kafka), or parsing values (json_files, avro_messages).
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.contracts.batch import WINDOW
from lakehouse_assets.sources import base
from lakehouse_assets.sources.json_shape import TEXTS

# Keys that cannot be columns, each message by itself: empty, broken, too many, or two that differ in letter case only.
UNUSABLE = f"""exists(_names, n -> n = '' OR contains(n, '\\u0000') OR contains(n, '\\ufffd'))
 OR size(_names) > {base.MAX_COLUMNS} OR size(array_distinct(transform(_names, n -> lower(n)))) < size(_names)"""

# Whether they have to be looked at one by one: in most messages all are in small letters.
MAY_BE_UNUSABLE = f"""array_contains(_names, '') OR size(_names) > {base.MAX_COLUMNS} OR _joined <> lower(_joined)
 OR contains(_joined, '\\u0000') OR contains(_joined, '\\ufffd')"""


def with_line(rows: DataFrame) -> DataFrame:
    """Return messages with ``_line``, their value as text, in place of ``value``."""
    return rows.withColumn("_line", F.col("value").cast("string")).drop("value")


def select_usable(rows: DataFrame, extra_columns: Collection[str]) -> DataFrame:
    """Return what is needed of parsed messages (``_line`` and ``_object``), which Spark then holds.

    ``extra_columns``: columns of the messages themselves, and TEXTS if lines were split. ``_object`` is NULL if its keys cannot
    be columns. ``_bad_text`` is the text of a bad message: to hold that of good ones, too, takes a third more processor time.
    """
    rows = _without_unusable(rows)
    moment = ["timestamp"] if "kafka_timestamp" in extra_columns else []
    bad_text = F.when(F.col("_object").isNull(), F.make_valid_utf8("_line"))
    texts = [TEXTS] if TEXTS in extra_columns else []
    needed = ["_tombstone", bad_text.alias("_bad_text"), *texts]
    return rows.select("p_extracted_at", "partition", "offset", *moment, "_key", "_object", *needed)


def _without_unusable(rows: DataFrame) -> DataFrame:
    """Return the rows without the objects whose keys cannot be columns."""
    rows = rows.withColumn("_names", F.map_keys("_object")).withColumn("_joined", F.concat_ws(" ", "_names"))
    rows = rows.withColumn("_is_suspect", F.expr(MAY_BE_UNUSABLE))
    usable = F.when(~F.col("_is_suspect"), F.col("_object")).when(~F.expr(UNUSABLE), F.col("_object"))
    return rows.withColumn("_object", usable).drop("_names", "_joined", "_is_suspect")


def has_only_keys(keys: Sequence[str]) -> Column:
    """Return whether a message has no other keys than these; one without an object has none."""
    names = F.array(*[F.lit(key) for key in keys])
    return F.col("_object").isNull() | (F.size(F.array_except(F.map_keys("_object"), names)) == 0)


def list_columns(columns: Mapping[datetime, Sequence[str]]) -> Column:
    """Return the columns of a row's window. ``columns``: by window."""
    lists_by_start = {
        start: F.array(*[F.lit(name) for name in names]).cast("array<string>") for start, names in columns.items()
    }
    if len(lists_by_start) == 1:
        return next(iter(lists_by_start.values()))
    return F.element_at(
        F.create_map(*[cell for start, names in lists_by_start.items() for cell in (F.lit(start), names)]), F.col(WINDOW)
    )


def message_column(name: str) -> Column:
    """Return a column of the message itself, besides its value, as text."""
    return {
        "kafka_partition": F.col("partition").cast("string"),
        "kafka_offset": F.col("offset").cast("string"),
        "kafka_timestamp": F.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"),
        "kafka_key": F.col("_key"),
        "kafka_tombstone": F.col("_tombstone").cast("string"),
    }[name]
