"""Extract: a source's windows into bronze, as they came, one commit for a whole range.

Belongs here: which windows need extracting, their sequence numbers, the append and its record. Does not: judging rows.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.contracts.batch import BRONZE_COLUMNS, Batch
from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.failure_isolation import FailureIsolation, halves
from lakehouse_assets.decisions.reading import windows_to_read_again
from lakehouse_assets.errors import SourceError
from lakehouse_assets.measures.batches import batches_sql
from lakehouse_assets.pipeline import read_windows
from lakehouse_assets.pipeline.evidence import TABLES, refuse_damaged
from lakehouse_assets.pipeline.extraction_records import find_written_again, record_extractions, recorded_reading
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.table_source import only_in_bronze, recorded_positions, remembers, settled_source
from lakehouse_assets.sources import SCAN_ERRORS, Extraction, Source
from lakehouse_assets.sources.base import ReadsInOnePass
from lakehouse_assets.storage import commit_metadata, delta, delta_writes, logs
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets.storage.disk_errors import find_disk_fault
from lakehouse_assets.storage.leases.guards import is_fenced
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.session_properties import write_unsorted

# Whose values files of bronze are looked up by. Statistics of the source's own columns would take as long as writing them.
LOOKED_UP = ("p_extracted_at", "extraction_seq", "_corrupt_record")


def extract(run: Run, windows: Sequence[Window]) -> dict[Window, ExtractionRecord]:
    """Ingest these windows' batches into bronze and return each one's newest extraction; windows that have not arrived are left
    out. A window whose source has not changed since it was extracted is not read again, unless it is quarantined and today's
    `source:` reads it otherwise. Raises SourceError, after the readable windows are in bronze and on record.
    """
    with table_lock(run.settings, run.table):
        # Without the logs, what is decided would be written over. Other damage may be mended by what arrives; but where the
        # source cannot give a window twice, a bronze that is put back later would write over the new one.
        refuse_damaged(run, mending=[p for p in TABLES if p != "bronze" or not remembers(run.spec)])
        if run.spec.source.polled_by_spark:
            run.spark  # noqa: B018 (the session that its fingerprints then use)
        source, settled = settled_source(run, windows)
        arrived = source.fingerprints(settled)
        starts = {window.start for window in windows}
        records = logs.extractions(run.settings, run.table).of_windows(starts)
        newest = ledger.latest_extractions(records)
        decisions = logs.decisions(run.settings, run.table)
        waiting = ledger.undecided_extractions(records, decisions)
        again = find_written_again(run, waiting) | windows_to_read_again(run.spec, newest, decisions)
        todo = {
            window: text
            for window, text in sorted(arrived.items())
            if window.start in again or _is_news(run.spec, newest.get(window.start), text)
        }
        if todo:
            undecided = {record.p_extracted_at for record in waiting}
            # An extraction that nobody has judged is written over; a judged one stays as evidence.
            seqs = {start: record.extraction_seq + (start not in undecided) for start, record in newest.items()}
            run.step("extracting")
            new, failures = _extract_each(run, source, todo, {window: seqs.get(window.start, 1) for window in todo})
            newest |= {record.p_extracted_at: record for record in new}
            read_windows.refuse_windows(failures)
        return {window: newest[window.start] for window in windows if window.start in newest}


def _is_news(spec: TableSpec, newest: ExtractionRecord | None, fingerprint: str) -> bool:
    """Whether a window must be read: it was not, or has changed since. A stream's window is read once: what changes at its
    source comes again in a later window.
    """
    return newest is None or (not spec.extraction.stream and newest.fingerprint != fingerprint)


def _extract_each(
    run: Run, source: Source, todo: Mapping[Window, str], seqs: Mapping[Window, int]
) -> tuple[list[ExtractionRecord], dict[Window, Exception]]:
    """Return records of the readable windows, and the source's errors for the others, which are isolated by halving."""
    records: list[ExtractionRecord] = []

    def read(some: Sequence[Window]) -> SourceError | None:
        try:
            records.extend(_extract_settled(run, source, {window: todo[window] for window in some}, seqs))
        except SourceError as error:
            return error
        return None

    def left_of(some: Sequence[Window]) -> list[Window]:
        source.fingerprints(some)  # where the source as a whole cannot be reached, this says so
        starts = {record.p_extracted_at for record in records}
        return [window for window in some if window.start not in starts]

    failures = FailureIsolation(read, left_of, halves).isolate(sorted(todo))
    return records, {window: error for some, error in failures for window in some}


