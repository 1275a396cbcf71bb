"""The source kind `delta`: a foreign Delta table's rows by recorded ranges of its versions.

Belongs here: from windows to one lazy frame of their rows. Does not: assigning versions to windows (version_ranges), commits
and schemas (storage/foreign_delta), or typed rows of versions (delta_rows).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.delta_source import CHANGE, OF_THE_COMMIT, ORDER, TIMESTAMP, VERSION, DeltaSource
from lakehouse_assets.contracts.spark_types import common_type
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.personal import MASKED
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.object_store import is_azure, is_gcs, is_s3
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import base, delta_rows
from lakehouse_assets.sources.base import Extraction
from lakehouse_assets.sources.delta_feed import foreign_table
from lakehouse_assets.sources.delta_history import Segment, TableHistory
from lakehouse_assets.sources.parquet_files import value_text
from lakehouse_assets.sources.version_ranges import VersionRange, range_from_text, range_to_text
from lakehouse_assets.storage.foreign_commit import Schema

OF_CHANGES = {CHANGE: "string", VERSION: "bigint", TIMESTAMP: "timestamp", ORDER: "bigint"}
FILE_IS_GONE = ("FILE_NOT_EXIST", "DELTA_FILE_NOT_FOUND", "FileNotFound", "DELTA_CHANGE_DATA_FILE_NOT_FOUND", "does not exist")


class _Part(NamedTuple):
    """Typed rows of some windows' versions, with the schema by which they were read."""

    rows: DataFrame
    schema: Schema
    versions: Mapping[int, Window]


