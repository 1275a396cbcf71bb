"""Extract: a source's windows into bronze, as they came, one commit for a whole range.

Belongs here: which windows need extracting, their sequence numbers, the append and its record. Does not: judging rows.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql_text import identifier, literal
from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions import ledger
from lakehouse_assets.layers.run import Run
from lakehouse_assets.layers.source import only_in_bronze, settled_source
from lakehouse_assets.sources import SCAN_ERRORS, Extraction, Source
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.lock import table_lock

BOOKKEEPING = ("p_extracted_at", "extraction_seq", "_content_hash", "_source_file", "_columns", "_corrupt_record")


def extract(run: Run, windows: Sequence[Window]) -> dict[Window, ExtractionRecord]:
    """Bring these windows' batches into bronze and return each one's newest extraction; windows that have not arrived are
    left out. A window whose source has not changed since it was extracted is not read again. Raises SourceError.
    """
    with table_lock(run.settings, run.spec.name):
        source, settled = settled_source(run, windows)
        arrived = source.fingerprints(settled)
        records = logs.extractions(run.settings, run.spec.name)
        newest = ledger.latest_extractions(records)
        todo = {
            window: print_
            for window, print_ in sorted(arrived.items())
            if window.start not in newest or newest[window.start].fingerprint != print_
        }
        if todo:
            waiting = {
                r.p_extracted_at for r in ledger.undecided(records, logs.decisions(run.settings, run.spec.name, evidence=False))
            }
            seqs = {window: _next_seq(newest.get(window.start), window.start in waiting) for window in todo}
            run.step("extracting")
            made = _extract(run, source, todo, seqs)
            newest |= {record.p_extracted_at: record for record in made}
        return {window: newest[window.start] for window in windows if window.start in newest}


def _next_seq(last: ExtractionRecord | None, undecided: bool) -> int:
    """An extraction that nobody has judged is written over; a judged one stays as evidence."""
    if last is None:
        return 1
    return last.extraction_seq if undecided else last.extraction_seq + 1


def _extract(run: Run, source: Source, todo: Mapping[Window, str], seqs: Mapping[Window, int]) -> list[ExtractionRecord]:
    windows = sorted(todo)
    path = run.path("bronze")
    taken = _rows_by_extraction(path)
    # Left by an extraction that died between its commit and its record, or never judged: these rows are replaced. But where
    # bronze is the only copy they stay, for the source may have less of them by now.
    left = {window for window in windows if (window.start, seqs[window]) in taken}
    kept = left if only_in_bronze(run.spec) else set()
    wanted = {window: seq for window, seq in seqs.items() if window not in kept}

    def write(extraction: Extraction) -> None:
        frame = extraction.frame
        if kept:
            frame = frame.where(~F.col("p_extracted_at").isin([window.start for window in kept]))
        if wanted:
            _write(run, frame, wanted, bool(left - kept))

    extraction = source.read(run.spark, windows)
    try:
        write(extraction)
    except SCAN_ERRORS:
        unreadable = source.probe(run.spark, windows)
        if not unreadable:
            raise
        extraction = source.read(run.spark, windows, unreadable=unreadable)
        write(extraction)
    run.step("bronze_committed")
    taken = _rows_by_extraction(path)
    version, at = delta.version(path), run.clock()
    made = [
        ExtractionRecord(
            table=run.spec.name,
            p_extracted_at=window.start,
            extraction_seq=seqs[window],
            fingerprint=todo[window],
            rows=taken.get((window.start, seqs[window]), 0),
            columns=tuple(extraction.columns.get(window, ())),
            bronze_version=version,
            run_id=run.run_id,
            extracted_at=at,
            lacking=tuple(extraction.lacking.get(window, ())),
            types=dict(extraction.types.get(window, {})),
            respelled=dict(extraction.respelled.get(window, {})),
            control=extraction.control.get(window),
        )
        for window in windows
    ]
    logs.record_extractions(run.settings, made)
    run.step("extraction_recorded")
    return made


def bronze_rows(frame: DataFrame, seqs: Mapping[Window, int]) -> DataFrame:
    """Rows of an extraction as bronze keeps them. ``seqs``: which extraction of each window this is."""
    source_columns = sorted(c for c in frame.columns if c not in BOOKKEEPING)
    # Names go into the hash, so that a NULL and an absent column are one thing and values never shift between columns; the
    # separator is doubled within a value, so that no value looks like two.
    values = {
        c: F.replace(F.col(identifier(c)), F.lit("\x1f"), F.lit("\x1f\x1f")) for c in [*source_columns, "_corrupt_record"]
    }
    parts = [F.concat(F.lit(f"{c}="), value) for c, value in values.items()]
    numbers = sorted(set(seqs.values()))
    seq = F.lit(numbers[0])
    if len(numbers) > 1:
        pairs = [cell for window, number in sorted(seqs.items()) for cell in (F.lit(window.start), F.lit(number))]
        seq = F.create_map(*pairs)[F.col("p_extracted_at")]
    # Bookkeeping first: Delta keeps statistics of the first 32 columns only, and these are looked up by them.
    return frame.select(
        "p_extracted_at",
        seq.cast("int").alias("extraction_seq"),
        F.md5(F.concat_ws("\x1f", *parts)).alias("_content_hash"),
        "_source_file",
        "_columns",
        "_corrupt_record",
        *[identifier(c) for c in source_columns],
    )


def _write(run: Run, frame: DataFrame, seqs: Mapping[Window, int], replacing: bool) -> None:
    rows = bronze_rows(frame, seqs)
    if len(seqs) > 1:
        rows = rows.repartition("p_extracted_at")
    path = run.path("bronze")
    if replacing:
        where = " OR ".join(
            f"(p_extracted_at = {literal(window.start)} AND extraction_seq = {int(number)})"
            for window, number in sorted(seqs.items())
        )
        delta.replace(rows, path, where, partition_by=["p_extracted_at"])
    else:
        delta.append(rows, path, partition_by=["p_extracted_at"])


def _rows_by_extraction(path: str) -> dict[tuple[datetime, int], int]:
    """Rows of every extraction, from the files' statistics: no scan. A file holds one extraction of one window."""
    if not delta.exists(path):
        return {}
    files = delta.row_counts(path)
    found: dict[tuple[datetime, int], int] = {}
    if not files.num_rows:
        return found
    columns = [files["partition.p_extracted_at"], files["min.extraction_seq"], files["num_records"]]
    for start, seq, rows in zip(*[c.to_pylist() for c in columns], strict=True):
        batch = (delta.utc(start), seq)
        found[batch] = found.get(batch, 0) + rows
    return found