def _extract_settled(
    run: Run, source: Source, todo: Mapping[Window, str], seqs: Mapping[Window, int]
) -> list[ExtractionRecord]:
    """Extract these windows; those whose files changed meanwhile again, and what was read of them is not on record."""
    records: list[ExtractionRecord] = []
    pending, reasons = dict(todo), {}
    for _ in range(read_windows.ATTEMPTS):
        extraction = _read_into_bronze(run, source, pending, seqs)
        changed = read_windows.changed_meanwhile(run, source, pending)
        if extraction is not None:
            steady = {window: print_ for window, print_ in pending.items() if window not in changed}
            records += record_extractions(run, extraction, steady, seqs)
            pending = {window: pending[window] for window in changed}
        reasons |= {window: read_windows.MISSING_FILES for window, now in changed.items() if now is None}
        pending |= {window: now for window, now in changed.items() if now is not None}
        pending = {window: print_ for window, print_ in pending.items() if window not in reasons}
        if not pending:
            break
    reasons |= dict.fromkeys(pending, read_windows.CHANGED)
    if reasons:
        texts = {window: f"unreadable window {window.key}: {reason}" for window, reason in reasons.items()}
        extraction = read_windows.with_corrupt_rows(run.spark, texts)
        prints = {window: read_windows.fingerprint_of_unreadable(todo[window]) for window in reasons}
        _commit(run, extraction, prints, seqs)
        records += record_extractions(run, extraction, prints, seqs)
    return records


def _read_into_bronze(run: Run, source: Source, todo: Mapping[Window, str], seqs: Mapping[Window, int]) -> Extraction | None:
    """Read and commit these windows; unreadable parts become corrupt rows. None if their files changed meanwhile."""
    windows, unreadable = sorted(todo), {}
    if (extraction := _commit_one_pass(run, source, todo, seqs)) is not None:
        return extraction
    try:
        try:
            return _commit(run, source.read(run.spark, windows), todo, seqs)
        except SCAN_ERRORS as error:
            if read_windows.changed_meanwhile(run, source, todo):
                return None
            unreadable = source.probe(run.spark, windows)
            if not unreadable and not isinstance(run.spec.source, FilesSource):
                raise
            failure = error
        if unreadable:
            try:
                return _commit(run, source.read(run.spark, windows, unreadable=unreadable), todo, seqs)
            except SCAN_ERRORS as error:
                failure = error
        reasons = read_windows.unreadable_windows(run.spark, source, windows, unreadable, failure)
        if not reasons:
            raise failure
        readable = [window for window in windows if window not in reasons]
        good = source.read(run.spark, readable, unreadable=unreadable) if readable else None
        return _commit(run, read_windows.with_corrupt_rows(run.spark, reasons, good), todo, seqs)
    except SCAN_ERRORS:
        if read_windows.changed_meanwhile(run, source, todo):
            return None
        raise


def _commit_one_pass(run: Run, source: Source, todo: Mapping[Window, str], seqs: Mapping[Window, int]) -> Extraction | None:
    """Read and commit a single window in one pass. Return None if there is a newest window and its columns are others, or if
    the scan fails. The caller then reads it in two passes, which reports the error.
    """
    # Where bronze may have the only copy, a window that is in it is not scanned, and its columns are not seen.
    if len(todo) != 1 or not isinstance(source, ReadsInOnePass) or only_in_bronze(run.spec):
        return None
    last_columns = logs.view_extractions(run.settings, run.table, lambda fold: fold.records[-1].columns if fold.records else ())
    extraction = source.read_in_one_pass(run.spark, min(todo), last_columns)
    try:
        return None if extraction is None else _commit(run, extraction, todo, seqs)
    except SCAN_ERRORS as error:
        if is_fenced(error) or find_disk_fault(error):
            raise
        return None


def _commit(run: Run, extraction: Extraction, prints: Mapping[Window, str], seqs: Mapping[Window, int]) -> Extraction:
    """Write the rows of these windows (``prints``: with their fingerprints) in one commit; returns the extraction."""
    try:
        return _write(run, extraction, prints, seqs)
    finally:
        extraction.release()


