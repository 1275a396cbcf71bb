"""The source kind `jdbc`: a PostgreSQL table's rows by the time at which they were modified.

Belongs here: from windows to one lazy frame of their rows, read by Spark. Does not: SQL text and the light driver (postgres).

What a window's rows are is said to the database as conditions on the bare column, one query each; it gives every value as text.
A window is not read in one snapshot: a row that is modified while it is read changes the fingerprint, and is read again.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import FETCH_JARS, SCAN_ERRORS, Extraction, innermost
from lakehouse_assets.sources.names import Spelling, refuse_names
from lakehouse_assets.sources.postgres import Postgres, Span, stretches
from lakehouse_assets.sources.totals import totals
from lakehouse_assets.sources.watermark import as_text, taken


class JdbcReader:
    """A table's rows. ``recorded``: windows that were read before; with `history: watermark`, what they have taken."""

    def __init__(
        self,
        source: JdbcSource,
        settings: Settings,
        declared: Sequence[str] = (),
        recorded: Mapping[datetime, str] | None = None,
        taken: Mapping[datetime, str] | None = None,
        seconds: int | None = None,
    ) -> None:
        """Nothing is connected yet. ``taken``: fingerprints of windows that were read. ``seconds``: as Postgres has it."""
        self._source, self._declared, self._recorded = source, tuple(declared), dict(recorded or {})
        self._taken_before = dict(taken or {})
        self._database = Postgres(source, settings, seconds)

    def fingerprints(self, windows: Iterable[Window]) -> dict[Window, str]:
        """The windows that have rows, each with a hash of their number, times and, if asked for, content. Raises SourceError.

        With `history: watermark` every window has arrived once it is over, and none changes: it is taken once, whatever is said
        of the source later. To read it again would put what the table has now in the place of the only copy of what it had.
        """
        windows = list(windows)
        if self._source.history == "watermark":
            self._database.columns  # noqa: B018 (is the table there?)
            fresh = {window: _hash(self._source.table, "watermark", window.key) for window in windows}
            return {window: self._taken_before.get(window.start, print_) for window, print_ in fresh.items()}
        found = self._database.prints(self._spans(windows))
        # A window that had rows, and has none now, has changed; one that never had any has not arrived.
        emptied = {window: (0,) for window in windows if window.start in self._recorded and window not in found}
        return {window: _hash(*parts) for window, parts in (found | emptied).items()}

    def columns(self, window: Window) -> tuple[str, ...]:
        """The table's."""
        return tuple(self._database.columns)

    def positions(self, windows: Sequence[Window]) -> dict[Window, str]:
        """With `history: watermark`, what these windows take."""
        if self._source.history == "window":
            return {}
        fresh = {window: span for window, span in self._taken(windows).items() if window.start not in self._recorded}
        return {window: as_text(*span) for window, span in fresh.items()}

    def read(self, spark: SparkSession, windows: Sequence[Window], unreadable: Mapping[str, str] | None = None) -> Extraction:
        """One lazy frame of these windows' rows. Raises SourceError, EnvironmentMissing without the driver's jar."""
        if unreadable:
            raise SourceError("; ".join(unreadable.values()))
        columns = self._database.columns
        if why := refuse_names(tuple(columns)):
            raise SourceError(f"{self._source.place}: {why}")
        spelling = Spelling(self._declared)
        names = tuple(spelling.learn(name) for name in columns)
        spans = self._spans(windows)
        control = totals(self._source, self._database, spans)
        frame = self._frame(spark, spans, names)
        types = {spelling.learn(name): kind for name, kind in self._database.types.items()}
        respelled = dict.fromkeys(windows, spelling.respelled(columns))
        return Extraction(frame, {}, dict.fromkeys(windows, names), {}, dict.fromkeys(windows, types), respelled, control)

    def probe(self, spark: SparkSession, windows: Sequence[Window]) -> dict[str, str]:
        """Nothing: a database has no parts. Raises SourceError, without any address, where reading is what fails."""
        try:
            self.read(spark, windows).frame.write.format("noop").mode("overwrite").save()
        except SCAN_ERRORS as error:
            raise self._refused(error) from None
        return {}

    def _spans(self, windows: Sequence[Window]) -> list[Span]:
        if self._source.history == "window":
            return [Span(window, window.start, window.end) for window in windows]
        return [Span(window, *span) for window, span in self._taken(windows).items()]

    def _taken(self, windows: Iterable[Window]) -> dict[Window, tuple[datetime | None, datetime]]:
        return taken(windows, self._recorded, timedelta(minutes=self._source.overlap_minutes or 0))

    def _frame(self, spark: SparkSession, spans: Sequence[Span], names: Sequence[str]) -> DataFrame:
        database = self._database
        cells = [f"{text} AS lakehouse_c{place}" for place, text in enumerate(database.columns.values())]
        wanted = [database.modified, f"{database.bucket(spans)} AS lakehouse_w", *cells]
        table = f"(SELECT {', '.join(wanted)} FROM {database.relation}) q"
        url, properties = database.jdbc
        try:
            rows = spark.read.jdbc(url, table, predicates=self._parts(spans) or ["false"], properties=properties)
        except SCAN_ERRORS as error:
            raise self._refused(error) from None
        places = database.places(spans)
        starts = {
            "lakehouse_w": pa.array(list(places), pa.int32()),
            "p_extracted_at": pa.array([window.start for window in places.values()], pa.timestamp("us", "UTC")),
        }
        joined = rows.join(F.broadcast(spark.createDataFrame(pa.table(starts))), "lakehouse_w", "left")
        lost = F.raise_error(F.lit("a row of a time that was not asked for")).cast("timestamp")
        return joined.select(
            F.coalesce("p_extracted_at", lost).alias("p_extracted_at"),
            F.lit(self._source.place).alias("_source_file"),
            F.array(*[F.lit(name) for name in names]).alias("_columns"),
            F.lit(None).cast("string").alias("_corrupt_record"),
            *[F.col(f"lakehouse_c{place}").alias(name) for place, name in enumerate(names)],
        )

    def _parts(self, spans: Sequence[Span]) -> list[str]:
        """Conditions that share these spans' rows out, each a query of its own."""
        parts: list[str] = []
        for low, high in stretches(spans):
            count = self._source.partitions
            first = low or (self._database.oldest() if count > 1 else None)
            if first is None or first >= high:
                parts.append(self._database.condition(low, high))
                continue
            cuts = [first + (high - first) * place / count for place in range(1, count)]
            parts += [self._database.condition(*part) for part in zip([low, *cuts], [*cuts, high], strict=True)]
        return parts

    def _refused(self, error: Exception) -> Exception:
        if "org.postgresql.Driver" in str(error):
            return EnvironmentMissing(f"Spark lacks PostgreSQL's driver: `{FETCH_JARS}` fetches it, in this same environment")
        return SourceError(f"{self._source.place}: {self._database.told(innermost(error))}")


def _hash(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]
