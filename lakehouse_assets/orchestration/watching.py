"""The sensor `watch_sources`: what has arrived or changed at the sources, and what should have.

Belongs here: the sensor and its cursor. Does not: looking (watcher), or what is overdue (overdue).
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.orchestration.overdue import tell_overdue
from lakehouse_assets.orchestration.watcher import look
from lakehouse_assets.settings import Settings


def watcher_sensor(settings: Settings, specs: Sequence[TableSpec]) -> dg.SensorDefinition:
    """The sensor, on by default: it costs a listing of the landing place."""

    @dg.sensor(
        name="watch_sources",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports windows that arrived or changed at a source, once they have settled for two looks; and those that "
        "should have arrived, where a table says when.",
    )
    def watch_sources(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        before = json.loads(context.cursor) if context.cursor else {}
        now = datetime.now(UTC)
        events, seen, troubles = look(context.instance, settings, specs, before.get("seen", {}), now)
        results, overdue = tell_overdue(context.instance, specs, before.get("overdue", {}), now)
        for trouble in troubles:
            context.log.warning(trouble)
        cursor = json.dumps({"seen": seen, "overdue": overdue}, sort_keys=True)
        if not events and not results and cursor == context.cursor:
            waiting = sum(map(len, seen.values()))
            return dg.SkipReason(
                "; ".join(troubles) or (f"{waiting} windows are settling" if waiting else "nothing new at the sources")
            )
        return dg.SensorResult(asset_events=[*events, *results], cursor=cursor)

    return watch_sources
