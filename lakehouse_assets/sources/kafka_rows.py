"""Messages of a topic as bronze has them: in one pass where their columns are known, else after a job that finds their keys.

Belongs here: from a scan to an extraction. Does not: scanning a topic (kafka), what is needed of a message (kafka_messages), or
lines of one shape (json_shape).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.contracts.kafka_source import OF_THE_MESSAGE, KafkaSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import base
from lakehouse_assets.sources.avro_messages import parse_avro
from lakehouse_assets.sources.base import Extraction
from lakehouse_assets.sources.json_files import field_text, parse_objects, sorted_keys
from lakehouse_assets.sources.json_shape import TEXTS, LineShape
from lakehouse_assets.sources.kafka_messages import has_only_keys, list_columns, message_column, select_usable, with_line

OTHER_KEYS = "a message has keys that the first messages of its window do not have"


class MessageRows:
    """A topic's messages as rows. ``declared``: the source's columns that the contract names."""

    def __init__(self, source: KafkaSource, settings: Settings, declared: Sequence[str]) -> None:
        self._source, self._settings, self._declared = source, settings, tuple(declared)
        self._own = [name for name in OF_THE_MESSAGE if name in self._declared]

    def read_shape(self, rows: DataFrame, window: Window, shape: LineShape, last_columns: Collection[str]) -> Extraction | None:
        """Return one window's messages, of which some have this shape; None if their columns are not ``last_columns``, those of
        the window before, where there is one. The scan fails at a message with other keys.
        """
        split_rows = shape.split_lines(with_line(rows))
        # What has the shape is not parsed.
        others = split_rows.withColumn("_line", F.when(F.col(TEXTS).isNull(), F.col("_line")))
        parsed = select_usable(parse_objects(others), [*self._own, TEXTS])
        extraction = self._extraction(parsed, [window], {window.start: tuple(sorted(shape.keys))}, shape)
        return extraction if not last_columns or {*last_columns} == {*extraction.columns[window]} else None

    def find_keys_and_read(self, rows: DataFrame, windows: Sequence[Window], *, may_cache: bool) -> Extraction:
        """Return the messages with the columns of their keys, after a job that finds them. ``may_cache``: whether Spark caches
        the messages between the two. Raises SourceError for more keys than a table can have.
        """
        parsed = select_usable(self._parse(rows), self._own)
        # Read once for the keys and the rows. More than some would fill disks: those are asked for twice.
        held_frames = (parsed.persist(StorageLevel.MEMORY_AND_DISK),) if may_cache else ()
        try:
            return replace(self._extraction(parsed, windows, self._find_keys(parsed)), held_frames=held_frames)
        except BaseException:
            for frame in held_frames:
                frame.unpersist()
            raise

    def _extraction(
        self,
        parsed: DataFrame,
        windows: Sequence[Window],
        by_window: Mapping[datetime, tuple[str, ...]],
        shape: LineShape | None = None,
    ) -> Extraction:
        """Return these messages as bronze has them. ``by_window``: the keys of each window. ``shape``: of the messages that
        were split; the scan then fails at a message with other keys.
        """
        bronze_names = base.ColumnNames(self._declared)
        keys_by_name: dict[str, list[str]] = {}
        for names in by_window.values():
            for name in names:
                keys_by_name.setdefault(bronze_names.bind(name), []).append(name)
        texts = {key: shape.value_of(key) for key in shape.keys} if shape else {}
        cells = {
            name: F.coalesce(*[texts[key] for key in keys if key in texts], field_text(keys))
            for name, keys in keys_by_name.items()
        }
        cells |= {name: message_column(name) for name in self._own}
        keyed = self._key_columns(bronze_names)
        lacking_key = reduce(lambda a, b: a | b, [value.isNull() for value in keyed.values()], F.lit(not keyed))
        description = F.concat(F.lit("a tombstone of the key "), F.coalesce("_key", F.lit("(none)")))
        corrupt = F.when(F.col("_tombstone"), F.when(lacking_key, description)).otherwise(F.col("_bad_text"))
        for name, value in keyed.items():
            cells[name] = F.coalesce(cells[name], value) if name in cells else value
        columns = {
            window: tuple(dict.fromkeys([*(bronze_names.bind(n) for n in by_window.get(window.start, ())), *keyed, *self._own]))
            for window in windows
        }
        column_lists = list_columns({window.start: names for window, names in columns.items()})
        if shape:
            column_lists = F.when(has_only_keys(shape.keys), column_lists).otherwise(F.raise_error(F.lit(OTHER_KEYS)))
        location = F.concat(F.lit(f"{self._source.topic}/"), F.col("partition"), F.lit("@"), F.col("offset"))
        good = corrupt.isNull()
        frame = parsed.select(
            "p_extracted_at",
            location.alias("_source_file"),
            column_lists.alias("_columns"),
            corrupt.alias("_corrupt_record"),
            *[F.when(good, value).alias(name) for name, value in cells.items()],
        )
        respelled = {window: bronze_names.respelled_columns(by_window.get(window.start, ())) for window in windows}
        return Extraction(frame, {}, columns, respelled=respelled)

    def _parse(self, rows: DataFrame) -> DataFrame:
        if self._source.registry is None:
            return parse_objects(with_line(rows))
        try:
            return parse_avro(rows, self._source.registry, self._settings)
        except SourceError as error:
            raise SourceError(f"{self._source.location}: {error}") from None

    def _key_columns(self, bronze_names: base.ColumnNames) -> dict[str, Column]:
        """Return the message key's columns by their bronze names: a JSON object's fields, or one column of its text."""
        names = self._source.message_key
        key = F.expr("try_cast(try_parse_json(CASE WHEN is_valid_utf8(_key) THEN _key END) AS MAP<STRING, VARIANT>)")
        fields = {bronze_names.bind(name): F.element_at(key, F.lit(name)).cast("string") for name in names}
        return {name: F.coalesce(value, F.col("_key")) for name, value in fields.items()} if len(names) == 1 else fields

    def _find_keys(self, rows: DataFrame) -> dict[datetime, tuple[str, ...]]:
        """Return the sorted keys of each window's messages. One job. Raises SourceError for more keys than a table can have."""
        by_start = sorted_keys(rows, "p_extracted_at")
        rows_by_start = by_start.select(F.unix_millis("p_extracted_at").alias("at"), "keys").collect()
        epoch = datetime.fromtimestamp(0, UTC)
        by_window = {epoch + timedelta(milliseconds=row["at"]): tuple(row["keys"]) for row in rows_by_start}
        for start, names in by_window.items():
            if len(names) > base.MAX_COLUMNS:
                moment = f"{start:%Y-%m-%d %H:%M}"
                raise SourceError(f"{self._source.location}: messages of {moment} have over {base.MAX_COLUMNS:,} keys")
        return by_window


def select_message(scanned: DataFrame) -> DataFrame:
    """Return what is needed of scanned messages, with ``_key``, their key as text, and ``_tombstone``."""
    text = F.col("key").cast("string")
    key = F.when(F.expr("is_valid_utf8(CAST(key AS STRING))"), text).otherwise(base.one_line_base64(F.col("key")))
    tombstone = F.col("value").isNull().alias("_tombstone")
    return scanned.select("p_extracted_at", "partition", "offset", "timestamp", "value", key.alias("_key"), tombstone)
