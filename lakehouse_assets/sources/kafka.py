"""The source kind `kafka`: a topic's messages by recorded ranges of offsets, read by Spark in batch.

Belongs here: from windows to one lazy frame of their messages. Does not: assigning offsets to windows (kafka_ranges), requests
to brokers (kafka_client), or parsing values (json_files, avro_messages).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.kafka_source import OF_THE_MESSAGE, KafkaSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import base
from lakehouse_assets.sources.avro_messages import parse_avro
from lakehouse_assets.sources.base import Extraction
from lakehouse_assets.sources.json_files import field_text, parse_objects, sorted_keys
from lakehouse_assets.sources.kafka_client import Topic, open_topic, spark_options
from lakehouse_assets.sources.kafka_lost import Gap, find_gaps, gaps_error, with_gap_rows, without_gaps
from lakehouse_assets.sources.kafka_messages import message_column, select_usable
from lakehouse_assets.sources.kafka_ranges import Range, assign_ranges, group_contiguous, range_from_text, range_to_text

# Messages of one read that Spark holds until they are stored.
MOST_HELD = 1_000_000


class KafkaReader:
    """A topic's messages. ``calendar``: all of the table's windows up to a moment. ``recorded``: the ranges on record.
    ``fingerprints``: the recorded fingerprints of windows that were read. ``passes_lost``: a gap of deleted messages becomes a
    row that names it, instead of an error.
    """

    def __init__(
        self,
        source: KafkaSource,
        settings: Settings,
        calendar: Callable[[datetime], Sequence[Window]],
        declared: Sequence[str] = (),
        recorded: Mapping[datetime, str] | None = None,
        fingerprints: Mapping[datetime, str] | None = None,
        *,
        passes_lost: bool = False,
    ) -> None:
        self._passes_lost = passes_lost
        self._source, self._settings, self._calendar, self._declared = source, settings, calendar, tuple(declared)
        self._recorded = {start: range_from_text(text) for start, text in (recorded or {}).items()}
        self._fingerprints = dict(fingerprints or {})

    def fingerprints(self, windows: Iterable[Window]) -> dict[Window, str]:
        """Return a hash of the range of each window that has messages; a recorded range never changes."""
        return {window: self._fingerprint(offsets) for window, offsets in self._ranges(list(windows)).items()}

    def columns(self, window: Window) -> tuple[str, ...]:
        """Return nothing: only a scan shows a message's keys."""
        return ()

    def positions(self, windows: Sequence[Window]) -> dict[Window, str]:
        """Return the ranges of these windows and of those before them, since each begins where another ends."""
        ranges = self._ranges(self._up_to(windows)) if windows else {}
        return {window: range_to_text(offsets) for window, offsets in ranges.items() if window.start not in self._recorded}

    def read(self, spark: SparkSession, windows: Sequence[Window], unreadable: Mapping[str, str] | None = None) -> Extraction:
        """Return one lazy frame of these messages, after a job that finds the columns. Raises SourceError for deleted ones."""
        if unreadable:
            raise SourceError("; ".join(unreadable.values()))
        ranges = self._ranges(windows)
        gaps = self._find_gaps(ranges)
        if gaps and not self._passes_lost:
            raise gaps_error(self._source.location, gaps)
        ranges = without_gaps(ranges, gaps)
        options = spark_options(self._settings)
        try:
            scans = [self._scan(spark, group, ranges, options) for group in group_contiguous(list(ranges), ranges)]
            rows = reduce(DataFrame.union, scans)
            messages = sum(high - low for offsets in ranges.values() for low, high in offsets.values())
            return with_gap_rows(spark, self._extraction(rows, list(ranges), messages), self._source.topic, gaps)
        except base.SCAN_ERRORS as error:
            if "Failed to find" in str(error) and "kafka" in str(error):
                text = f"Spark lacks Kafka's jars: `{base.FETCH_JARS}` fetches them, in this same environment"
                raise EnvironmentMissing(text) from None
            raise self._as_source_error(error, ranges) from None

    def probe(self, spark: SparkSession, windows: Sequence[Window]) -> dict[str, str]:
        """Return nothing: a topic has no parts. Raises SourceError if reading fails."""
        ranges = self._ranges(windows)
        return base.probe_whole(lambda: self.read(spark, windows), lambda error: self._as_source_error(error, ranges))

    def _as_source_error(self, error: Exception, ranges: Mapping[Window, Range]) -> SourceError:
        """Return the first line of the Java client's innermost message. Raises SourceError if retention is the cause."""
        self._refuse_lost(ranges)
        return SourceError(f"{self._source.location}: {base.first_line(error)}")

    def _ranges(self, windows: Sequence[Window]) -> dict[Window, Range]:
        """Return the range of each of these windows that has one."""
        if not windows:
            return {}
        self._refuse_another_name()
        if all(window.start in self._recorded for window in windows):
            return {window: self._recorded[window.start] for window in sorted(windows)}
        with open_topic(self._settings, self._source.topic) as client:
            _, end = client.bounds()
            self._refuse_another_topic(client, end)
            ranges = assign_ranges(self._up_to(windows), self._recorded, client.offsets_at, end)
        requested = set(windows)
        return {window: offsets for window, offsets in ranges.items() if window in requested}

    def _up_to(self, windows: Sequence[Window]) -> Sequence[Window]:
        """Return all windows up to these and up to the record: those before the first recorded one share what was before it."""
        return self._calendar(max([*(window.end for window in windows), *self._recorded]))

    def _refuse_another_name(self) -> None:
        """Recorded offsets mean nothing in another topic: a recorded range must have the fingerprint of this topic's name."""
        starts = [start for start in self._fingerprints if start in self._recorded]
        if starts and self._fingerprints[max(starts)] != self._fingerprint(self._recorded[max(starts)]):
            raise SourceError(
                f"{self._source.location}: this table has read a topic of another name; restore that name,"
                " and declare a new table for this topic"
            )

    def _refuse_another_topic(self, client: Topic, end: Mapping[int, int]) -> None:
        newest = self._recorded[max(self._recorded)] if self._recorded else {}
        for partition, (_, high) in newest.items():
            if end.get(partition, 0) < high:
                raise SourceError(
                    f"{self._source.location}: partition {partition} ends at offset {end.get(partition, 0)}, and was read up"
                    f" to {high}: it was deleted and created again, or truncated. Declare a new table to read it from now on"
                )

    def _refuse_lost(self, ranges: Mapping[Window, Range]) -> None:
        if gaps := self._find_gaps(ranges):
            raise gaps_error(self._source.location, gaps)

    def _find_gaps(self, ranges: Mapping[Window, Range]) -> list[Gap]:
        with open_topic(self._settings, self._source.topic) as client:
            return find_gaps(ranges, client.bounds()[0])

    def _scan(
        self, spark: SparkSession, group: Sequence[Window], ranges: Mapping[Window, Range], options: Mapping[str, str]
    ) -> DataFrame:
        name = self._source.topic
        last = ranges[group[-1]]
        first: dict[int, int] = {}
        for window in group:
            first = {partition: low for partition, (low, _) in ranges[window].items()} | first
        bounds = {
            "assign": {name: sorted(last)},
            "startingOffsets": {name: {str(p): first[p] for p in sorted(last)}},
            "endingOffsets": {name: {str(p): last[p][1] for p in sorted(last)}},
        }
        settings = {**options, **{key: json.dumps(value) for key, value in bounds.items()}, "failOnDataLoss": "true"}
        raw = spark.read.format("kafka").options(**settings).load()
        windows = _windows_frame(spark, group, ranges)
        within = (raw["offset"] >= windows["_from"]) & (raw["offset"] < windows["_to"])
        return raw.join(F.broadcast(windows), (raw["partition"] == windows["_partition"]) & within)

    def _extraction(self, rows: DataFrame, windows: Sequence[Window], messages: int) -> Extraction:
        text = F.col("key").cast("string")
        key = F.when(F.expr("is_valid_utf8(CAST(key AS STRING))"), text).otherwise(base.one_line_base64(F.col("key")))
        rows = self._parse(rows.select("p_extracted_at", "partition", "offset", "timestamp", "value", key.alias("_key")))
        own = [name for name in OF_THE_MESSAGE if name in self._declared]
        rows = select_usable(rows, own)
        # Read once for the keys and the rows. More than some would fill disks: those are asked for twice.
        held_frames = (rows.persist(StorageLevel.MEMORY_AND_DISK),) if messages <= MOST_HELD else ()
        try:
            by_window = self._find_keys(rows)
        except BaseException:
            for frame in held_frames:
                frame.unpersist()
            raise
        bronze_names = base.ColumnNames(self._declared)
        keys_by_name: dict[str, list[str]] = {}
        for names in by_window.values():
            for name in names:
                keys_by_name.setdefault(bronze_names.bind(name), []).append(name)
        cells = {name: field_text(keys) for name, keys in keys_by_name.items()}
        cells |= {name: message_column(name) for name in own}
        keyed = self._key_columns(bronze_names)
        lacking_key = reduce(lambda a, b: a | b, [value.isNull() for value in keyed.values()], F.lit(not keyed))
        description = F.concat(F.lit("a tombstone of the key "), F.coalesce("_key", F.lit("(none)")))
        corrupt = F.when(F.col("_tombstone"), F.when(lacking_key, description)).otherwise(F.col("_bad_text"))
        for name, value in keyed.items():
            cells[name] = F.coalesce(cells[name], value) if name in cells else value
        columns = {
            window: tuple(dict.fromkeys([*(bronze_names.bind(n) for n in by_window.get(window.start, ())), *keyed, *own]))
            for window in windows
        }
        columns_by_start = [
            cell for w in windows for cell in (F.lit(w.start), F.array(*[F.lit(n) for n in columns[w]]).cast("array<string>"))
        ]
        location = F.concat(F.lit(f"{self._source.topic}/"), F.col("partition"), F.lit("@"), F.col("offset"))
        good = corrupt.isNull()
        frame = rows.select(
            "p_extracted_at",
            location.alias("_source_file"),
            F.element_at(F.create_map(*columns_by_start), F.col("p_extracted_at")).alias("_columns"),
            corrupt.alias("_corrupt_record"),
            *[F.when(good, value).alias(name) for name, value in cells.items()],
        )
        respelled = {window: bronze_names.respelled_columns(by_window.get(window.start, ())) for window in windows}
        return Extraction(frame, {}, columns, respelled=respelled, held_frames=held_frames)

    def _parse(self, rows: DataFrame) -> DataFrame:
        if self._source.registry is None:
            return parse_objects(rows.withColumn("_line", F.col("value").cast("string")).drop("value"))
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

    def _fingerprint(self, offsets: Range) -> str:
        return base.hash_parts(self._source.topic, range_to_text(offsets))


def _windows_frame(spark: SparkSession, group: Sequence[Window], ranges: Mapping[Window, Range]) -> DataFrame:
    """Return a frame with a row for each partition's part of each window."""
    ranged = [(window.start, partition, *bounds) for window in group for partition, bounds in ranges[window].items()]
    parts = [part for part in ranged if part[2] < part[3]]
    types = {"p_extracted_at": base.MOMENT, "_partition": pa.int32(), "_from": pa.int64(), "_to": pa.int64()}
    return base.small_frame(spark, types, parts)
