"""A source that has stopped: the check `no_window_overdue` of tables that say how long after its end a window should be there.

Belongs here: telling of windows that should have arrived. Does not: which have arrived (watcher), or bringing them in.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.healing import overdue
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.orchestration.watcher import recorded_versions

CHECK = "no_window_overdue"
SHOWN = 10
Told = Mapping[str, str]


def overdue_of(instance: dg.DagsterInstance, spec: TableSpec, now: datetime) -> list[Window]:
    """Windows newer than all that have arrived, and over for longer than the table allows; none where it does not say."""
    allowed = spec.extraction.allowed_delay
    if allowed is None:
        return []
    arrived = recorded_versions(instance, dg.AssetKey(f"source_{spec.name}"))
    return overdue(spec.extraction.windows(now), arrived, now, allowed)


def tell_overdue(
    instance: dg.DagsterInstance, specs: Sequence[TableSpec], looked_at: Sequence[TableSpec], before: Told, now: datetime
) -> tuple[list[dg.AssetCheckEvaluation], Told]:
    """The results of the tables ``looked_at`` that differ from what was told ``before``, and what is told now of all ``specs``:
    by table, which windows are overdue.
    """
    asked = {spec.name for spec in specs if spec.extraction.overdue_after is not None}
    told = {name: text for name, text in before.items() if name in asked}
    found: list[dg.AssetCheckEvaluation] = []
    for spec in looked_at:
        if spec.name not in asked:
            continue
        windows = overdue_of(instance, spec, now)
        told[spec.name] = f"{windows[0].key}..{windows[-1].key}" if windows else ""
        if told[spec.name] != before.get(spec.name):
            found.append(dg.AssetCheckEvaluation(asset_key=_source(spec), check_name=CHECK, **_result(spec, windows)))
    return found, told


def overdue_check(spec: TableSpec) -> dg.AssetChecksDefinition:
    """`no_window_overdue` of the source. The watcher tells it; it can be asked in the UI as well."""

    @dg.asset_check(
        asset=_source(spec),
        name=CHECK,
        description=f"The newest windows have arrived within {spec.extraction.overdue_after} after their end.",
    )
    def no_window_overdue(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(**_result(spec, overdue_of(context.instance, spec, datetime.now(UTC))))

    return no_window_overdue


def _source(spec: TableSpec) -> dg.AssetKey:
    return dg.AssetKey(f"source_{spec.name}")


def _result(spec: TableSpec, windows: Sequence[Window]) -> dict[str, Any]:
    """As the keyword arguments of a result or of an evaluation."""
    names = first_of([window.key for window in windows], SHOWN)
    late = f"{names}: not at the source {spec.extraction.overdue_after} after the end"
    return {
        "passed": not windows,
        "severity": dg.AssetCheckSeverity.ERROR,
        "description": late if windows else "what should be at the source is there",
        "metadata": {"windows_overdue": len(windows)},
    }
