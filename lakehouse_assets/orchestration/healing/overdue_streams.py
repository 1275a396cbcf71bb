"""The result of `no_window_overdue` of a stream: nothing waits for longer than `extraction.overdue_after`, and no error lasts.

Belongs here: that result, by what the service of streams recorded. Does not: a calendar (overdue), or the rule (decisions).
"""

from datetime import datetime, timedelta

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.stream_report import StreamReport, is_overdue, waits_since
from lakehouse_assets.orchestration.streams.recorded_report import read_report
from lakehouse_assets.queries.stream_lag import StreamLag, read_lag, recorded_lag
from lakehouse_assets.reports.markdown import escape_controls
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.source_positions import read_positions

FINE = "nothing waits for too long, and the last try succeeded"


def judge_stream(
    instance: dg.DagsterInstance, settings: Settings, spec: TableSpec, now: datetime, *, asks_source: bool
) -> tuple[dg.AssetCheckResult, str]:
    """Return the check's result, and a text that changes when the result should be reported again. That is at once where it is
    another one, and each time the lag has doubled, from one hour on. ``asks_source``: the result also shows what waits by the
    source.
    """
    report, recorded = read_report(instance, spec), read_positions(settings, spec.name)
    lag = recorded_lag(spec, recorded, now)
    newest_start, allowed = (lag.newest.start if lag.newest else spec.extraction.start), spec.extraction.allowed_delay
    error = report.lasting_error(now) if report else None
    late = allowed is not None and is_overdue(report, newest_start, now, allowed)
    since = waits_since(report, newest_start, now)
    parts, state = [], []
    if error and report and report.fails_since:
        parts.append(f"the stream fails since {report.fails_since:%Y-%m-%d %H:%M} UTC: {escape_controls(error)}")
        state.append(error)
    if late and since:
        parts.append(_describe_delay(settings, spec, report, lag, now, asks_source=asks_source))
        state.append(f"late by less than {2 ** int((now - since) / timedelta(hours=1)).bit_length()} h")
    metadata = {"windows_overdue": int(late), "seconds_waiting": (now - since).total_seconds() if since else 0.0}
    result = dg.AssetCheckResult(
        passed=not parts,
        severity=dg.AssetCheckSeverity.ERROR,
        description="; ".join(parts) or FINE,
        metadata=metadata,
    )
    return result, "; ".join(state)


def _describe_delay(
    settings: Settings, spec: TableSpec, report: StreamReport | None, lag: StreamLag, now: datetime, *, asks_source: bool
) -> str:
    """Return how late a stream is."""
    limit, is_running = spec.extraction.overdue_after, report is not None and report.is_of_running_service(now)
    if report is not None and is_running and report.waiting:
        shown = lag.with_waiting(report.waiting, report.unit, report.waits_since, now)
        return f"something waits for more than {limit}: {shown.describe()}"
    of_service = "" if is_running else "; no running `lakehouse stream` reports what waits"
    if asks_source:
        return f"nothing was taken for more than {limit}: {read_lag(settings, spec, now).describe()}{of_service}"
    asks = " (`lakehouse heal status`: what waits)"
    return f"nothing was taken for more than {limit}: {lag.describe_newest()}{asks}{of_service}"
