"""A table as Spark reads it: opened by name or format, its rows by window, and one aggregation for the numbers of all windows.

Belongs here: what runs on Spark, with messages that name the key of the YAML. Does not: polls (table), or a Spark of their own
(table_poll).

All bounds of windows are whole multiples of one stretch of time after the first. A row's stretch is a division, so that windows
are joined by equality, and grouped, however many they are.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property, reduce
from math import gcd
from operator import or_
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.spark_table import SparkTableSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.personal import MASKED
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.sources import base
from lakehouse_assets.sources.clock_times import clock_time
from lakehouse_assets.sources.jdbc_intervals import merge_spans
from lakehouse_assets.sources.parquet_files import value_text

TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType)
EPOCH = datetime.fromisoformat("1970-01-01")
DAY = 86_400
ROOM = T.DecimalType(38, 0)
# What an error's condition means, besides the reader's own message.
ABSENT = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "NoSuchTable", "NoSuchNamespace")
NO_FORMAT = ("DATA_SOURCE_NOT_FOUND", "Failed to find the data source")
NO_PATH = ("PATH_NOT_FOUND", "Path does not exist", "DELTA_MISSING_DELTA_TABLE", "DELTA_TABLE_NOT_FOUND")


class TableScan:
    """One table on a session. ``path``, ``options``: as Spark takes them, with their secrets. ``personal``: no error of Spark's
    is quoted. Its methods raise SourceError or EnvironmentMissing, without a secret.
    """

    def __init__(
        self, spark: SparkSession, source: SparkTableSource, path: str | None, options: Mapping[str, str], personal: bool
    ) -> None:
        self.spark, self._source, self._personal = spark, source, personal
        self._path, self._options = path, dict(options)

    @cached_property
    def schema(self) -> T.StructType:
        """The table's columns and types. Raises SourceError for names that bronze cannot have."""
        fields = self._opened.schema
        if why := base.find_name_problem(fields.names):
            raise SourceError(f"{self._source.location}: {why}")
        return fields

    @property
    def rows(self) -> DataFrame:
        """The table's rows, lazily, under names of ours: the table's own may be any."""
        return self._opened.toDF(*[f"_c{index}" for index, _ in enumerate(self.schema)])

    @property
    def texts(self) -> list[Column]:
        """Each column of `rows`, as bronze has it."""
        return [value_text(F.col(f"_c{index}"), field.dataType) for index, field in enumerate(self.schema)]

    @cached_property
    def _opened(self) -> DataFrame:
        try:
            if self._source.table is not None:
                opened = self.spark.table(".".join(map(identifier, self._source.table.split("."))))
            else:
                reader = self.spark.read.format(self._source.format or "").options(**self._options)
                opened = reader.load(self._path) if self._path else reader.load()
            opened.schema  # noqa: B018 (asks for it now)
        except base.SCAN_ERRORS as error:
            raise self.as_source_error(error) from None
        return opened

    @cached_property
    def modified(self) -> tuple[int, T.DataType]:
        """The index and type of the column of modification times. Raises SourceError if there is none, or it is no time."""
        name, where = self._source.modified or "", f"{self._source.location}: source.modified"
        for index, field in enumerate(self.schema):
            if field.name.lower() == name.lower():
                if not isinstance(field.dataType, TIMES):
                    kind = field.dataType.simpleString()
                    raise SourceError(f"{where}: {field.name} is {kind}, and no timestamp, timestamp_ntz or date")
                return index, field.dataType
        raise SourceError(f"{where}: there is no column {name!r}; it has {', '.join(self.schema.names)}")

    def numbers(self, windows: Sequence[Window]) -> dict[str, list[str]]:
        """Return count, first and last time and a hash of each window that has rows, by the window's key. One job."""
        time = F.col(f"_c{self.modified[0]}")
        hashed = [F.coalesce(text, F.lit("\0")) for text in self.texts] if self._source.fingerprint == "content" else [time]
        cells = [F.count("*"), F.min(time), F.max(time), F.sum(F.xxhash64(*hashed).cast(ROOM))]
        texts = [cell.cast("string").alias(f"_n{index}") for index, cell in enumerate(cells)]
        try:
            grouped = self.within(windows).groupBy(F.unix_seconds("p_extracted_at").alias("_at")).agg(*texts).collect()
        except base.SCAN_ERRORS as error:
            raise self.as_source_error(error) from None
        keys = {int(window.start.timestamp()): window.key for window in windows}
        return {keys[row["_at"]]: list(row[1:]) for row in grouped}

    def within(self, windows: Sequence[Window]) -> DataFrame:
        """Return `rows` of these windows after the window's start, `p_extracted_at`."""
        index, kind = self.modified
        bounds = {w: (self._bound(w.start, kind), self._bound(w.end, kind)) for w in windows}
        spans = {window: (low, high) for window, (low, high) in bounds.items() if low < high}
        time = F.col(f"_c{index}")
        conditions = [
            (time >= _literal(low, kind)) & (time < _literal(high, kind)) for low, high in merge_spans(spans) if low is not None
        ]
        first = min((low for low, _ in spans.values()), default=EPOCH)
        seconds = {w: (_elapsed(low, first), _elapsed(high, first)) for w, (low, high) in spans.items()}
        step = reduce(gcd, [each for pair in seconds.values() for each in pair], 0) or 1
        starts_by_stretch = {at // step: w.start for w, (low, high) in sorted(seconds.items()) for at in range(low, high, step)}
        stretches = list(starts_by_stretch.items())
        starts = base.small_frame(self.spark, {"_stretch": pa.int64(), "p_extracted_at": base.MOMENT}, stretches)
        stretch = F.floor((_seconds(time, kind) - F.lit(_elapsed(first, EPOCH))) / F.lit(step)).cast("bigint")
        rows = self.rows.where(reduce(or_, conditions, F.lit(False))).withColumn("_stretch", stretch)
        return rows.join(F.broadcast(starts), "_stretch").select(
            "p_extracted_at", *[f"_c{n}" for n, _ in enumerate(self.schema)]
        )

    def _bound(self, moment: datetime, kind: T.DataType) -> datetime:
        """Return a moment as the column has it, without a zone; for a date, the first that begins at it or later."""
        if isinstance(kind, T.TimestampType):
            return moment.astimezone(UTC).replace(tzinfo=None)
        local = clock_time(moment, ZoneInfo(self._source.timezone))
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        return local if isinstance(kind, T.TimestampNTZType) or local == midnight else midnight + timedelta(days=1)

    def as_source_error(self, error: Exception) -> Exception:
        """Return the error for what Spark answers, with the key of the YAML and the way out, and without a secret."""
        line, text = base.first_line(error), f"{error} {base.innermost_message(error)}"
        for secret in sorted((self._options[name] for name in self._source.secret_options), key=len, reverse=True):
            line = line.replace(secret, "…") if secret else line
        where = self._source.location
        if any(sign in text for sign in NO_FORMAT):
            return EnvironmentMissing(
                f"{where}: source.format: Spark has no data source {self._source.format!r}: put its jar on the class path"
                " (`spark.jars` in LAKEHOUSE_SPARK_CONF)"
            )
        if self._source.table is not None and any(sign in text for sign in ABSENT):
            return SourceError(f"{where}: source.table: Spark's catalog has no table of this name")
        if any(sign in text for sign in NO_PATH):
            return SourceError(f"{where}: source.path: there is nothing that Spark reads as {self._source.format}")
        if self._personal:
            line = f"{type(error).__name__} {MASKED}"
        action = (
            "the catalog cannot be asked"
            if self._source.table is not None and "_opened" not in vars(self)
            else "it cannot be read"
        )
        return SourceError(f"{where}: {action}: {line}")


def _elapsed(moment: datetime, since: datetime) -> int:
    return int((moment - since).total_seconds())


def _literal(moment: datetime, kind: T.DataType) -> Column:
    """Return a bound as a literal of the column's own type, so that files are passed over by their statistics."""
    zone = "Z" if isinstance(kind, T.TimestampType) else ""
    text = moment.date().isoformat() if isinstance(kind, T.DateType) else f"{moment.isoformat()}{zone}"
    return F.lit(text).cast(kind)


def _seconds(time: Column, kind: T.DataType) -> Column:
    """Return whole seconds since 1970 of a time as the column has it."""
    if isinstance(kind, T.DateType):
        return F.unix_date(time).cast("bigint") * DAY
    # Of a time without a zone: the session's is UTC.
    return F.unix_seconds(time.cast("timestamp"))
