"""The source kind `files`: files of a landing folder, whose names give their window.

Belongs here: from windows to one lazy frame of all their files. Does not: reading a format (csv_files, …).

An unreadable file becomes one corrupt row that names it; never half of its rows. `read` finds what needs no scan (permissions,
a link that leads out, an unusable header). What only a scan finds (a truncated gzip) fails the caller's action, and `probe`
then names the file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial, reduce
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.source import FilesSource, safe_name
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.sources import base, file_scans
from lakehouse_assets.sources.avro_files import AvroHead, read_avro_head, read_avro_rows
from lakehouse_assets.sources.base import Extraction
from lakehouse_assets.sources.control_files import ControlFiles
from lakehouse_assets.sources.csv_files import Header, find_unpaired_quotes, read_csv_rows, read_header
from lakehouse_assets.sources.fixed_files import read_fixed_rows
from lakehouse_assets.sources.json_documents import NO_DOCUMENT, find_broken_documents
from lakehouse_assets.sources.json_files import find_documents, keys_by_file, read_json_rows
from lakehouse_assets.sources.landing import LandedFile, Landing, fingerprint_files
from lakehouse_assets.sources.observation import Observation, observe_files, unsettled_files, without_temporary
from lakehouse_assets.sources.parquet_files import read_parquet_rows, read_schema, spark_types

BYTES_PER_TASK = 64 * 1024 * 1024
# What a file shows of its columns before a scan. JSON lines show nothing.
Head = Header | pa.Schema | AvroHead
JSON_LINES = Header("", ())


class _Survey(NamedTuple):
    """By path, before the scan: the columns as the source spells them, the head, or why the file is unreadable. A path that two
    windows have may be refused in one of them only: `LandedFile.refused`.
    """

    columns: Mapping[str, tuple[str, ...]]
    heads: Mapping[str, Head]
    reasons: Mapping[str, str]


class FilesReader:
    """A table's files. ``declared``: columns as the table spells them; another spelling in a file is bound to it."""

    def __init__(self, source: FilesSource, landing: str, declared: Sequence[str] = ()) -> None:
        self._source = source
        self._landing = Landing(landing)
        self._control = ControlFiles(self._landing, source.control)
        self._declared = tuple(declared)

    def fingerprints(self, windows: Iterable[Window]) -> dict[Window, str]:
        """Return a hash of each window's files, control file included: their paths, sizes and times."""
        arrived, control = self._arrived(windows)
        return {window: fingerprint_files([*files, *control.get(window, ())]) for window, files in arrived.items()}

    def observe(self, windows: Iterable[Window], now: datetime) -> Observation:
        """Return what one poll knows of these windows, by `source.settled`."""
        return observe_files(self._landing, self._source, *self._arrived(windows), now)

    def unsettled_files(self, windows: Sequence[Window], now: datetime) -> dict[str, int]:
        """Return how many files of these windows are not whole yet, by the reason."""
        arrived, control = self._arrived(windows)
        return unsettled_files(self._landing, self._source, windows, arrived, control, now)

    def _arrived(self, windows: Iterable[Window]) -> tuple[dict[Window, list[LandedFile]], dict[Window, list[LandedFile]]]:
        windows = list(windows)
        return _by_window(self._files(windows)), self._control.files(windows)

    def _files(self, windows: Iterable[Window]) -> list[LandedFile]:
        files, settled = self._landing.files(self._source.pattern, windows), self._source.settled
        return without_temporary(files) if settled is not None and settled.rename else files

    def columns(self, window: Window) -> tuple[str, ...]:
        """Return the columns of the window's files; empty for JSON lines, which only a scan shows."""
        files = self._files([window])
        heads, _ = self._read_heads([file.path for file in files if not file.refused])
        return tuple(dict.fromkeys(name for head in heads.values() for name in head.names))

    def positions(self, windows: Sequence[Window]) -> dict[Window, str]:
        """Return nothing: a file's name gives its window."""
        return {}

    def read(self, spark: SparkSession, windows: Sequence[Window], unreadable: Mapping[str, str] | None = None) -> Extraction:
        """Return one lazy frame of these windows' files, without a Spark job; JSON and `multiline` CSV need one job.
        ``unreadable``: paths relative to the landing folder, with the reason.
        """
        files = self._files(windows)
        reasons = dict(unreadable or {})
        with file_scans.list_files_on_driver(spark):
            try:
                extraction = self._extraction(spark, files, self._survey(spark, files, reasons))
            except base.SCAN_ERRORS:
                unscannable = self._find_unscannable(spark, files, reasons)
                if not unscannable:
                    raise
                extraction = self._extraction(spark, files, self._survey(spark, files, reasons | unscannable))
        return replace(extraction, control=self._control.totals(dict.fromkeys(file.window for file in files)))

    def probe(self, spark: SparkSession, windows: Sequence[Window]) -> dict[str, str]:
        """Return the files that stop a scan, with the reason. Raises the scan's own error if no file is at fault."""
        with file_scans.list_files_on_driver(spark):
            return self._find_unscannable(spark, self._files(windows), {})

    def _survey(self, spark: SparkSession, files: Sequence[LandedFile], unreadable: Mapping[str, str]) -> _Survey:
        reasons = dict(unreadable)
        paths = list(dict.fromkeys(file.path for file in files if not file.refused and file.path not in reasons))
        heads, unusable = self._read_heads(paths)
        columns = {path: tuple(head.names) for path, head in heads.items()}
        if self._source.format == "json":
            unusable = self._find_other_json(spark, paths)
            paths = [path for path in paths if path not in unusable]
            keys = keys_by_file(spark, self._spark_paths(paths), self._source.multiline) if paths else {}
            columns = dict.fromkeys(paths, ()) | {path: keys[name] for name, path in self._paths_of(keys, paths).items()}
            unusable |= {path: why for path, names in columns.items() if (why := base.find_name_problem(names))}
        elif self._source.multiline and heads:
            odd = find_unpaired_quotes(spark, self._spark_paths(heads), self._source.quote)
            unusable |= dict.fromkeys(self._paths_of(odd, paths).values(), "a quote is opened and never closed")
        usable = {path: names for path, names in columns.items() if path not in unusable}
        return _Survey(usable, {path: heads[path] for path in usable}, reasons | unusable)

    def _find_other_json(self, spark: SparkSession, paths: Sequence[str]) -> dict[str, str]:
        """Return the files that are no JSON lines, or with `multiline` no JSON document, with the reason."""
        if not self._source.multiline:
            return find_documents(self._landing, paths)
        broken = find_broken_documents(spark, self._spark_paths(paths)) if paths else set()
        return dict.fromkeys(self._paths_of(broken, paths).values(), NO_DOCUMENT)

    def _read_heads(self, paths: Sequence[str]) -> tuple[dict[str, Head], dict[str, str]]:
        """Return the heads of files, and why others are unusable. An empty CSV file has neither."""
        if self._source.format == "json":
            return dict.fromkeys(paths, JSON_LINES), {}
        if self._source.format == "fixed":
            return dict.fromkeys(paths, Header("", tuple(position.name for position in self._source.positions))), {}
        binary = {"parquet": read_schema, "avro": read_avro_head}
        read = binary.get(self._source.format) or partial(read_header, source=self._source)
        heads = self._landing.read_each(paths, partial(read, self._landing))
        unusable = {path: why for path, why in heads.items() if isinstance(why, str)}
        return {path: head for path, head in heads.items() if head is not None and not isinstance(head, str)}, unusable

    def _read_rows(self, spark: SparkSession, head: Head, bound: Mapping[str, str], paths: Iterable[str]) -> DataFrame:
        if head is JSON_LINES:
            return read_json_rows(spark, self._spark_paths(paths), bound, self._source.multiline)
        if self._source.format == "fixed":
            return read_fixed_rows(spark, self._spark_paths(paths), self._source, bound)
        if isinstance(head, Header):
            return read_csv_rows(spark, self._spark_paths(paths), head, self._source, bound)
        if isinstance(head, AvroHead):
            return read_avro_rows(spark, self._spark_paths(paths), head, bound)
        return read_parquet_rows(spark, self._spark_paths(paths), head, bound)

    def _extraction(self, spark: SparkSession, files: Sequence[LandedFile], survey: _Survey) -> Extraction:
        bronze_names = base.ColumnNames(self._declared)
        bound = {name: bronze_names.bind(name) for names in survey.columns.values() for name in names}
        columns = {path: [bound[name] for name in names] for path, names in survey.columns.items()}
        scans = [self._read_rows(spark, head, bound, paths) for head, paths in _by_head(survey.heads).items()]
        order = list(dict.fromkeys(bound.values()))
        reasons = {file: survey.reasons.get(file.path) or file.refused for file in files}
        texts = {file: f"unreadable file {file.path}: {why}" for file, why in reasons.items() if why}
        problems = [(file.window.start, file.path, [], text) for file, text in texts.items()]
        readable = dict.fromkeys(file for file in files if file.path in columns and file not in texts)
        frame = base.small_frame(spark, base.OWN, problems)
        if scans:
            rows = reduce(DataFrame.union, [_with_columns(scan, order) for scan in scans])
            # Spark opens a partition per 32 small files; a task per core is enough.
            tasks = max(spark.sparkContext.defaultParallelism, sum(file.size for file in readable) // BYTES_PER_TASK)
            read = self._with_location(spark, rows.coalesce(tasks), list(readable), columns)
            frame = read.unionByName(frame, allowMissingColumns=True) if problems else read
        messages, present, lacking, types, respelled = {}, {}, {}, {}, {}
        of_json = self._source.format == "json"
        types_of = {head: spark_types(head) for head in {*survey.heads.values()} if isinstance(head, pa.Schema)}
        types_of |= {head: head.types for head in {*survey.heads.values()} if isinstance(head, AvroHead)}
        for window, group in _by_window(files).items():
            if unreadable := [texts[file] for file in group if file in texts]:
                messages[window] = unreadable
            paths = [file.path for file in group if file in readable]
            # An empty JSON file has no columns, and lacks none.
            by_file = [columns[path] for path in paths if columns[path] or not of_json]
            present[window] = tuple(dict.fromkeys(name for names in by_file for name in names))
            lacking[window] = tuple(name for name in present[window] if not all(name in names for names in by_file))
            spellings = [name for path in paths for name in survey.columns[path]]
            respelled[window] = bronze_names.respelled_columns(spellings)
            schemas = [types_of[head] for path in paths if (head := survey.heads[path]) in types_of]
            if schemas:
                types[window] = base.common_types(schemas, bound)
        return Extraction(frame, messages, present, lacking, types, respelled)

    def _with_location(
        self, spark: SparkSession, rows: DataFrame, files: Sequence[LandedFile], columns: Mapping[str, Sequence[str]]
    ) -> DataFrame:
        """Join rows with their file's window, path and columns: a broadcast join, as Spark searches map literals row by row."""
        cells = [(file.window.start, file.path, columns[file.path], self._landing.key(file.path)) for file in files]
        locations = base.small_frame(spark, {**dict(list(base.OWN.items())[:3]), "_key": pa.string()}, cells)
        joined = rows.withColumn("_key", file_scans.file_key_column(F.col("_file"))).join(
            F.broadcast(locations), "_key", "left"
        )
        stray = F.raise_error(F.concat(F.lit("a row of a file that was not asked for: "), F.col("_file"))).cast("timestamp")
        return joined.select(
            F.coalesce("p_extracted_at", stray).alias("p_extracted_at"),
            *[name for name in base.OWN if name != "p_extracted_at"],
            *[identifier(name) for name in rows.columns if name not in ("_file", "_corrupt_record")],
        )

    def _find_unscannable(
        self, spark: SparkSession, files: Sequence[LandedFile], unreadable: Mapping[str, str]
    ) -> dict[str, str]:
        paths = [file.path for file in files if not file.refused and file.path not in unreadable]
        names = {self._landing.key(path): path for path in paths}
        reasons: dict[str, str] = {}

        def intact(path: str) -> bool:
            return self._landing.can_be_fetched(path) and file_scans.spark_works(spark)

        for head, group in _by_head(self._read_heads(paths)[0]).items():
            read = partial(self._read_rows, spark, head, {name: safe_name(name) for name in head.names})
            reasons |= file_scans.find_unscannable_files(group, read, names, intact)
        return {path: reason.replace(f"{self._landing.root}/", "") for path, reason in reasons.items()}

    def _spark_paths(self, paths: Iterable[str]) -> list[str]:
        return [self._landing.spark_path(path) for path in paths]

    def _paths_of(self, spark_names: Iterable[str], paths: Iterable[str]) -> dict[str, str]:
        """Return the relative path of each file that Spark names."""
        by_key = {self._landing.key(path): path for path in paths}
        return {name: by_key[file_scans.file_key(name)] for name in spark_names}


def _by_window(files: Sequence[LandedFile]) -> dict[Window, list[LandedFile]]:
    """Group files that are sorted by window."""
    return {window: list(group) for window, group in groupby(files, key=lambda file: file.window)}


def _by_head(heads: Mapping[str, Head]) -> dict[Head, list[str]]:
    """Group files that one scan reads."""
    groups: dict[Head, list[str]] = {}
    for path, head in heads.items():
        groups.setdefault(head, []).append(path)
    return groups


def _with_columns(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    present = set(rows.columns)
    missing = F.lit(None).cast("string")
    cells = [F.col(identifier(name)) if name in present else missing.alias(name) for name in names]
    return rows.select("_file", "_corrupt_record", *cells)