def _write(run: Run, extraction: Extraction, prints: Mapping[Window, str], seqs: Mapping[Window, int]) -> Extraction:
    extracted = TableFiles(run.path("bronze")).extractions([window.start for window in prints])
    frame = extraction.frame
    # Written by an extraction that died between its commit and its record, or never judged: these rows are replaced. But where
    # bronze is the only copy they stay, for the source may have less of them by now.
    leftovers = {window for window in prints if (window.start, seqs[window]) in extracted}
    if only_in_bronze(run.spec) and leftovers:
        frame = frame.where(~F.col("p_extracted_at").isin([window.start for window in leftovers]))
        prints, leftovers = {window: text for window, text in prints.items() if window not in leftovers}, set()
    if prints:
        write_bronze(run, frame, {window: seqs[window] for window in sorted(prints)}, prints, replacing=bool(leftovers))
    run.step("bronze_committed")
    return extraction


def bronze_rows(frame: DataFrame, seqs: Mapping[Window, int]) -> DataFrame:
    """Rows of an extraction as bronze keeps them. ``seqs``: which extraction of each window this is."""
    source_columns = sorted(c for c in frame.columns if c not in BRONZE_COLUMNS)
    numbers = sorted(set(seqs.values()))
    seq = F.lit(numbers[0])
    if len(numbers) > 1:
        pairs = [cell for window, number in sorted(seqs.items()) for cell in (F.lit(window.start), F.lit(number))]
        seq = F.create_map(*pairs)[F.col("p_extracted_at")]
    # Bookkeeping first: an older table has statistics of its first 32 columns, and these are looked up by them.
    return frame.select(
        "p_extracted_at",
        seq.cast("int").alias("extraction_seq"),
        hash_of_row(source_columns).alias("_content_hash"),
        "_source_file",
        "_columns",
        "_corrupt_record",
        *[identifier(c) for c in source_columns],
    )


def hash_of_row(source_columns: Sequence[str]) -> Column:
    """The content hash of a row with these columns, which are sorted.

    Names go into the hash, so that a NULL and an absent column are one thing and values never shift between columns; the
    separator is doubled within a value, so that no value looks like two.
    """
    one, two = literal("\x1f"), literal("\x1f\x1f")
    cells = [
        f"concat({literal(f'{c}=')}, replace({identifier(c)}, {one}, {two}))" for c in [*source_columns, "_corrupt_record"]
    ]
    return F.expr(f"md5(concat_ws({one}, {', '.join(cells)}))")


def write_bronze(
    run: Run, frame: DataFrame, seqs: Mapping[Window, int], prints: Mapping[Window, str], *, replacing: bool
) -> None:
    """Write rows of these extractions in one commit, with their fingerprints and the keys of `source:` that they were read by.
    ``replacing``: in place of bronze's own.
    """
    batches: dict[Batch, str] = {(window.start, seq): prints[window] for window, seq in sorted(seqs.items())}
    recorded = recorded_positions(run.spec, run.settings)
    positions: dict[Batch, str] = {(w.start, seq): recorded[w.start] for w, seq in seqs.items() if w.start in recorded}
    rows, path = bronze_rows(frame, seqs), run.path("bronze")
    if len(seqs) > 1:
        rows = rows.repartition("p_extracted_at")
    metadata = commit_metadata.encode_fingerprints(batches, positions, recorded_reading(run.spec))
    where = batches_sql(batches) if replacing else None
    # Many windows a partition in Dagster are too many for a folder each (`window_files`). A table keeps the layout that it has.
    exists = delta.exists(path)
    partitions = [] if run.spec.extraction.shares_partitions or exists else ["p_extracted_at"]
    properties = {} if exists else bronze_properties(partitions)
    with write_unsorted(run.spark) if len(seqs) == 1 else nullcontext():
        delta_writes.append(rows, path, partition_by=partitions, user_metadata=metadata, replacing=where, properties=properties)


def bronze_properties(partitions: Collection[str]) -> dict[str, str]:
    """Return the properties of a new bronze table, which is partitioned by these columns."""
    return {"delta.dataSkippingStatsColumns": ",".join(name for name in LOOKED_UP if name not in partitions)}
