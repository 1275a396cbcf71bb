"""The source kind `table`: a table that Spark can read, by a column of time or as snapshots.

Belongs here: from windows to one lazy frame of their rows; polls and how long an answer counts. Does not: Spark's expressions
(table_scan), or a poll's own Spark (table_poll).
"""

import time
from collections.abc import Iterable, Mapping, Sequence

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.source_kind import SourceOpening
from lakehouse_assets.contracts.spark_table import SparkTableSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.object_store import is_url
from lakehouse_assets.sources import base
from lakehouse_assets.sources.base import Extraction
from lakehouse_assets.sources.poll_queue import QUEUE
from lakehouse_assets.sources.snapshots import snapshot_fingerprints, snapshot_rows
from lakehouse_assets.sources.table_poll import LIMIT_SECONDS, SparkPoll, start_poll
from lakehouse_assets.sources.table_scan import TableScan

Answer = dict[str, list[str]] | SourceError | EnvironmentMissing
# By source, lake, length of windows and whether errors quote rows: when Spark answered, for which windows, and what. An error
# counts as long: Spark would be started for it at every poll.
_ANSWERS: dict[str, tuple[float, frozenset[str], Answer]] = {}


class TableReader:
    """A table's rows. ``opening``: what the lake knows of it."""

    def __init__(self, source: SparkTableSource, opening: SourceOpening) -> None:
        self._source, self._opening = source, opening
        self._recorded = dict(opening.recorded_fingerprints or {})

    def fingerprints(self, windows: Iterable[Window]) -> dict[Window, str]:
        """Return a hash of each window's rows: their count, times and, if configured, content. With `history: none`, the newest
        window arrives when it is over, and nothing is asked.

        In a process with a session, that session answers now. In any other, a Spark of its own answers and ends; its answer
        counts for `poll_minutes`. Whoever allows only some seconds for an answer does not wait for it: raises AnswerPending,
        and a later call has it.
        """
        windows = list(windows)
        if self._source.history == "none":
            return snapshot_fingerprints(windows, self._recorded, self._source.location)
        answered_keys, numbers = self._numbers(windows) if windows else (frozenset[str](), {})
        by_key = {window.key: window for window in windows if window.key in answered_keys}
        # A window that had rows, and has none now, has changed; one that never had any has not arrived.
        recorded = self._opening.recorded_positions
        emptied = {key: ["0"] for key, window in by_key.items() if window.start in recorded and key not in numbers}
        return {by_key[key]: base.hash_parts(*parts) for key, parts in (numbers | emptied).items() if key in by_key}

    def columns(self, window: Window) -> tuple[str, ...]:
        """Return nothing: only Spark knows them."""
        return ()

    def positions(self, windows: Sequence[Window]) -> dict[Window, str]:
        """Return nothing: a row keeps its window, or a window is read once."""
        return {}

    def read(self, spark: SparkSession, windows: Sequence[Window], unreadable: Mapping[str, str] | None = None) -> Extraction:
        """Return one lazy frame of these windows' rows. Raises SourceError; EnvironmentMissing without the data source."""
        if unreadable:
            raise SourceError("; ".join(unreadable.values()))
        scan = self._scan(spark)
        bronze_names = base.ColumnNames(self._opening.declared)
        spellings = scan.schema.names
        names = tuple(bronze_names.bind(name) for name in spellings)
        try:
            is_snapshot = self._source.history == "none"
            rows = snapshot_rows(spark, scan.rows, windows) if is_snapshot else scan.within(windows)
            frame = rows.select(
                "p_extracted_at",
                F.lit(self._source.location).alias("_source_file"),
                F.array(*[F.lit(name) for name in names]).cast("array<string>").alias("_columns"),
                F.lit(None).cast("string").alias("_corrupt_record"),
                *[text.alias(name) for text, name in zip(scan.texts, names, strict=True)],
            )
        except base.SCAN_ERRORS as error:
            raise scan.as_source_error(error) from None
        types = {name: base.type_text(field.dataType) for name, field in zip(names, scan.schema, strict=True)}
        respelled = bronze_names.respelled_columns(spellings)
        by_window = dict.fromkeys
        return Extraction(frame, {}, by_window(windows, names), {}, by_window(windows, types), by_window(windows, respelled))

    def probe(self, spark: SparkSession, windows: Sequence[Window]) -> dict[str, str]:
        """Return nothing: a table has no parts. Raises SourceError if reading fails."""
        return base.probe_whole(lambda: self.read(spark, windows), self._scan(spark).as_source_error)

    def _numbers(self, windows: Sequence[Window]) -> tuple[frozenset[str], dict[str, list[str]]]:
        """Return the keys of the windows that were asked for, and the numbers of those that have rows."""
        keys = frozenset(window.key for window in windows)
        # A process has one context. Another thread's session is found by it.
        if SparkContext._active_spark_context is not None:
            return keys, self._scan(SparkSession.builder.getOrCreate()).numbers(windows)
        # Windows of another cadence have the same keys. The shortest month tells months from weeks.
        shortest = min(window.end - window.start for window in windows)
        cache_key = base.hash_parts(
            self._opening.settings.root, self._source.model_dump_json(), self._opening.personal, shortest
        )
        at, answered_keys, answer = _ANSWERS.get(cache_key, (0.0, frozenset(), {}))
        if not keys <= answered_keys or time.monotonic() - at > self._source.poll_minutes * 60:
            answered_keys, answer = self._ask(cache_key, windows)
            _ANSWERS[cache_key] = time.monotonic(), answered_keys, answer
        if isinstance(answer, Exception):
            raise type(answer)(str(answer))
        return answered_keys, answer

    def _ask(self, cache_key: str, windows: Sequence[Window]) -> tuple[frozenset[str], Answer]:
        keys = frozenset(window.key for window in windows)
        try:
            if self._opening.timeout_seconds is None:
                return keys, self._start(windows, None).wait()
            poll = QUEUE.next_answer(cache_key, lambda: self._start(windows, LIMIT_SECONDS))
        except (SourceError, EnvironmentMissing) as error:
            return keys, error
        try:
            return poll.keys, poll.numbers()
        except (SourceError, EnvironmentMissing) as error:
            return poll.keys, error

    def _start(self, windows: Sequence[Window], limit_seconds: float | None) -> SparkPoll:
        opening = self._opening
        return start_poll(self._source, *self._address(), opening.settings, windows, opening.personal, limit_seconds)

    def _scan(self, spark: SparkSession) -> TableScan:
        return TableScan(spark, self._source, *self._address(), self._opening.personal)

    def _address(self) -> tuple[str | None, dict[str, str]]:
        """Return path and options as Spark takes them. Raises EnvironmentMissing for a secret that is not set."""
        path, settings = self._source.path, self._opening.settings
        if path is not None and not is_url(path) and not path.startswith("/"):
            path = f"{settings.landing}/{path}"
        secrets = {name: settings.secret(variable) for name, variable in self._source.secret_options.items()}
        return path, {**self._source.options, **secrets}
