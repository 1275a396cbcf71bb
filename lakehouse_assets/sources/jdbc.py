"""The source kind `jdbc`: the rows of a database's table by the time at which they were modified, or all of them.

Belongs here: from windows to one lazy frame of their rows, read by Spark. Does not: SQL and polls (database).

Each window's rows are a condition on the bare column, one query each. A window is not read in one snapshot: a row modified
during the read changes the fingerprint, and the window is read again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import base
from lakehouse_assets.sources.base import Extraction
from lakehouse_assets.sources.database import Database
from lakehouse_assets.sources.driver_database import driver_error
from lakehouse_assets.sources.generic_database import GenericDatabase
from lakehouse_assets.sources.jdbc_intervals import Spans, assign_intervals, interval_to_text, merge_spans
from lakehouse_assets.sources.mariadb import MariaDb
from lakehouse_assets.sources.parquet_files import value_text
from lakehouse_assets.sources.postgres import Postgres
from lakehouse_assets.sources.snapshots import snapshot_fingerprints, snapshot_rows

# By the scheme of the address.
KINDS: dict[str, type[Database]] = {"postgresql": Postgres, "mariadb": MariaDb, "mysql": MariaDb}


class JdbcReader:
    """A table's rows. ``recorded``: positions of windows that were read before; with `history: watermark`, their intervals.
    ``fingerprints``: the recorded fingerprints of those windows. ``timeout_seconds``, ``personal``: as for `Database`.
    """

    def __init__(
        self,
        source: JdbcSource,
        settings: Settings,
        declared: Sequence[str] = (),
        recorded: Mapping[datetime, str] | None = None,
        fingerprints: Mapping[datetime, str] | None = None,
        timeout_seconds: int | None = None,
        *,
        personal: bool = False,
    ) -> None:
        self._source, self._declared, self._recorded = source, tuple(declared), dict(recorded or {})
        self._fingerprints = dict(fingerprints or {})
        self._opening = (settings, timeout_seconds, personal)

    @cached_property
    def _database(self) -> Database:
        return open_database(self._source, *self._opening)

    def fingerprints(self, windows: Iterable[Window]) -> dict[Window, str]:
        """Return a hash of each window's rows: their count, times and, if configured, content.

        With `history: watermark` every window arrives when it is over, and never changes. It is ingested once: reading it again
        would replace the only copy of the old rows with the table's present ones. With `history: none` the newest one arrives.
        """
        windows = list(windows)
        if self._source.history == "watermark":
            self._database.columns  # noqa: B018 (is the table there?)
            table = self._source.table
            return {w: self._fingerprints.get(w.start, base.hash_parts(table, "watermark", w.key)) for w in windows}
        if self._source.history == "none":
            self._database.columns  # noqa: B018 (is the table there?)
            return snapshot_fingerprints(windows, self._fingerprints, self._source.location)
        parts = self._database.fingerprint_parts(self._spans(windows))
        # A window that had rows, and has none now, has changed; one that never had any has not arrived.
        emptied = {window: (0,) for window in windows if window.start in self._recorded and window not in parts}
        return {window: base.hash_parts(*parts) for window, parts in (parts | emptied).items()}

    def columns(self, window: Window) -> tuple[str, ...]:
        """Return the table's columns."""
        return tuple(self._database.columns)

    def positions(self, windows: Sequence[Window]) -> dict[Window, str]:
        """Return the intervals of these windows that are not recorded yet, with `history: watermark`."""
        if not self._source.records_positions:
            return {}
        spans = self._spans(windows).items()
        return {window: interval_to_text(*span) for window, span in spans if window.start not in self._recorded}

    def read(self, spark: SparkSession, windows: Sequence[Window], unreadable: Mapping[str, str] | None = None) -> Extraction:
        """Return one lazy frame of these windows' rows. Raises SourceError; EnvironmentMissing without the driver's jar."""
        if unreadable:
            raise SourceError("; ".join(unreadable.values()))
        columns = self._database.columns
        if why := base.find_name_problem(tuple(columns)):
            raise SourceError(f"{self._source.location}: {why}")
        bronze_names = base.ColumnNames(self._declared)
        names = tuple(bronze_names.bind(name) for name in columns)
        if self._source.history == "none":
            rows, control = self._all_rows(spark, windows), {}
        else:
            spans = self._spans(windows)
            control = self._database.control_totals(spans)
            rows = self._rows(spark, spans)
        types = {bronze_names.bind(name): type_name for name, type_name in self._database.types.items()}
        if not self._database.writes_text:
            types = {
                n: base.type_text(field.dataType) for n, field in zip(names, rows.schema.fields[-len(names) :], strict=True)
            }
        respelled = dict.fromkeys(windows, bronze_names.respelled_columns(columns))
        frame = self._frame(rows, names)
        return Extraction(frame, {}, dict.fromkeys(windows, names), {}, dict.fromkeys(windows, types), respelled, control)

    def probe(self, spark: SparkSession, windows: Sequence[Window]) -> dict[str, str]:
        """Return nothing: a database has no parts. Raises SourceError, without any address, if reading fails."""
        return base.probe_whole(lambda: self.read(spark, windows), self._as_source_error)

    def _spans(self, windows: Iterable[Window]) -> Spans:
        if self._source.history == "window":
            return {window: (window.start, window.end) for window in windows}
        return assign_intervals(windows, self._recorded, timedelta(minutes=self._source.overlap_minutes or 0))

    def _all_rows(self, spark: SparkSession, windows: Sequence[Window]) -> DataFrame:
        """Return the whole table's values by one query, after the start of each window."""
        database = self._database
        cells = [f"{sql} AS lakehouse_c{index}" for index, sql in enumerate(database.columns.values())]
        rows = self._query(spark, f"(SELECT {', '.join(cells)} FROM {database.relation}) q")
        return snapshot_rows(spark, rows.toDF(*[f"lakehouse_c{index}" for index, _ in enumerate(cells)]), windows)

    def _query(self, spark: SparkSession, table: str, predicates: Sequence[str] = ("1=1",)) -> DataFrame:
        """Return the lazy rows of a subquery; one query for each predicate."""
        url, properties = self._database.jdbc
        try:
            rows = spark.read.jdbc(url, table, predicates=list(predicates), properties=properties)
        except base.SCAN_ERRORS as error:
            raise self._as_source_error(error) from None
        if not self._database.writes_text:
            self._require_quotes(spark, url)
        return rows

    def _rows(self, spark: SparkSession, spans: Spans) -> DataFrame:
        """Return the window's start of each row, then its values."""
        database = self._database
        cells = [f"{sql} AS lakehouse_c{index}" for index, sql in enumerate(database.columns.values())]
        bucket = [f"{database.bucket(spans)} AS lakehouse_w"] if database.writes_text else []
        table = f"(SELECT {', '.join([database.modified, *bucket, *cells])} FROM {database.relation}) q"
        rows = self._query(spark, table, self._parts(spans) or ["1=0"])
        # By position: some databases write all names in capitals.
        cell_names = [f"lakehouse_c{index}" for index, _ in enumerate(cells)]
        rows = rows.toDF("lakehouse_m", *["lakehouse_w" for _ in bucket], *cell_names)
        windows = sorted(database.windows_by_bucket(spans).items())
        if bucket:
            starts = [(number, window.start) for number, window in windows]
            by_bucket = base.small_frame(spark, {"lakehouse_w": pa.int32(), "p_extracted_at": base.MOMENT}, starts)
            joined = rows.join(F.broadcast(by_bucket), "lakehouse_w", "left")
        else:
            thresholds = [None, *database.thresholds(spans)]
            intervals = [(thresholds[number], thresholds[number + 1], window.start) for number, window in windows]
            types = {"lakehouse_low": pa.timestamp("us"), "lakehouse_high": pa.timestamp("us"), "p_extracted_at": base.MOMENT}
            moment = F.col("lakehouse_m").cast("timestamp_ntz")
            since = F.col("lakehouse_low").isNull() | (moment >= F.col("lakehouse_low"))
            by_time = base.small_frame(spark, types, intervals)
            joined = rows.join(F.broadcast(by_time), since & (moment < F.col("lakehouse_high")), "left")
        return joined.select("p_extracted_at", *cell_names)

    def _frame(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        unexpected = F.raise_error(F.lit("a row of a time that was not asked for")).cast("timestamp")
        values = [value_text(F.col(field.name), field.dataType) for field in rows.schema.fields[1:]]
        return rows.select(
            F.coalesce("p_extracted_at", unexpected).alias("p_extracted_at"),
            F.lit(self._source.location).alias("_source_file"),
            F.array(*[F.lit(name) for name in names]).alias("_columns"),
            F.lit(None).cast("string").alias("_corrupt_record"),
            *[value.alias(name) for value, name in zip(values, names, strict=True)],
        )

    def _require_quotes(self, spark: SparkSession, url: str) -> None:
        """Raise SourceError if Spark quotes names by another sign: the database would return the names as values."""
        name = "lakehouse_c0"
        jvm: Any = spark.sparkContext._jvm
        quoted = str(jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(url).quoteIdentifier(name))
        if quoted != self._database.quote(name):
            raise SourceError(
                f"{self._source.location}: Spark writes names of this database as {quoted}, and the database as"
                f" {self._database.quote(name)}; write a source kind for it"
            )

    def _parts(self, spans: Spans) -> list[str]:
        """Return conditions that divide these spans' rows; each becomes one query."""
        parts: list[str] = []
        count = self._source.partitions
        # As the column has its times: two moments of clocks that are set back may be one time, and a row is in one part.
        for low, high in merge_spans(self._database.bounds(spans)):
            oldest = self._database.oldest() if low is None and count > 1 else None
            start = self._database.bound(oldest) if oldest else low
            if start is None or start >= high:
                parts.append(self._database.condition(low, high))
                continue
            cuts = [(start + (high - start) * index / count).replace(microsecond=0) for index in range(1, count)]
            parts += [self._database.condition(*part) for part in zip([low, *cuts], [*cuts, high], strict=True)]
        return parts

    def _as_source_error(self, error: Exception) -> Exception:
        if self._database.driver in str(error) and "ClassNotFound" in str(error):
            return EnvironmentMissing(
                f"Spark lacks {self._database.driver}: `{base.FETCH_JARS}` fetches those of PostgreSQL and MariaDB, in this"
                f" same environment; LAKEHOUSE_JDBC_{self._source.connection}_JARS names any other, before Spark starts"
            )
        message, sqlstate, is_network = driver_error(error)
        shown = self._database.shown_message(message, sqlstate, quotes_rows=not is_network)
        return SourceError(f"{self._source.location}: {shown}")


def open_database(source: JdbcSource, settings: Settings, timeout_seconds: int | None, personal: bool) -> Database:
    """Return the table by the kind of database that its address names. Raises EnvironmentMissing if there is no address."""
    address = settings.connection(source.connection).url.get_secret_value()
    scheme = re.match("jdbc:([^:]*)", address)
    kind = KINDS.get(scheme[1], GenericDatabase) if scheme else Postgres
    return kind(source, settings, timeout_seconds, personal=personal)
