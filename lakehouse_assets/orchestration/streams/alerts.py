"""Alerts of streams that fail: one message for each failure and channel, whatever errors follow each other in it.

Belongs here: which failures a channel was not sent yet. Does not: channels (events/alerts), or when it is asked (notify).
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.events.alerts import AlertingTable, alert_channels, send_message
from lakehouse_assets.orchestration.dagster_internals import read_cursor, write_cursors
from lakehouse_assets.orchestration.streams.recorded_report import read_report
from lakehouse_assets.reports.markdown import escape_controls
from lakehouse_assets.settings import Settings


def failing_streams(instance: dg.DagsterInstance, specs: Sequence[AlertingTable], now: datetime) -> dict[str, str]:
    """Return since when each stream fails that has channels, for longer than any broker needs to start again."""
    return {spec.name: since for spec, since, _ in _failures(instance, specs, now)}


def send_stream_alerts(
    instance: dg.DagsterInstance, settings: Settings, specs: Sequence[AlertingTable], now: datetime
) -> list[str]:
    """Send each channel the failures that it was not sent before. Returns warnings: what failed is sent again."""
    warnings: list[str] = []
    for spec, since, error in _failures(instance, specs, now):
        for channel in alert_channels(spec):
            key = f"lakehouse_stream_failure/{spec.name}/{' '.join(channel)}"
            if read_cursor(instance, key) == since:
                continue
            look = f"Look: lakehouse heal status --table {spec.name}"
            body = f"It is tried again, and nothing is taken until that succeeds.\n{error}\n{look}"
            try:
                send_message(spec, settings, channel, f"{spec.name}: the stream fails", body)
                write_cursors(instance, {key: since})
            except (LakehouseError, ConnectionError) as failure:
                warnings.append(str(failure))
    return warnings


def _failures(
    instance: dg.DagsterInstance, specs: Sequence[AlertingTable], now: datetime
) -> Iterator[tuple[TableSpec, str, str]]:
    """Yield the streams that fail, since when, and the error."""
    for spec in specs:
        if not (isinstance(spec, TableSpec) and spec.extraction.stream and alert_channels(spec)):
            continue
        report = read_report(instance, spec)
        error = report.lasting_error(now) if report else None
        if report and error and report.fails_since:
            yield spec, report.fails_since.isoformat(), escape_controls(error)
