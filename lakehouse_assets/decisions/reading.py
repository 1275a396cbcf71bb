"""Quarantined windows that today's `source:` would read otherwise.

Belongs here: comparing recorded rules with today's. Does not: which keys count (contracts), reading windows (pipeline).
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions import ledger


def windows_to_read_again(
    spec: TableContract, newest: Mapping[datetime, ExtractionRecord], decisions: Iterable[Decision]
) -> set[datetime]:
    """Return windows whose newest extraction has rows in quarantine, and was read by other keys of `source:` than today's.
    ``newest``: each window's newest extraction. A stream's windows are read once.

    The keys of the read are those of the first decision: a later one judges the same rows by today's rules.
    """
    if spec.extraction.stream:
        return set()
    current = ledger.current_decisions(decisions)
    last = {start: current[record.batch] for start, record in newest.items() if record.batch in current}
    quarantined = {start for start, d in last.items() if d.counts.rows_quarantined or d.verdict == "quarantined"}
    again: set[datetime] = set()
    for start, of_window in ledger.of_windows(decisions, quarantined).items():
        own = [d for d in of_window if d.batch == newest[start].batch and d.superseded_by is None]
        first = min(own, key=lambda d: d.number)
        if not spec.source.reads_like(_recorded_source(first.ruleset)):
            again.add(start)
    return again


@lru_cache(maxsize=256)
def _recorded_source(ruleset: str) -> Mapping[str, Any]:
    return json.loads(ruleset).get("source", {})
