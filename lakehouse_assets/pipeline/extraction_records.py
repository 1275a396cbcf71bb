"""What is on record of extractions: what was read of each window, and whether bronze has it still.

Belongs here: making these records, and comparing bronze's commits with them. Does not: reading or writing rows (extract), or
the log itself (storage/logs).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.personal import has_no_header, numbered_names
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.pipeline.table_source import only_in_bronze, recorded_positions
from lakehouse_assets.sources import Extraction
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.evidence import committed_fingerprints, count_extracted_rows


def find_written_again(run: Run, undecided: Sequence[ExtractionRecord]) -> set[datetime]:
    """Return the windows of which bronze has other rows than are on record. They are of other content of the source, or were
    read by other keys of `source:`. A run was killed before it recorded what it read. Where bronze has the only copy of a
    window, its rows stay.
    """
    if not undecided or not _may_be_written_again(run.spec):
        return set()
    committed = committed_fingerprints(run.path("bronze"), [record.batch for record in undecided])
    recorded = [record for record in undecided if record.batch in committed]
    return {r.p_extracted_at for r in recorded if not _is_of_record(run.spec, r, *committed[r.batch])}


def _is_of_record(spec: TableSpec, record: ExtractionRecord, fingerprint: str, reading: str | None) -> bool:
    """Whether a commit with this fingerprint, read by these keys, has the rows that are on record. An older version of this
    package stored no keys.
    """
    return fingerprint == record.fingerprint and (
        None in (reading, record.reading) or _gives_same_rows(spec, reading, record.reading)
    )


def _gives_same_rows(spec: TableSpec, one: str | None, other: str | None) -> bool:
    """Whether the same content gives the same rows by both recordings of keys. They are the same text, or both are today's
    keys in another spelling.
    """
    return one == other or all(text is not None and spec.source.reads_like(json.loads(text)) for text in (one, other))


def recorded_reading(spec: TableSpec) -> str | None:
    """Return today's keys of `source:` that decide the rows, as extractions record them; None where no key does."""
    reading = spec.source.reading()
    return json.dumps(reading, sort_keys=True) if reading else None


def _may_be_written_again(spec: TableSpec) -> bool:
    return not spec.extraction.stream and not only_in_bronze(spec)


def record_extractions(
    run: Run, extraction: Extraction, prints: Mapping[Window, str], seqs: Mapping[Window, int]
) -> list[ExtractionRecord]:
    """Put these windows' extractions on record, with the fingerprints of what was read and the rows that were committed."""
    if not prints:
        return []
    at = run.clock()
    extracted = count_extracted_rows(run.path("bronze"), [(window.start, seqs[window]) for window in prints])
    positions = recorded_positions(run.spec, run.settings)
    reading = recorded_reading(run.spec)
    records = [
        _recordable(
            run.spec,
            ExtractionRecord(
                table=run.table,
                p_extracted_at=window.start,
                extraction_seq=seqs[window],
                fingerprint=print_,
                rows=extracted[window.start, seqs[window]][0],
                columns=tuple(extraction.columns.get(window, ())),
                bronze_version=extracted[window.start, seqs[window]][1],
                run_id=run.run_id,
                extracted_at=at,
                lacking=tuple(extraction.lacking.get(window, ())),
                types=dict(extraction.types.get(window, {})),
                respelled=dict(extraction.respelled.get(window, {})),
                control=extraction.control.get(window),
                position=positions.get(window.start),
                reading=reading,
            ),
        )
        for window, print_ in sorted(prints.items())
    ]
    on_record = _find_on_record(run, records)
    new = [record for record in records if record.batch not in on_record]
    records = [*on_record.values(), *(logs.record_extractions(run.settings, new) if new else [])]
    run.step("extraction_recorded")
    return records


def _find_on_record(run: Run, read: Sequence[ExtractionRecord]) -> dict[Batch, ExtractionRecord]:
    """Return the records of those of these extractions that are what was recorded of them before. Their windows were read
    again because of a killed run that had read others.
    """
    if not _may_be_written_again(run.spec):
        return {}
    by_batch = {record.batch: record for record in read}
    pairs = [(r, by_batch[r.batch]) for r in logs.extractions(run.settings, run.table) if r.batch in by_batch]
    same = [(r, now) for r, now in pairs if (r.fingerprint, r.rows) == (now.fingerprint, now.rows)]
    return {r.batch: r for r, now in same if _gives_same_rows(run.spec, r.reading, now.reading)}


def _recordable(spec: TableSpec, record: ExtractionRecord) -> ExtractionRecord:
    """The record without names of columns that may be personal values: those of a file whose first line is no header."""
    declared = [safe_name(source) for source in spec.all_source_columns]
    if not spec.pii_columns or not has_no_header(record.columns, declared):
        return record
    return replace(record, columns=numbered_names(record.columns), lacking=(), types={}, respelled={})
