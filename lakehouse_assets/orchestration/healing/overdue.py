"""The check `no_window_overdue`: the newest windows have arrived within `extraction.overdue_after`.

Belongs here: what is overdue, of a calendar and of a stream, and its result. Does not: when it is asked (source_sensor).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.healing import overdue_windows
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.healing import source_versions
from lakehouse_assets.orchestration.step_boundary import masked_check
from lakehouse_assets.queries.stream_lag import read_lag
from lakehouse_assets.settings import Settings

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
        overdue, result = _overdue(instance, settings, spec, now)
        reported[spec.name] = overdue
        if overdue != before.get(spec.name):
            evaluations.append(evaluation(source_versions.source_key(spec), CHECK, result))
    return evaluations, reported


def _overdue(
    instance: dg.DagsterInstance, settings: Settings, spec: TableSpec, now: datetime
) -> tuple[str, dg.AssetCheckResult]:
    """Return which windows are overdue, as text that changes with them ("": none), and the check's result."""
    extraction, allowed = spec.extraction, spec.extraction.allowed_delay
    if allowed is None:
        return "", _result("", "", 0)
    if extraction.stream:
        lag = read_lag(settings, spec, now)
        overdue = f"after {lag.newest.key if lag.newest else 'start'}" if lag.since > allowed else ""
        text = f"nothing was taken for more than {extraction.overdue_after}: {lag.describe()}"
        return overdue, _result(overdue, text, int(bool(overdue)))
    arrived = source_versions.recorded_versions(instance, spec)
    windows = overdue_windows(extraction.windows(now), arrived, now, allowed)
    overdue = f"{windows[0].key}..{windows[-1].key}" if windows else ""
    names = first_of([window.key for window in windows], SHOWN)
    return overdue, _result(overdue, f"{names}: not at the source {extraction.overdue_after} after the end", len(windows))


def _result(overdue: str, late: str, windows: int) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=not overdue,
        severity=dg.AssetCheckSeverity.ERROR,
        description=late if overdue else "every window that is due has arrived at the source",
        metadata={"windows_overdue": windows},
    )


def overdue_check(settings: Settings, spec: TableSpec) -> dg.AssetChecksDefinition:
    """Return `no_window_overdue` of the source. The sensor `watch_sources` reports it; it can run in the UI as well."""

    def result(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return _overdue(context.instance, settings, spec, datetime.now(UTC))[1]

    description = f"The newest windows have arrived within {spec.extraction.overdue_after} after their end."
    return masked_check(source_versions.source_key(spec), CHECK, description, bool(spec.pii_columns), result)
