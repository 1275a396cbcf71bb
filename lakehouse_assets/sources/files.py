"""The source kind `files`: a landing folder's CSV, JSON-lines or Parquet files, whose names say which window they belong to.

Belongs here: from windows to one lazy frame of all their files. Does not: how a format is read (csv_files, …).

A file that cannot be read becomes one corrupt row that names it, never half of its rows. What can be seen without a scan (no
permission, a link that leads out, a header of no use) is seen in `read`; what only a scan finds (a truncated gzip) fails the
caller's action, and `probe` then names it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.contracts.source import FilesSource, safe_name
from lakehouse_assets.contracts.spark_types import common_type
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.sources.base import SCAN_ERRORS, Extraction
from lakehouse_assets.sources.control_files import ControlFiles
from lakehouse_assets.sources.csv_files import Header, csv_rows, read_headers, unpaired_quotes
from lakehouse_assets.sources.json_files import json_lines, json_rows, keys_by_file
from lakehouse_assets.sources.landing import LandedFile, Landing, fingerprint
from lakehouse_assets.sources.names import Spelling, refuse_names
from lakehouse_assets.sources.parquet_files import parquet_rows, read_schemas, spark_types
from lakehouse_assets.sources.scans import file_key, listed_on_driver, unscannable

OWN = ("p_extracted_at", "_source_file", "_columns", "_corrupt_record")
BYTES_PER_TASK = 64 * 1024 * 1024


@dataclass
class _Survey:
    """What is known of the files before they are scanned. ``columns``: by file, as the source spells them."""

    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    headers: dict[str, Header] = field(default_factory=dict)
    schemas: dict[str, pa.Schema] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


class FilesReader:
    """A table's files. ``declared``: columns as the table spells them; a file's other spelling in case is bound to it."""

    def __init__(self, source: FilesSource, landing: str, declared: Sequence[str] = ()) -> None:
        """Nothing is opened yet."""
        self._source = source
        self._landing = Landing(landing)
        self._control = ControlFiles(self._landing, source.control)
        self._declared = tuple(declared)

    def fingerprints(self, windows: Iterable[Window]) -> dict[Window, str]:
        """The windows that have a file, each with a hash of its files' paths, sizes and times, its control file's among them.

        Raises SourceError.
        """
        windows = list(windows)
        files = self._landing.files(self._source.pattern, windows)
        control = self._control.files(windows)
        return {
            window: fingerprint([*group, *control.get(window, ())])
            for window, group in groupby(files, key=lambda file: file.window)
        }

    def columns(self, window: Window) -> tuple[str, ...]:
        """Those of the window's CSV or Parquet files; those of JSON lines are found by reading them."""
        survey = _Survey()
        paths = [file.path for file in self._landing.files(self._source.pattern, [window]) if not file.refused]
        if self._source.format == "csv":
            self._survey_csv(paths, survey)
        elif self._source.format == "parquet":
            self._survey_parquet(paths, survey)
        return tuple(dict.fromkeys(name for names in survey.columns.values() for name in names))

    def positions(self, windows: Sequence[Window]) -> dict[Window, str]:
        """Nothing: a file's name says which window it belongs to."""
        return {}

    def read(self, spark: SparkSession, windows: Sequence[Window], unreadable: Mapping[str, str] | None = None) -> Extraction:
        """One lazy frame of these windows' files, without a Spark job; JSON and `multiline` CSV take one over all files.

        ``unreadable``: paths relative to the landing folder, and why. Raises SourceError if that cannot be listed.
        """
        files = self._landing.files(self._source.pattern, windows)
        known = dict(unreadable or {})
        with listed_on_driver(spark):
            try:
                survey = self._survey(spark, files, known)
            except SCAN_ERRORS:
                found = self._unscannable(spark, files, known)
                if not found:
                    raise
                survey = self._survey(spark, files, known | found)
            extraction = self._extraction(spark, files, survey)
        return replace(extraction, control=self._control.totals(dict.fromkeys(file.window for file in files)))

    def probe(self, spark: SparkSession, windows: Sequence[Window]) -> dict[str, str]:
        """Files (relative to the landing folder) that stop a scan, and why. Scans everything: only after a failed action.

        Raises SourceError as `read` does, and what the scan raised where that is no file's fault.
        """
        with listed_on_driver(spark):
            return self._unscannable(spark, self._landing.files(self._source.pattern, windows), {})

    def _survey(self, spark: SparkSession, files: Sequence[LandedFile], unreadable: Mapping[str, str]) -> _Survey:
        survey = _Survey(reasons={file.path: file.refused for file in files if file.refused})
        survey.reasons |= {file.path: unreadable[file.path] for file in files if file.path in unreadable}
        paths = [file.path for file in files if file.path not in survey.reasons]
        if self._source.format == "csv":
            self._survey_csv(paths, survey)
            if self._source.multiline and survey.headers:
                odd = unpaired_quotes(spark, self._spark_paths(survey.headers), self._source.quote)
                survey.reasons |= dict.fromkeys(self._paths_of(odd, paths).values(), "a quote is opened and never closed")
        elif self._source.format == "parquet":
            self._survey_parquet(paths, survey)
        elif paths:
            keys = keys_by_file(spark, self._spark_paths(paths))
            survey.columns = dict.fromkeys(paths, ()) | {path: keys[name] for name, path in self._paths_of(keys, paths).items()}
            survey.reasons |= {path: why for path, names in survey.columns.items() if (why := refuse_names(names))}
        for path in survey.reasons:
            survey.columns.pop(path, None)
            survey.headers.pop(path, None)
            survey.schemas.pop(path, None)
        return survey

    def _survey_csv(self, paths: Sequence[str], survey: _Survey) -> None:
        for path, header in read_headers(self._landing, paths, self._source).items():
            if isinstance(header, Header):
                survey.headers[path], survey.columns[path] = header, header.names
            elif header is not None:
                survey.reasons[path] = header

    def _survey_parquet(self, paths: Sequence[str], survey: _Survey) -> None:
        for path, schema in read_schemas(self._landing, paths).items():
            if isinstance(schema, str):
                survey.reasons[path] = schema
            else:
                survey.schemas[path], survey.columns[path] = schema, tuple(schema.names)

    def _extraction(self, spark: SparkSession, files: Sequence[LandedFile], survey: _Survey) -> Extraction:
        spelling = Spelling(self._declared)
        bound = {name: spelling.learn(name) for names in survey.columns.values() for name in names}
        columns = {path: [bound[name] for name in names] for path, names in survey.columns.items()}
        order = list(dict.fromkeys(bound.values()))
        scans: list[DataFrame] = []
        if self._source.format == "json" and columns:
            scans = [json_rows(spark, self._spark_paths(columns), bound)]
        for header, paths in _by_header(survey.headers).items():
            scans.append(csv_rows(spark, self._spark_paths(paths), header, self._source, bound))
        for schema, paths in _by_header(survey.schemas).items():
            scans.append(parquet_rows(spark, self._spark_paths(paths), schema, bound))
        frames = [_with_columns(scan, order) for scan in scans]
        problems = [
            (file, f"unreadable file {file.path}: {survey.reasons[file.path]}") for file in files if file.path in survey.reasons
        ]
        local = _local(spark, [(file.window, file.path, [], text) for file, text in problems])
        if frames:
            rows = reduce(DataFrame.union, frames)
            size = sum(file.size for file in files if file.path in columns)
            # Spark opens a partition per 32 small files; a task per core is enough.
            rows = rows.coalesce(max(spark.sparkContext.defaultParallelism, size // BYTES_PER_TASK))
            read = self._placed(spark, rows, [file for file in files if file.path in columns], columns)
            local = read.unionByName(local, allowMissingColumns=True) if problems else read
        by_window: dict[Window, dict[str, None]] = {file.window: {} for file in files}
        told: dict[Window, list[str]] = {}
        for file in files:
            by_window[file.window].update(dict.fromkeys(columns.get(file.path, ())))
        for file, text in problems:
            told.setdefault(file.window, []).append(text)
        shared = {window: set(names) for window, names in by_window.items()}
        for file in files:
            if file.path in columns:
                shared[file.window].intersection_update(columns[file.path])
        lacking = {window: tuple(n for n in names if n not in shared[window]) for window, names in by_window.items()}
        names_of = {window: tuple(names) for window, names in by_window.items()}
        came: dict[Window, list[str]] = {file.window: [] for file in files}
        for file in files:
            came[file.window] += survey.columns.get(file.path, ())
        respelled = {window: spelling.respelled(names) for window, names in came.items()}
        return Extraction(local, told, names_of, lacking, _types(files, survey, bound), respelled)

    def _placed(
        self, spark: SparkSession, rows: DataFrame, files: Sequence[LandedFile], columns: Mapping[str, Sequence[str]]
    ) -> DataFrame:
        """Rows with their file's window, path and columns: a broadcast join, since a map literal is searched row by row."""
        places = _local(spark, [(file.window, file.path, columns[file.path], self._landing.key(file.path)) for file in files])
        places = places.withColumnRenamed("_corrupt_record", "_key")
        joined = rows.withColumn("_key", file_key(F.col("_file"))).join(F.broadcast(places), "_key", "left")
        lost = F.raise_error(F.concat(F.lit("a row of a file that was not asked for: "), F.col("_file"))).cast("timestamp")
        return joined.select(
            F.coalesce("p_extracted_at", lost).alias("p_extracted_at"),
            *OWN[1:],
            *[identifier(name) for name in rows.columns if name not in ("_file", "_corrupt_record")],
        )

    def _unscannable(self, spark: SparkSession, files: Sequence[LandedFile], known: Mapping[str, str]) -> dict[str, str]:
        paths = [file.path for file in files if not file.refused and file.path not in known]
        names = {self._landing.key(path): path for path in paths}
        found: dict[str, str] = {}
        if self._source.format == "json":
            found = unscannable(paths, lambda some: json_lines(spark, self._spark_paths(some)), names)
        elif self._source.format == "parquet":
            survey = _Survey()
            self._survey_parquet(paths, survey)
            for schema, group in _by_header(survey.schemas).items():
                safe = {name: safe_name(name) for name in schema.names}

                def typed(some: Sequence[str], schema: pa.Schema = schema, safe: Mapping[str, str] = safe) -> DataFrame:
                    return parquet_rows(spark, self._spark_paths(some), schema, safe)

                found |= unscannable(group, typed, names)
        else:
            survey = _Survey()
            self._survey_csv(paths, survey)
            for header, group in _by_header(survey.headers).items():
                bound = {name: safe_name(name) for name in header.names}

                def rows(some: Sequence[str], header: Header = header, bound: Mapping[str, str] = bound) -> DataFrame:
                    return csv_rows(spark, self._spark_paths(some), header, self._source, bound)

                found |= unscannable(group, rows, names)
        return {path: reason.replace(f"{self._landing.root}/", "") for path, reason in found.items()}

    def _spark_paths(self, paths: Iterable[str]) -> list[str]:
        return [self._landing.spark_path(path) for path in paths]

    def _paths_of(self, spark_names: Iterable[str], paths: Iterable[str]) -> dict[str, str]:
        """Relative paths of files as Spark names them."""
        known = {self._landing.key(path): path for path in paths}
        return {name: known[file_key(name)] for name in spark_names}


def _types(files: Sequence[LandedFile], survey: _Survey, bound: Mapping[str, str]) -> dict[Window, dict[str, str]]:
    """Of windows of Parquet files, the columns' types; of a column that came with several, what all of them read as."""
    found: dict[Window, dict[str, list[str]]] = {}
    told = {schema: spark_types(schema) for schema in set(survey.schemas.values())}
    for file in files:
        if file.path in survey.schemas:
            for name, kind in told[survey.schemas[file.path]].items():
                kinds = found.setdefault(file.window, {}).setdefault(bound[name], [])
                if kind not in kinds:
                    kinds.append(kind)
    return {window: {name: common_type(kinds) for name, kinds in columns.items()} for window, columns in found.items()}


Alike = TypeVar("Alike", Header, pa.Schema)


def _by_header(headers: Mapping[str, Alike]) -> dict[Alike, list[str]]:
    groups: dict[Alike, list[str]] = {}
    for path, header in headers.items():
        groups.setdefault(header, []).append(path)
    return groups


def _with_columns(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    present = set(rows.columns)
    missing = F.lit(None).cast("string")
    cells = [F.col(identifier(name)) if name in present else missing.alias(name) for name in names]
    return rows.select("_file", "_corrupt_record", *cells)


def _local(spark: SparkSession, rows: Sequence[tuple[Window, str, Sequence[str], str]]) -> DataFrame:
    """A frame of OWN's columns that needs neither a job nor a Python worker."""
    types = [pa.timestamp("us", "UTC"), pa.string(), pa.list_(pa.string()), pa.string()]
    cells = [[window.start for window, *_ in rows], *[[row[place] for row in rows] for place in (1, 2, 3)]]
    arrays = [pa.array(values, kind) for values, kind in zip(cells, types, strict=True)]
    return spark.createDataFrame(pa.table(dict(zip(OWN, arrays, strict=True))))
