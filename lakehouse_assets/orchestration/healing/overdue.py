"""The check `no_window_overdue`: the newest windows have arrived within `extraction.overdue_after`.

Belongs here: what is overdue of a calendar, and its result. Does not: when it is asked (source_sensor), or a stream's result
(overdue_streams).
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.healing import overdue_windows
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.measures.error_text import as_evidence_error, error_text
from lakehouse_assets.orchestration.assets.metadata import evaluation
from lakehouse_assets.orchestration.healing import source_versions
from lakehouse_assets.orchestration.healing.overdue_streams import judge_stream
from lakehouse_assets.orchestration.step_boundary import masked_check
from lakehouse_assets.reports.markdown import escape_controls
from lakehouse_assets.settings import Settings

CHECK = "no_window_overdue"
SHOWN = 10
# After the text of a result that is to be reported again.
AGAIN = " (again)"


def report_overdue(
    instance: dg.DagsterInstance,
    settings: Settings,
    specs: Sequence[TableSpec],
    polled: Sequence[TableSpec],
    before: Mapping[str, str],
    now: datetime,
    arriving: Collection[dg.AssetKey] = (),
) -> tuple[list[dg.AssetCheckEvaluation], Mapping[str, str]]:
    """Return the results of ``polled`` tables that differ from those reported ``before``. Return also the windows that are now
    reported as overdue (of a stream: what is wrong), by table of all ``specs``. ``arriving``: sources whose new windows are
    reported together with these results, so that a result cannot name them. The next tick reports that result again.
    """
    limited = {spec.name for spec in specs if has_overdue_check(spec)}
    reported = {name: text for name, text in before.items() if name in limited}
    evaluations: list[dg.AssetCheckEvaluation] = []
    for spec in polled:
        if spec.name not in limited:
            continue
        source = source_versions.source_key(spec)
        try:
            # A broker that is away answers late, and Dagster ends a tick after a minute.
            result, reported[spec.name] = _judge(instance, settings, spec, now, asks_source=False)
        except Exception as error:  # one table's damaged log stops no other table's results
            result, reported[spec.name] = _failed_result(spec, error), f"error: {type(error).__name__}"
        if reported[spec.name] != before.get(spec.name):
            evaluations.append(evaluation(instance, source, CHECK, result))
        reported[spec.name] += AGAIN if source in arriving else ""
    return evaluations, reported


def _failed_result(spec: TableSpec, error: Exception) -> dg.AssetCheckResult:
    """Return the failed result of a check that cannot be evaluated. Personal values are masked."""
    text = error_text(as_evidence_error(error) or error, bool(spec.pii_columns))
    description = f"this cannot be checked: {escape_controls(text)}"
    return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.ERROR, description=description)


def has_overdue_check(spec: TableSpec) -> bool:
    """Whether a table has the check: a stream has it also without `overdue_after`, for its errors."""
    return spec.extraction.overdue_after is not None or spec.extraction.stream is not None


def _judge(
    instance: dg.DagsterInstance, settings: Settings, spec: TableSpec, now: datetime, *, asks_source: bool
) -> tuple[dg.AssetCheckResult, str]:
    """Return the check's result, and what is overdue as text. ``asks_source``: how much waits at the source of a stream is
    shown too.
    """
    if spec.extraction.stream:
        return judge_stream(instance, settings, spec, now, asks_source=asks_source)
    windows = _overdue_windows(instance, spec, now)
    return _overdue_result(spec, windows), f"{windows[0].key}..{windows[-1].key}" if windows else ""


def _overdue_windows(instance: dg.DagsterInstance, spec: TableSpec, now: datetime) -> list[Window]:
    """Return windows newer than all that have arrived and closed for longer than the table allows; none without a limit."""
    extraction, allowed = spec.extraction, spec.extraction.allowed_delay
    if allowed is None:
        return []
    return overdue_windows(extraction.windows(now), source_versions.recorded_versions(instance, spec), now, allowed)


def _overdue_result(spec: TableSpec, windows: Sequence[Window]) -> dg.AssetCheckResult:
    names, limit = first_of([window.key for window in windows], SHOWN), spec.extraction.overdue_after
    late = f"{names}: not at the source {limit} after the end"
    return dg.AssetCheckResult(
        passed=not windows,
        severity=dg.AssetCheckSeverity.ERROR,
        description=late if windows else "every window that is due has arrived at the source",
        metadata={"windows_overdue": len(windows)},
    )


def overdue_check(settings: Settings, spec: TableSpec) -> dg.AssetChecksDefinition:
    """Return `no_window_overdue` of the source. The sensor `watch_sources` reports it; it can run in the UI as well."""

    def result(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return _judge(context.instance, settings, spec, datetime.now(UTC), asks_source=True)[0]

    limit = spec.extraction.overdue_after
    description = f"The newest windows have arrived within {limit} after their end."
    if spec.extraction.stream:
        description = "The stream's last try succeeded" + (f", and nothing waits for more than {limit}." if limit else ".")
    return masked_check(source_versions.source_key(spec), CHECK, description, bool(spec.pii_columns), result)