class DeltaReader:
    """A table's versions. ``calendar``: all windows up to a moment. ``key``: the key's columns in the table. ``snapshots``:
    each window has the whole table. ``recorded``: the ranges on record. ``personal``: no error of Spark's is quoted.
    """

    def __init__(
        self,
        source: DeltaSource,
        settings: Settings,
        calendar: Callable[[datetime], Sequence[Window]],
        declared: Sequence[str] = (),
        key: Sequence[Sequence[str]] = (),
        recorded: Mapping[datetime, str] | None = None,
        *,
        snapshots: bool = False,
        personal: bool = False,
    ) -> None:
        self._source, self._settings, self._declared, self._key = source, settings, tuple(declared), tuple(key)
        self._snapshots, self._personal, self._table = snapshots, personal, foreign_table(source, settings)
        ranges = {start: range_from_text(text) for start, text in (recorded or {}).items()}
        self._history = TableHistory(self._table, source.restart, calendar, ranges)

    def fingerprints(self, windows: Iterable[Window]) -> dict[Window, str]:
        """Return a hash of the versions of each window that has some; a recorded range never changes."""
        return {window: base.hash_parts("delta", *versions) for window, versions in self._ranges(list(windows)).items()}

    def columns(self, window: Window) -> tuple[str, ...]:
        """Return the table's columns at the end of the window."""
        versions = self._ranges([window]).get(window)
        return (*self._table.schema(versions.high - 1).types, *self._own_columns) if versions else ()

    def positions(self, windows: Sequence[Window]) -> dict[Window, str]:
        """Return the ranges of these windows and of those before them, since each begins where another ends."""
        fresh = self._history.unrecorded(self._history.ranges(windows)) if windows else {}
        return {window: range_to_text(versions) for window, versions in fresh.items()}

    def _store_without_jars(self) -> str | None:
        path, settings = self._table.path, self._settings
        stores = {"S3": is_s3(path) and not settings.on_s3, "Azure": is_azure(path) and not settings.on_azure}
        stores["Google Cloud Storage"] = is_gcs(path) and not settings.on_gcs
        return next((name for name, lacks in stores.items() if lacks), None)

    def read(self, spark: SparkSession, windows: Sequence[Window], unreadable: Mapping[str, str] | None = None) -> Extraction:
        """Return one lazy frame of these windows' rows. Raises SourceError for versions that are gone, or whose rows are not
        known.
        """
        if unreadable:
            raise SourceError("; ".join(unreadable.values()))
        if store := self._store_without_jars():
            raise EnvironmentMissing(
                f"{self._table.label}: Spark has {store}'s jars only if LAKEHOUSE_ROOT or LAKEHOUSE_LANDING is on {store}"
            )
        ranges = self._ranges(windows)
        try:
            parts = [part for window, versions in ranges.items() for part in self._whole_parts(spark, window, versions)]
            return self._extraction(spark, [*parts, *self._changed_parts(spark, ranges)], ranges)
        except base.SCAN_ERRORS as error:
            raise self._as_source_error(error, ranges) from None

    def probe(self, spark: SparkSession, windows: Sequence[Window]) -> dict[str, str]:
        """Return nothing: a table has no parts. Raises SourceError if reading fails."""
        ranges = self._ranges(windows)
        return base.probe_whole(lambda: self.read(spark, windows), lambda error: self._as_source_error(error, ranges))

    @property
    def _own_columns(self) -> list[str]:
        return [name for name in OF_THE_COMMIT if name in self._declared]

    def _ranges(self, windows: Sequence[Window]) -> dict[Window, VersionRange]:
        requested = set(windows)
        return {window: versions for window, versions in self._history.ranges(windows).items() if window in requested}

    def _is_whole(self, versions: VersionRange) -> bool:
        return self._snapshots or versions.is_whole

    def _whole_parts(self, spark: SparkSession, window: Window, versions: VersionRange) -> list[_Part]:
        if not self._is_whole(versions):
            return []
        last = versions.high - 1
        schema = self._table.schema(last)
        self._history.refuse_renamed(schema, last, self._declared)
        return [_Part(delta_rows.whole_rows(spark, self._table, last), schema, {last: window})]

    def _changed_parts(self, spark: SparkSession, ranges: Mapping[Window, VersionRange]) -> list[_Part]:
        """Return the parts of windows with changes: one per stretch of versions with one schema."""
        windows = {
            version: window
            for window, versions in ranges.items()
            if not self._is_whole(versions)
            for version in range(versions.low, versions.high)
        }
        parts = []
        for segment in self._history.segments(sorted(windows)):
            self._history.refuse_renamed(segment.schema, segment.last, self._declared)
            rows = self._segment_rows(spark, segment)
            if rows is not None:
                versions = {commit.version: windows[commit.version] for commit in segment.commits}
                parts.append(_Part(rows, segment.schema, versions))
        return parts

    def _segment_rows(self, spark: SparkSession, segment: Segment) -> DataFrame | None:
        if all(commit.kind == "none" for commit in segment.commits):
            return None
        if self._source.changes == "feed":
            self._history.refuse_without_feed(segment)
            return delta_rows.changed_rows(spark, self._table, segment.first, segment.last, segment.schema, self._key)
        files = self._history.added_files(segment, rewrites=self._source.changes == "rewrites")
        return delta_rows.added_rows(spark, self._table, files, segment.schema) if any(files.values()) else None

    def _extraction(self, spark: SparkSession, parts: Sequence[_Part], ranges: Mapping[Window, VersionRange]) -> Extraction:
        bronze_names = base.ColumnNames(self._declared)
        names: dict[Window, dict[str, None]] = {window: {} for window in ranges}
        types: dict[Window, dict[str, str]] = {window: {} for window in ranges}
        schemas: dict[Window, list[Schema]] = {window: [] for window in ranges}
        for part in parts:
            if why := base.find_name_problem(tuple(part.schema.types)):
                raise SourceError(f"{self._table.label}: {why}")
            bound = {bronze_names.bind(name): kind for name, kind in part.schema.types.items()}
            bound |= {name: OF_CHANGES[name] for name in self._own_columns}
            for window in dict.fromkeys(part.versions.values()):
                schemas[window].append(part.schema)
                names[window] |= dict.fromkeys(bound)
                for name, kind in bound.items():
                    types[window][name] = common_type([types[window].get(name, kind), kind])
        order = list(dict.fromkeys(name for some in names.values() for name in some))
        frames = [self._text_rows(spark, part, bronze_names, order) for part in parts]
        frame = reduce(DataFrame.unionByName, frames) if frames else _no_rows(spark)
        columns = {window: tuple(some) for window, some in names.items()}
        lacking = {
            window: tuple(n for n in columns[window] if not all(n in self._bound(schema, bronze_names) for schema in some))
            for window, some in schemas.items()
        }
        spellings = {window: [name for schema in some for name in schema.types] for window, some in schemas.items()}
        respelled = {window: bronze_names.respelled_columns(some) for window, some in spellings.items()}
        return Extraction(frame, {}, columns, lacking, types, respelled)

    def _bound(self, schema: Schema, bronze_names: base.ColumnNames) -> set[str]:
        return {bronze_names.bind(name) for name in schema.types} | set(self._own_columns)

    def _text_rows(self, spark: SparkSession, part: _Part, bronze_names: base.ColumnNames, order: Sequence[str]) -> DataFrame:
        """Return a part's rows as bronze wants them: all columns in ``order``, as text."""
        own = [bronze_names.bind(name) for name in part.schema.types]
        kinds = {field.name: field.dataType for field in part.rows.schema}
        # Under names of ours: the table's own may be any.
        texts = [value_text(F.col(identifier(n)), kinds[n]).alias(f"_c{index}") for index, n in enumerate(part.schema.types)]
        rows = part.rows.select(delta_rows.VERSION, delta_rows.CHANGE, *texts)
        cells = {name: F.col(f"_c{index}") for index, name in enumerate(own)}
        cells |= {name: _of_the_commit(name) for name in self._own_columns}
        times = self._history.times(list(part.versions))
        cells_of_versions = [(version, window.start, times[version]) for version, window in part.versions.items()]
        types = {"_version": pa.int64(), "p_extracted_at": base.MOMENT, "_at": base.MOMENT}
        versions = base.small_frame(spark, types, cells_of_versions)
        joined = rows.join(F.broadcast(versions), F.col(delta_rows.VERSION) == F.col("_version"))
        missing = F.lit(None).cast("string")
        return joined.select(
            "p_extracted_at",
            F.concat(F.lit(f"{self._source.path}@"), F.col(delta_rows.VERSION)).alias("_source_file"),
            F.array(*[F.lit(name) for name in cells]).cast("array<string>").alias("_columns"),
            missing.alias("_corrupt_record"),
            *[cells.get(name, missing).alias(name) for name in order],
        )

    def _as_source_error(self, error: Exception, ranges: Mapping[Window, VersionRange]) -> SourceError:
        line = base.first_line(error)
        spans = [(v.high - 1 if self._is_whole(v) else v.low, v.high - 1) for v in ranges.values()]
        low, high = min(low for low, _ in spans), max(high for _, high in spans)
        versions = f"version {high}" if low == high else f"versions {low} to {high}"
        is_gone = any(sign in f"{error} {line}" for sign in FILE_IS_GONE)
        if self._personal:
            line = f"{type(error).__name__} {MASKED}"
        if is_gone:
            return SourceError(
                f"{self._table.label}: files of {versions} are gone: VACUUM removed them before they were read. To go on"
                f" without them, set source.restart to the start of a window that has not been read. Spark says: {line}"
            )
        return SourceError(f"{self._table.label}: {versions} cannot be read: {line}")


def _of_the_commit(name: str) -> Column:
    """Return a column of the commit, as text."""
    version, change = F.col(delta_rows.VERSION), F.col(delta_rows.CHANGE)
    return {
        CHANGE: change,
        VERSION: version.cast("string"),
        TIMESTAMP: F.date_format("_at", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"),
        ORDER: (version * 2 + F.when(change == "delete", 0).otherwise(1)).cast("string"),
    }[name]


def _no_rows(spark: SparkSession) -> DataFrame:
    types = {"p_extracted_at": base.MOMENT, "_source_file": pa.string(), "_columns": pa.list_(pa.string())}
    return base.small_frame(spark, {**types, "_corrupt_record": pa.string()}, [])
