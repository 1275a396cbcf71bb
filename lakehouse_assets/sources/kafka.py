"""The source kind `kafka`: a topic's messages by recorded ranges of offsets, read by Spark in batch.

Belongs here: from windows to one lazy scan of their messages. Does not: its rows (kafka_rows), assigning offsets to windows
(kafka_ranges), requests to brokers (kafka_client), or parsing values (json_files, avro_messages).
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.kafka_source import KafkaSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import base
from lakehouse_assets.sources.base import Extraction
from lakehouse_assets.sources.json_shape import find_shape
from lakehouse_assets.sources.kafka_client import Topic, open_topic, spark_options
from lakehouse_assets.sources.kafka_lost import Gap, find_gaps, gaps_error, with_gap_rows, without_gaps
from lakehouse_assets.sources.kafka_ranges import Range, assign_ranges, group_contiguous, range_from_text, range_to_text
from lakehouse_assets.sources.kafka_rows import MessageRows, select_message

# Messages of one read that Spark holds until they are stored.
MOST_HELD = 1_000_000
# Longer messages, in bytes, are not looked at to find a shape.
LONGEST_LINE = 10_000


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
        self._rows = MessageRows(source, settings, declared)
        self._source, self._settings, self._calendar, self._passes_lost = source, settings, calendar, passes_lost
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
        messages = sum(high - low for offsets in ranges.values() for low, high in offsets.values())
        try:
            extraction = self._rows.find_keys_and_read(self._scan(spark, ranges), list(ranges), may_cache=messages <= MOST_HELD)
            return with_gap_rows(spark, extraction, self._source.topic, gaps)
        except base.SCAN_ERRORS as error:
            if "Failed to find" in str(error) and "kafka" in str(error):
                text = f"Spark lacks Kafka's jars: `{base.FETCH_JARS}` fetches them, in this same environment"
                raise EnvironmentMissing(text) from None
            raise self._as_source_error(error, ranges) from None

    def read_in_one_pass(self, spark: SparkSession, window: Window, last_columns: Collection[str]) -> Extraction | None:
        """As `ReadsInOnePass`: where most of the first messages are JSON of one shape, and all have its keys. Raises as
        `fingerprints`.
        """
        ranges = self._ranges([window])
        if self._source.registry is not None or window not in ranges:
            return None
        with open_topic(self._settings, self._source.topic) as client:
            gaps = find_gaps(ranges, client.bounds()[0])
            shape = None if gaps else find_shape(_first_lines(client, ranges[window]))
        try:
            return self._rows.read_shape(self._scan(spark, ranges), window, shape, last_columns) if shape else None
        except base.SCAN_ERRORS:
            return None

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

    def _scan(self, spark: SparkSession, ranges: Mapping[Window, Range]) -> DataFrame:
        """Return the messages of these ranges, lazily: one scan of each group of ranges that adjoin."""
        groups = group_contiguous(list(ranges), ranges)
        return reduce(DataFrame.union, [select_message(self._scan_group(spark, group, ranges)) for group in groups])

    def _scan_group(self, spark: SparkSession, group: Sequence[Window], ranges: Mapping[Window, Range]) -> DataFrame:
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
        options = {**spark_options(self._settings), **{key: json.dumps(value) for key, value in bounds.items()}}
        raw = spark.read.format("kafka").options(**options, failOnDataLoss="true").load()
        if len(group) == 1:
            # A literal would be part of the code that Spark generates, which it would compile anew for each window.
            starts = F.create_map(F.lit(name), F.lit(group[0].start))
            return raw.withColumn("p_extracted_at", F.element_at(starts, F.col("topic")))
        windows = _windows_frame(spark, group, ranges)
        within = (raw["offset"] >= windows["_from"]) & (raw["offset"] < windows["_to"])
        return raw.join(F.broadcast(windows), (raw["partition"] == windows["_partition"]) & within)

    def _fingerprint(self, offsets: Range) -> str:
        return base.hash_parts(self._source.topic, range_to_text(offsets))


def _first_lines(client: Topic, offsets: Range) -> list[str]:
    """Return the first messages of the partition that has most of them, as text, without long ones. Empty if none arrive in
    time: they are only a hint.
    """
    partition, (first, end) = max(offsets.items(), key=lambda item: item[1][1] - item[1][0])
    try:
        values = client.sample_values(partition, first, end) if first < end else []
    except SourceError:
        return []
    return [value.decode("utf-8", "replace") for value in values if len(value) <= LONGEST_LINE]


def _windows_frame(spark: SparkSession, group: Sequence[Window], ranges: Mapping[Window, Range]) -> DataFrame:
    """Return a frame with a row for each partition's part of each window."""
    ranged = [(window.start, partition, *bounds) for window in group for partition, bounds in ranges[window].items()]
    parts = [part for part in ranged if part[2] < part[3]]
    types = {"p_extracted_at": base.MOMENT, "_partition": pa.int32(), "_from": pa.int64(), "_to": pa.int64()}
    return base.small_frame(spark, types, parts)
