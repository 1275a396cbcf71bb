"""Windows of which nothing is published, and that today's `source:` would read otherwise.

Belongs here: comparing recorded rules with today's. Does not: which keys count (contracts), reading windows (pipeline).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions import ledger


def windows_to_read_again(
    spec: TableContract, newest: Mapping[datetime, ExtractionRecord], decisions: Sequence[Decision]
) -> set[datetime]:
    """Return windows whose newest extraction (``newest``) is quarantined as a whole or not judged, and was read by other keys
    of `source:` than today's. A stream's windows are read once.

    Of a published extraction no row is read again unasked: today's keys may be wrong for it.
    """
    if spec.extraction.stream:
        return set()
    current = ledger.current_decisions(decisions)
    unpublished = [r for r in newest.values() if r.batch not in current or current[r.batch].verdict == "quarantined"]
    return {record.p_extracted_at for record in read_otherwise(spec, unpublished, decisions)}


def read_otherwise(
    spec: TableContract, records: Sequence[ExtractionRecord], decisions: Sequence[Decision]
) -> list[ExtractionRecord]:
    """Return those of these extractions that were read by other keys of `source:` than today's."""
    of_windows = ledger.of_windows(decisions, {record.p_extracted_at for record in records if record.reading is None})
    otherwise = []
    for record in records:
        of_window = of_windows.get(record.p_extracted_at, ())
        source = _parsed(record.reading) if record.reading else _judged_source(of_window, record)
        if source is not None and not spec.source.reads_like(source):
            otherwise.append(record)
    return otherwise


def _judged_source(of_window: Iterable[Decision], record: ExtractionRecord) -> Mapping[str, Any] | None:
    """Return `source:` of an extraction's first decision: a later one judges the same rows by other rules. None without any."""
    own = [d for d in of_window if d.batch == record.batch and d.superseded_by is None]
    return _parsed(min(own, key=lambda d: d.number).ruleset).get("source", {}) if own else None


@lru_cache(maxsize=256)
def _parsed(text: str) -> Mapping[str, Any]:
    return json.loads(text)
