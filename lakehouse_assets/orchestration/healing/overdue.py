"""The check `no_window_overdue`: the newest windows have arrived within `extraction.overdue_after`.

Belongs here: what is overdue, of a calendar and of a stream, and its result. Does not: when it is asked (source_sensor).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.healing import overdue_windows
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.healing import source_versions
from lakehouse_assets.orchestration.step_boundary import masked_check
from lakehouse_assets.queries.stream_lag import read_lag, recorded_lag
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.source_positions import read_positions

CHECK = "no_window_overdue"
SHOWN = 10


def report_overdue(
    instance: dg.DagsterInstance,
    settings: Settings,
    specs: Sequence[TableSpec],
    polled: Sequence[TableSpec],
    before: Mapping[str, str],
    now: datetime,
) -> tuple[list[dg.AssetCheckEvaluation], Mapping[str, str]]:
    """Return the results of ``polled`` tables that differ from those reported ``before``, and the windows that are now reported
    as overdue, by table of all ``specs``.
    """
    limited = {spec.name for spec in specs if spec.extraction.overdue_after is not None}
    reported = {name: text for name, text in before.items() if name in limited}
    evaluations: list[dg.AssetCheckEvaluation] = []
    for spec in polled:
        if spec.name not in limited:
            continue
        windows = _overdue_windows(instance, settings, spec, now)
        reported[spec.name] = f"{windows[0].key}..{windows[-1].key}" if windows else ""
        if reported[spec.name] != before.get(spec.name):
            # A broker that is away answers late, and Dagster ends a tick after a minute.
            result = _overdue_result(settings, spec, windows, now, asks_source=False)
            evaluations.append(evaluation(source_versions.source_key(spec), CHECK, result))
    return evaluations, reported


def _overdue_windows(instance: dg.DagsterInstance, settings: Settings, spec: TableSpec, now: datetime) -> list[Window]:
    """Return windows newer than all that have arrived and closed for longer than the table allows; none without a limit. Of a
    stream: the newest one, if it began longer ago, or that of `extraction.start`. Asks no source.
    """
    extraction, allowed = spec.extraction, spec.extraction.allowed_delay
    if allowed is None:
        return []
    if extraction.stream:
        newest = extraction.window_at(max(read_positions(settings, spec.name), default=extraction.start))
        return [newest] if now - newest.start > allowed else []
    return overdue_windows(extraction.windows(now), source_versions.recorded_versions(instance, spec), now, allowed)


def _overdue_result(
    settings: Settings, spec: TableSpec, windows: Sequence[Window], now: datetime, *, asks_source: bool
) -> dg.AssetCheckResult:
    """Return the check's result. ``asks_source``: how much waits at the source of a stream is shown too."""
    names, limit = first_of([window.key for window in windows], SHOWN), spec.extraction.overdue_after
    late = f"{names}: not at the source {limit} after the end"
    if windows and spec.extraction.stream:
        recorded = recorded_lag(spec, read_positions(settings, spec.name), now).describe_newest()
        lag = read_lag(settings, spec, now).describe() if asks_source else f"{recorded} (`lakehouse heal status`: what waits)"
        late = f"nothing was taken for more than {limit}: {lag}"
    return dg.AssetCheckResult(
        passed=not windows,
        severity=dg.AssetCheckSeverity.ERROR,
        description=late if windows else "every window that is due has arrived at the source",
        metadata={"windows_overdue": len(windows)},
    )


def overdue_check(settings: Settings, spec: TableSpec) -> dg.AssetChecksDefinition:
    """Return `no_window_overdue` of the source. The sensor `watch_sources` reports it; it can run in the UI as well."""

    def result(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        now = datetime.now(UTC)
        windows = _overdue_windows(context.instance, settings, spec, now)
        return _overdue_result(settings, spec, windows, now, asks_source=True)

    description = f"The newest windows have arrived within {spec.extraction.overdue_after} after their end."
    return masked_check(source_versions.source_key(spec), CHECK, description, bool(spec.pii_columns), result)
