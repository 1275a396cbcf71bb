"""Read windows so that one cannot stop the others: files that changed meanwhile, and windows that cannot be read at all.

Belongs here: what is tried again, what becomes a corrupt row, and what fails the run. Does not: writing bronze, records.

A window of files whose read fails, though its files are unchanged, Spark works and the others can be read, becomes one corrupt
row. Databases and topics have no files: their errors name the window (SourceError).
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa
from pyspark.sql import SparkSession

from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.errors import SourceError
from lakehouse_assets.measures.batches import evaluate
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.table_source import source_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import SCAN_ERRORS, Extraction, FilesReader, Source
from lakehouse_assets.sources.file_scans import innermost_reason, is_environmental, spark_works

# So often a window is read again at once whose files changed while it was read.
ATTEMPTS = 3
CHANGED = f"its files changed while they were read, {ATTEMPTS} times in a row; it is read again when they rest"
MISSING_FILES = "its files were removed while they were read"


def fingerprint_of_unreadable(fingerprint: str) -> str:
    """A fingerprint that no source gives: the window is read again, whatever the source has next.

    >>> len(fingerprint_of_unreadable("a")), fingerprint_of_unreadable("a") == "a"
    (32, False)
    """
    return hashlib.sha256(f"{fingerprint} unreadable".encode()).hexdigest()[:32]


def whole_windows(settings: Settings, spec: TableSpec, windows: Sequence[Window], now: datetime) -> list[Window]:
    """The windows without those whose files are not whole yet, as `source.settled` has it. Of windows that share a partition,
    one is read while another still arrives. All of them, where each has a partition of its own. Raises SourceError.
    """
    source = source_of(spec, settings) if spec.extraction.shares_partitions and not spec.extraction.stream else None
    if not isinstance(source, FilesReader):
        return list(windows)
    settlements = source.observe(windows, now).settlements
    return [window for window in windows if settlements.get(window) != "waits"]


def why_nothing_arrived(settings: Settings, spec: TableSpec, windows: Sequence[Window], now: datetime) -> str:
    """Return why none of these windows can be read: their files are not settled yet, or there are none. Raises SourceError."""
    location, source = spec.source.location, source_of(spec, settings)
    if isinstance(spec.source, FilesSource) and isinstance(source, FilesReader) and not spec.extraction.stream:
        reasons = source.unsettled_files(windows, now)
        if reasons and spec.source.settled:
            number = sum(reasons.values())
            are = f"{number:,} file is" if number == 1 else f"{number:,} files are"
            rule = f"source.settled is {spec.source.settled.rule}: {'; '.join(reasons)}"
            return f"{are} not settled yet at {location} ({rule})"
    return f"nothing has arrived at {location}"


def changed_meanwhile(run: Run, source: Source, todo: Mapping[Window, str]) -> dict[Window, str | None]:
    """Of files, the windows whose fingerprint is another than before, with what it is now; None where the files are gone.

    A database or topic gives whole rows or messages, so that nothing is read half; what changes there is read again later.
    Raises SourceError where the source cannot be reached any more.
    """
    if not isinstance(run.spec.source, FilesSource):
        return {}
    now = source.fingerprints(todo)
    return {window: now.get(window) for window, print_ in todo.items() if now.get(window) != print_}


def unreadable_windows(
    spark: SparkSession, source: Source, windows: Sequence[Window], unreadable: Mapping[str, str], error: Exception
) -> dict[Window, str]:
    """The windows that cannot be read by themselves, each with the reason: halved until they are alone. Empty where all can be
    read, so that something else failed (the disk that bronze is on, say). Raises ``error`` where it is no fault of the data.
    ``unreadable``: files that cannot be read, and why.
    """
    if is_environmental(error):
        raise error

    def fails(some: Sequence[Window]) -> Exception | None:
        try:
            evaluate(source.read(spark, some, unreadable=unreadable).frame)
        except SCAN_ERRORS as failure:
            if is_environmental(failure):
                raise
            return failure
        return None

    failures = _alone(list(windows), fails)
    if failures and not spark_works(spark):
        raise error
    return {window: f"unreadable window {window.key}: {innermost_reason(why)}" for window, why in failures.items()}


def _alone(windows: list[Window], fails: Callable[[Sequence[Window]], Exception | None]) -> dict[Window, Exception]:
    error = fails(windows)
    if error is None:
        return {}
    if len(windows) > 1:
        half = len(windows) // 2
        return _alone(windows[:half], fails) | _alone(windows[half:], fails)
    again = fails(windows)  # what happens once only is no fault of the data
    if again is None:
        raise error
    return {windows[0]: again}


def with_corrupt_rows(spark: SparkSession, reasons: Mapping[Window, str], good: Extraction | None = None) -> Extraction:
    """An extraction of the ``good`` windows, and of one corrupt row for each of these."""
    windows = sorted(reasons)
    columns = {
        "p_extracted_at": pa.array([window.start for window in windows], pa.timestamp("us", "UTC")),
        "_source_file": pa.array([""] * len(windows), pa.string()),
        "_columns": pa.array([[] for _ in windows], pa.list_(pa.string())),
        "_corrupt_record": pa.array([reasons[window] for window in windows], pa.string()),
    }
    rows = spark.createDataFrame(pa.table(columns))
    none: dict[Window, tuple[str, ...]] = dict.fromkeys(windows, ())
    problems = {window: [reason] for window, reason in reasons.items()}
    if good is None:
        return Extraction(rows, problems, none, none)
    return replace(
        good,
        frame=good.frame.unionByName(rows, allowMissingColumns=True),
        problems={**good.problems, **problems},
        columns={**good.columns, **none},
        lacking={**good.lacking, **none},
    )


def refuse_windows(failed: Mapping[Window, Exception]) -> None:
    """Raise one SourceError for the windows that a source could not give, each reason once; nothing where there are none."""
    by_text: dict[str, list[str]] = {}
    for window, error in sorted(failed.items(), key=lambda item: item[0]):
        by_text.setdefault(str(error), []).append(window.key)
    if by_text:
        raise SourceError("\n".join(f"{text} ({first_of(keys, 5)} not read)" for text, keys in by_text.items()))
