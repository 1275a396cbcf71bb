"""The last report of each stream, stored by the instance: one value a table, which the daemon reads without asking a source.

Belongs here: reading and storing it. Does not: what it means (decisions/stream_report), or when it is made (service).
"""

from datetime import datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.stream_report import StreamReport, next_report, report_from_text
from lakehouse_assets.orchestration.dagster_internals import read_cursor, write_cursors
from lakehouse_assets.queries.stream_lag import StreamLag


def read_report(instance: dg.DagsterInstance, spec: TableSpec) -> StreamReport | None:
    """Return a stream's last report; None if no service ever made one."""
    text = read_cursor(instance, _key(spec))
    return report_from_text(text) if text else None


def record_lag(instance: dg.DagsterInstance, spec: TableSpec, lag: StreamLag, now: datetime) -> None:
    """Store how far a stream is behind. Its error stays."""
    newest_start = lag.newest.start if lag.newest else None
    report = next_report(read_report(instance, spec), lag.waiting, lag.unit, lag.arrived_at, newest_start, now)
    write_cursors(instance, {_key(spec): report.to_text()})


def record_error(instance: dg.DagsterInstance, spec: TableSpec, error: str | None, now: datetime, failures: int = 0) -> None:
    """Store a stream's last error (masked) and the number of ``failures``, or that it is over."""
    before = read_report(instance, spec) or StreamReport(now)
    if (before.error, before.failures) != (error, failures):
        write_cursors(instance, {_key(spec): before.with_error(error, now, failures).to_text()})


def _key(spec: TableSpec) -> str:
    return f"lakehouse_stream_report/{spec.name}"
