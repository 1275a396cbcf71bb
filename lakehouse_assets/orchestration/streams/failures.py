"""What a stream fails with: as text for a person and for the record, and how the failure outlives its process.

Belongs here: an error → text, and a record → when the next try is due. Does not: storing a record (recorded_report), or when a
failure is over (service).
"""

import logging
from datetime import datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.measures.error_text import error_text
from lakehouse_assets.orchestration.streams.recorded_report import read_report
from lakehouse_assets.orchestration.streams.table_stream import TableStream

# How much of an error is recorded.
LONGEST_ERROR = 1000
log = logging.getLogger("lakehouse.stream")


def failure_text(error: Exception, spec: TableSpec) -> str:
    """Return an error as text. Personal values are masked."""
    return str(error) if isinstance(error, LakehouseError) else error_text(error, bool(spec.pii_columns))


def recorded_text(error: Exception, spec: TableSpec) -> str:
    """Return an error's class and text on one line."""
    return f"{type(error).__name__}: {' '.join(failure_text(error, spec).split())}"[:LONGEST_ERROR]


def resume_failure(instance: dg.DagsterInstance, stream: TableStream, now: datetime, *, waits: bool) -> None:
    """Let a stream that failed in an earlier process go on as failing. ``waits``: its next try is due when it was there. A
    window that kills Java in each process thus leaves time for the other tables.
    """
    try:
        report = read_report(instance, stream.spec)
    except Exception as error:  # as one that did not fail
        log.warning("%s: Dagster cannot be asked: %s", stream.spec.name, type(error).__name__)
        return
    if report is not None and report.error is not None:
        stream.failures = max(report.failures, 1)
        stream.due_at = max(now, report.next_try() or now) if waits else now
