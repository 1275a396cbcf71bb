"""The source kind `jdbc`: a PostgreSQL table's rows by the time at which they were modified.

Belongs here: from windows to one lazy frame of their rows, read by Spark. Does not: SQL text and the light driver (postgres).

Each window's rows are a condition on the bare column, one query each; the database returns every value as text. A window is not
read in one snapshot: a row modified during the read changes the fingerprint, and the window is read again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import EnvironmentMissing, SourceError, java_causes
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import base
from lakehouse_assets.sources.base import Extraction
from lakehouse_assets.sources.postgres import Interval, Postgres, Spans, merge_spans, quote_name

NUMBERS = ("smallint", "integer", "bigint", "real", "double precision", "numeric")


class JdbcReader:
    """A table's rows. ``recorded``: positions of windows that were read before; with `history: watermark`, their intervals.
    ``fingerprints``: the recorded fingerprints of those windows. ``timeout_seconds``, ``personal``: as for `Postgres`.
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
        self._database = Postgres(source, settings, timeout_seconds, personal=personal)

    def fingerprints(self, windows: Iterable[Window]) -> dict[Window, str]:
        """Return a hash of each window's rows: their count, times and, if configured, content.

        With `history: watermark` every window arrives when it is over, and never changes. It is ingested once: reading it again
        would replace the only copy of the old rows with the table's present ones.
        """
        windows = list(windows)
        if self._source.history == "watermark":
            self._database.columns  # noqa: B018 (is the table there?)
            table = self._source.table
            return {w: self._fingerprints.get(w.start, base.hash_parts(table, "watermark", w.key)) for w in windows}
        parts = self._database.fingerprint_parts(self._spans(windows))
        # A window that had rows, and has none now, has changed; one that never had any has not arrived.
        emptied = {window: (0,) for window in windows if window.start in self._recorded and window not in parts}
        return {window: base.hash_parts(*parts) for window, parts in (parts | emptied).items()}

    def columns(self, window: Window) -> tuple[str, ...]:
        """Return the table's columns."""
        return tuple(self._database.columns)

    def positions(self, windows: Sequence[Window]) -> dict[Window, str]:
        """Return the intervals of these windows that are not recorded yet, with `history: watermark`."""
        if self._source.history == "window":
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
        spans = self._spans(windows)
        control = _control_totals(self._source, self._database, spans)
        frame = self._frame(spark, spans, names)
        types = {bronze_names.bind(name): type_name for name, type_name in self._database.types.items()}
        respelled = dict.fromkeys(windows, bronze_names.respelled_columns(columns))
        return Extraction(frame, {}, dict.fromkeys(windows, names), {}, dict.fromkeys(windows, types), respelled, control)

    def probe(self, spark: SparkSession, windows: Sequence[Window]) -> dict[str, str]:
        """Return nothing: a database has no parts. Raises SourceError, without any address, if reading fails."""
        try:
            self.read(spark, windows).frame.write.format("noop").mode("overwrite").save()
        except base.SCAN_ERRORS as error:
            raise self._as_source_error(error) from None
        return {}

    def _spans(self, windows: Iterable[Window]) -> Spans:
        if self._source.history == "window":
            return {window: (window.start, window.end) for window in windows}
        return assign_intervals(windows, self._recorded, timedelta(minutes=self._source.overlap_minutes or 0))

    def _frame(self, spark: SparkSession, spans: Spans, names: Sequence[str]) -> DataFrame:
        database = self._database
        cells = [f"{text} AS lakehouse_c{index}" for index, text in enumerate(database.columns.values())]
        selected = [database.modified, f"{database.bucket(spans)} AS lakehouse_w", *cells]
        table = f"(SELECT {', '.join(selected)} FROM {database.relation}) q"
        url, properties = database.jdbc
        try:
            rows = spark.read.jdbc(url, table, predicates=self._parts(spans) or ["false"], properties=properties)
        except base.SCAN_ERRORS as error:
            raise self._as_source_error(error) from None
        windows = database.windows_by_bucket(spans)
        starts = [(bucket, window.start) for bucket, window in windows.items()]
        by_bucket = base.small_frame(spark, {"lakehouse_w": pa.int32(), "p_extracted_at": base.MOMENT}, starts)
        joined = rows.join(F.broadcast(by_bucket), "lakehouse_w", "left")
        unexpected = F.raise_error(F.lit("a row of a time that was not asked for")).cast("timestamp")
        return joined.select(
            F.coalesce("p_extracted_at", unexpected).alias("p_extracted_at"),
            F.lit(self._source.location).alias("_source_file"),
            F.array(*[F.lit(name) for name in names]).alias("_columns"),
            F.lit(None).cast("string").alias("_corrupt_record"),
            *[F.col(f"lakehouse_c{index}").alias(name) for index, name in enumerate(names)],
        )

    def _parts(self, spans: Spans) -> list[str]:
        """Return conditions that divide these spans' rows; each becomes one query."""
        parts: list[str] = []
        for low, high in merge_spans(spans):
            count = self._source.partitions
            start = low or (self._database.oldest() if count > 1 else None)
            if start is None or start >= high:
                parts.append(self._database.condition(low, high))
                continue
            cuts = [start + (high - start) * index / count for index in range(1, count)]
            parts += [self._database.condition(*part) for part in zip([low, *cuts], [*cuts, high], strict=True)]
        return parts

    def _as_source_error(self, error: Exception) -> Exception:
        if "org.postgresql.Driver" in str(error):
            return EnvironmentMissing(
                f"Spark lacks PostgreSQL's driver: `{base.FETCH_JARS}` fetches it, in this same environment"
            )
        name, sqlstate = _innermost_class(error)
        message = base.innermost_message(error)
        shown = self._database.shown_message(message, sqlstate, quotes_rows=not name.startswith("java.net."))
        return SourceError(f"{self._source.location}: {shown}")


