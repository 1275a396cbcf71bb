"""The source kind `kafka`: a topic's messages by recorded ranges of offsets, read by Spark in batch.

Belongs here: from windows to one lazy frame of their messages. Does not: which offsets are a window's (kafka_ranges), or asking
the brokers (kafka_client), or what a JSON object becomes (json_files).
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.kafka_source import OF_THE_MESSAGE, KafkaSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import FETCH_JARS, SCAN_ERRORS, Extraction, innermost, one_line_base64
from lakehouse_assets.sources.json_files import field, with_objects
from lakehouse_assets.sources.kafka_client import Topic, spark_options, topic
from lakehouse_assets.sources.kafka_ranges import Range, as_text, from_text, ranges, unbroken
from lakehouse_assets.sources.names import MAX_COLUMNS, Spelling

# Keys that cannot be columns, each message by itself: empty, broken, too many, or two that differ in letter case only.
UNUSABLE = f"""exists(_names, n -> n = '' OR contains(n, '\\u0000') OR contains(n, '\\ufffd'))
 OR size(_names) > {MAX_COLUMNS} OR size(array_distinct(transform(_names, n -> lower(n)))) < size(_names)"""


class KafkaReader:
    """A topic's messages. ``calendar``: all of the table's windows up to a moment. ``recorded``: ranges that are on record."""

    def __init__(
        self,
        source: KafkaSource,
        settings: Settings,
        calendar: Callable[[datetime], Sequence[Window]],
        declared: Sequence[str] = (),
        recorded: Mapping[datetime, str] | None = None,
        taken: Mapping[datetime, str] | None = None,
    ) -> None:
        """Nobody is asked yet. ``taken``: fingerprints of windows that were read."""
        self._source, self._settings, self._calendar, self._declared = source, settings, calendar, tuple(declared)
        self._recorded = {start: from_text(text) for start, text in (recorded or {}).items()}
        self._taken = dict(taken or {})

    def fingerprints(self, windows: Iterable[Window]) -> dict[Window, str]:
        """The windows that have messages, each with a hash of its range; one on record never changes. Raises SourceError."""
        return {window: self._print(taken) for window, taken in self._ranges(list(windows)).items()}

    def columns(self, window: Window) -> tuple[str, ...]:
        """Only a scan could tell."""
        return ()

    def positions(self, windows: Sequence[Window]) -> dict[Window, str]:
        """The ranges of these windows, and of those before them, since each begins where another ends."""
        found = self._ranges(self._up_to(windows)) if windows else {}
        return {window: as_text(taken) for window, taken in found.items() if window.start not in self._recorded}

    def read(self, spark: SparkSession, windows: Sequence[Window], unreadable: Mapping[str, str] | None = None) -> Extraction:
        """One lazy frame of these windows' messages, after a job that finds their columns.

        Raises SourceError where messages of them have been deleted by the topic's retention.
        """
        if unreadable:
            raise SourceError("; ".join(unreadable.values()))
        of = self._ranges(windows)
        self._refuse_lost(of)
        options = spark_options(self._settings)
        try:
            rows = reduce(DataFrame.union, [self._scan(spark, group, of, options) for group in unbroken(list(of), of)])
            return self._extraction(spark, rows, list(of))
        except SCAN_ERRORS as error:
            if "Failed to find" in str(error) and "kafka" in str(error):
                raise EnvironmentMissing(
                    f"Spark lacks Kafka's jars: `{FETCH_JARS}` fetches them, in this same environment"
                ) from None
            self._refuse_lost(of)
            raise SourceError(f"topic {self._source.topic}: {_told(error)}") from None

    def probe(self, spark: SparkSession, windows: Sequence[Window]) -> dict[str, str]:
        """Nothing: a topic has no parts. Raises SourceError where reading is what fails."""
        of = self._ranges(windows)
        try:
            self.read(spark, windows).frame.write.format("noop").mode("overwrite").save()
        except SCAN_ERRORS as error:
            self._refuse_lost(of)
            raise SourceError(f"topic {self._source.topic}: {_told(error)}") from None
        return {}

    def _ranges(self, windows: Sequence[Window]) -> dict[Window, Range]:
        """Of those of these windows that have one."""
        if not windows:
            return {}
        self._refuse_another_name()
        if all(window.start in self._recorded for window in windows):
            return {window: self._recorded[window.start] for window in sorted(windows)}
        with topic(self._settings, self._source.topic) as asked:
            _, end = asked.bounds()
            self._refuse_another_topic(asked, end)
            found = ranges(self._up_to(windows), self._recorded, asked.at, end)
        wanted = set(windows)
        return {window: taken for window, taken in found.items() if window in wanted}

    def _up_to(self, windows: Sequence[Window]) -> Sequence[Window]:
        """All windows up to these, and up to what is on record: those before the first one of it share out what was before."""
        return self._calendar(max([*(window.end for window in windows), *self._recorded]))

    def _refuse_another_name(self) -> None:
        """Offsets on record mean nothing in another topic. A range is known again by the fingerprint that it was read under."""
        read = [start for start in self._taken if start in self._recorded]
        if read and self._taken[max(read)] != self._print(self._recorded[max(read)]):
            raise SourceError(
                f"topic {self._source.topic}: what this table has was read from a topic of another name; say that name again,"
                " and read this topic by a table of another name"
            )

    def _refuse_another_topic(self, asked: Topic, end: Mapping[int, int]) -> None:
        newest = self._recorded[max(self._recorded)] if self._recorded else {}
        for partition, (_, high) in newest.items():
            if end.get(partition, 0) < high:
                raise SourceError(
                    f"topic {self._source.topic}: partition {partition} ends at offset {end.get(partition, 0)}, and was read up"
                    f" to {high}: it was deleted and made again, or truncated. Read what it has now by a table of another name"
                )

    def _refuse_lost(self, of: Mapping[Window, Range]) -> None:
        with topic(self._settings, self._source.topic) as asked:
            low, _ = asked.bounds()
        lost = [
            f"partition {partition}, offsets {begin} to {min(low.get(partition, end), end) - 1} (window {window.key})"
            for window, taken in of.items()
            for partition, (begin, end) in taken.items()
            if begin < end and low.get(partition, end) > begin
        ]
        if lost:
            raise SourceError(
                f"topic {self._source.topic}: messages were deleted by its retention before they were read: {'; '.join(lost)}."
                " They are lost to this table; to go on without them, set extraction.start after that window"
            )

    def _scan(
        self, spark: SparkSession, group: Sequence[Window], of: Mapping[Window, Range], options: Mapping[str, str]
    ) -> DataFrame:
        name = self._source.topic
        last = of[group[-1]]
        first: dict[int, int] = {}
        for window in group:
            first = {partition: low for partition, (low, _) in of[window].items()} | first
        bounds = {
            "assign": {name: sorted(last)},
            "startingOffsets": {name: {str(p): first[p] for p in sorted(last)}},
            "endingOffsets": {name: {str(p): last[p][1] for p in sorted(last)}},
        }
        told = {**options, **{key: json.dumps(value) for key, value in bounds.items()}, "failOnDataLoss": "true"}
        raw = spark.read.format("kafka").options(**told).load()
        places = _places(spark, group, of)
        within = (raw["offset"] >= places["_from"]) & (raw["offset"] < places["_to"])
        return raw.join(F.broadcast(places), (raw["partition"] == places["_partition"]) & within)

    def _extraction(self, spark: SparkSession, rows: DataFrame, windows: Sequence[Window]) -> Extraction:
        text = F.col("key").cast("string")
        rows = with_objects(
            rows.select(
                *("p_extracted_at", "partition", "offset", "timestamp"),
                F.col("value").cast("string").alias("_line"),
                F.when(F.expr("is_valid_utf8(CAST(key AS STRING))"), text)
                .otherwise(one_line_base64(F.col("key")))
                .alias("_key"),
            )
        )
        rows = rows.withColumn("_names", F.map_keys("_object"))
        rows = rows.withColumn("_object", F.when(~F.expr(UNUSABLE), F.col("_object"))).drop("_names")
        by_window = self._keys(rows)
        spelling = Spelling(self._declared)
        spellings: dict[str, list[str]] = {}
        for names in by_window.values():
            for name in names:
                spellings.setdefault(spelling.learn(name), []).append(name)
        own = [name for name in OF_THE_MESSAGE if name in self._declared]
        cells = {name: field(keys) for name, keys in spellings.items()}
        cells |= {name: _of_the_message(name) for name in own}
        tombstone, bad = F.col("_line").isNull(), F.col("_object").isNull()
        kept = F.when(bad, F.make_valid_utf8("_line"))
        keyed = self._keyed(spelling)
        lacking_key = reduce(lambda a, b: a | b, [value.isNull() for value in keyed.values()], F.lit(not keyed))
        told = F.concat(F.lit("a tombstone of the key "), F.coalesce("_key", F.lit("(none)")))
        corrupt = F.when(tombstone, F.when(lacking_key, told)).otherwise(kept)
        for name, value in keyed.items():
            cells[name] = F.coalesce(cells[name], value) if name in cells else value
        columns = {
            window: tuple(dict.fromkeys([*(spelling.learn(n) for n in by_window.get(window.start, ())), *keyed, *own]))
            for window in windows
        }
        named = [
            cell for w in windows for cell in (F.lit(w.start), F.array(*[F.lit(n) for n in columns[w]]).cast("array<string>"))
        ]
        where = F.concat(F.lit(f"{self._source.topic}/"), F.col("partition"), F.lit("@"), F.col("offset"))
        good = corrupt.isNull()
        frame = rows.select(
            "p_extracted_at",
            where.alias("_source_file"),
            F.element_at(F.create_map(*named), F.col("p_extracted_at")).alias("_columns"),
            corrupt.alias("_corrupt_record"),
            *[F.when(good, value).alias(name) for name, value in cells.items()],
        )
        respelled = {window: spelling.respelled(by_window.get(window.start, ())) for window in windows}
        return Extraction(frame, {}, columns, respelled=respelled)

    def _keyed(self, spelling: Spelling) -> dict[str, Column]:
        """The columns of the message's key, by their names in bronze: of a JSON object of them, or (one) as its text."""
        names = self._source.message_key
        key = F.expr("try_cast(try_parse_json(CASE WHEN is_valid_utf8(_key) THEN _key END) AS MAP<STRING, VARIANT>)")
        fields = {spelling.learn(name): F.element_at(key, F.lit(name)).cast("string") for name in names}
        return {name: F.coalesce(value, F.col("_key")) for name, value in fields.items()} if len(names) == 1 else fields

    def _keys(self, rows: DataFrame) -> dict[datetime, tuple[str, ...]]:
        """The keys of each window's messages, sorted. One job. Raises SourceError for more than a table can have."""
        keys = rows.select("p_extracted_at", F.explode(F.map_keys("_object")).alias("key")).distinct()
        found = keys.groupBy("p_extracted_at").agg(
            F.slice(F.sort_array(F.collect_set("key")), 1, MAX_COLUMNS + 1).alias("keys")
        )
        rows_found = found.select(F.unix_seconds("p_extracted_at").alias("at"), "keys").collect()
        by_window = {datetime.fromtimestamp(row["at"], UTC): tuple(row["keys"]) for row in rows_found}
        for start, names in by_window.items():
            if len(names) > MAX_COLUMNS:
                raise SourceError(
                    f"topic {self._source.topic}: messages of {start:%Y-%m-%d %H:%M} have over {MAX_COLUMNS:,} keys"
                )
        return by_window

    def _print(self, taken: Range) -> str:
        return hashlib.sha256(f"{self._source.topic}\0{as_text(taken)}".encode()).hexdigest()[:32]


def _places(spark: SparkSession, group: Sequence[Window], of: Mapping[Window, Range]) -> DataFrame:
    """A row for each partition's part of each window."""
    parts = [
        (window.start, partition, low, high) for window in group for partition, (low, high) in of[window].items() if low < high
    ]
    types = {"p_extracted_at": pa.timestamp("us", "UTC"), "_partition": pa.int32(), "_from": pa.int64(), "_to": pa.int64()}
    arrays = [pa.array([part[place] for part in parts], kind) for place, kind in enumerate(types.values())]
    return spark.createDataFrame(pa.table(dict(zip(types, arrays, strict=True))))


def _of_the_message(name: str) -> Column:
    """What a message has beside its value, as text."""
    return {
        "kafka_partition": F.col("partition").cast("string"),
        "kafka_offset": F.col("offset").cast("string"),
        "kafka_timestamp": F.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"),
        "kafka_key": F.col("_key"),
        "kafka_tombstone": F.col("_line").isNull().cast("string"),
    }[name]


def _told(error: Exception) -> str:
    """The first line of what Spark's client said in the end."""
    return (innermost(error).strip().splitlines() or [type(error).__name__])[0][:500]