def _innermost_class(error: Exception) -> tuple[str, str | None]:
    """Return the class of a Java error's innermost cause, and its SQLSTATE if it is the database's."""
    innermost = list(java_causes(error))[-1:]
    name = str(innermost[0].getClass().getName()) if innermost else ""
    return name, innermost[0].getSQLState() if name.startswith("org.postgresql.util.PSQL") else None


def _control_totals(source: JdbcSource, database: Postgres, spans: Spans) -> dict[Window, ControlTotals]:
    """Return the totals of `source.control` for each window, by one query. Raises SourceError, also for an unfit column."""
    totals = source.totals
    if not totals:
        return {}
    for figure, (name, column) in totals.items():
        kind = database.kinds.get(column)
        if column != "*" and kind is None:
            raise SourceError(f"{source.location}: source.control.{figure}: there is no column {column!r}")
        if name != "count" and kind not in NUMBERS:
            raise SourceError(f"{source.location}: source.control.{figure}: {column} is {kind}, and no number")
    cells = [f"{name}({column if column == '*' else quote_name(column)})::float8" for name, column in totals.values()]
    by_window = database.aggregate_by_window(cells, spans)
    without_rows = tuple(0.0 if name == "count" else None for name, _ in totals.values())
    return {window: ControlTotals(dict(zip(totals, by_window.get(window, without_rows), strict=True))) for window in spans}


def assign_intervals(windows: Iterable[Window], recorded: Mapping[datetime, str], overlap: timedelta) -> dict[Window, Interval]:
    """Return the interval ``[low, high)`` of each of these windows. A recorded one never changes.

    Of the others, the newest window reads everything since the last interval (``low`` None: since ever), plus ``overlap``
    before it. The rest read nothing (``low == high``): the newest covers them, and covers a window that comes late.

    >>> a, b, c = (Window(datetime(2024, 1, d), datetime(2024, 1, d + 1), str(d)) for d in (1, 2, 3))
    >>> spans = assign_intervals([a, b], {}, timedelta(hours=1))
    >>> [(low and low.isoformat(), high.isoformat()) for low, high in spans.values()]
    [('2024-01-02T00:00:00', '2024-01-02T00:00:00'), (None, '2024-01-03T00:00:00')]
    >>> assign_intervals([c], {b.start: interval_to_text(*spans[b])}, timedelta(hours=1))[c][0].isoformat()
    '2024-01-02T23:00:00'
    """
    recorded_intervals = {start: interval_from_text(text) for start, text in recorded.items()}
    intervals = {window: recorded_intervals.get(window.start, (window.end, window.end)) for window in sorted(windows)}
    unrecorded = [window for window in intervals if window.start not in recorded_intervals]
    last = max((high for low, high in recorded_intervals.values() if low != high), default=None)
    if unrecorded and (last is None or unrecorded[-1].end > last):
        intervals[unrecorded[-1]] = (last - overlap if last else None, unrecorded[-1].end)
    return intervals


def interval_to_text(low: datetime | None, high: datetime) -> str:
    """Return an interval as text for the record."""
    return json.dumps({"low": low.isoformat() if low else None, "high": high.isoformat()})


def interval_from_text(text: str) -> Interval:
    """Return an interval from the record's text."""
    bounds = json.loads(text)
    return (datetime.fromisoformat(bounds["low"]) if bounds["low"] else None, datetime.fromisoformat(bounds["high"]))
