"""The sensor `watch_sources`: what has arrived or changed at the sources, and what should have.

Belongs here: the sensor and its cursor. Does not: looking (watcher), what is overdue (overdue), or windows that lie apart
(scattered).
"""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.orchestration.healer import is_healed
from lakehouse_assets.orchestration.healing import selection_of
from lakehouse_assets.orchestration.overdue import tell_overdue
from lakehouse_assets.orchestration.scattered import scattered
from lakehouse_assets.orchestration.watcher import ANSWER_SECONDS, TOO_LATE, Looked, look, patience
from lakehouse_assets.settings import Settings


def watcher_sensor(settings: Settings, specs: Sequence[TableSpec]) -> dg.SensorDefinition:
    """The sensor, on by default: it costs a listing of the landing place."""
    # Where it is kept, beside a cursor that is lost, whose source took too long.
    place = f"watch_sources {settings.root}"

    @dg.sensor(
        name="watch_sources",
        asset_selection=selection_of(specs) if specs else None,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports windows that arrived or changed at a source, once they have settled for two looks; and those that "
        "should have arrived, where a table says when. Of very many windows, some tables' at each tick, in turn.",
    )
    def watch_sources(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        before = json.loads(context.cursor) if context.cursor else {}
        now, began = datetime.now(UTC), time.monotonic()
        stored = context.instance.daemon_cursor_storage
        slow = stored.get_cursor_values({place}).get(place)
        # One that takes too long would take all that was seen of the others with it, again and again.
        turn = [spec for spec in specs if spec.name != slow]
        looked = look(
            context.instance, settings, turn, before.get("seen", {}), now, patience(), before.get("next"), ANSWER_SECONDS
        )
        late = looked.slowest if time.monotonic() - began > TOO_LATE else None
        if slow or late:
            stored.set_cursor_values({place: late or ""})
        if slow:
            looked.seen.update({name: prints for name, prints in before.get("seen", {}).items() if name == slow})
            looked.troubles.append(
                f"{slow}: its source took so long that Dagster gave the look up (after a minute): it is left out of this one."
                " Put fewer folders into its path, or let extraction.start be later"
            )
        results, overdue = tell_overdue(context.instance, specs, looked.tables, before.get("overdue", {}), now)
        for trouble in looked.troubles:
            context.log.warning(trouble)
        cursor = json.dumps({"seen": looked.seen, "overdue": overdue, "next": looked.next}, sort_keys=True)
        requests = _together(context, settings, looked, now)
        if not looked.events and not results and cursor == context.cursor:
            waiting = sum(map(len, looked.seen.values()))
            return dg.SkipReason(
                "; ".join(looked.troubles) or (f"{waiting} windows are settling" if waiting else "nothing new at the sources")
            )
        return dg.SensorResult(asset_events=[*looked.events, *results], run_requests=requests, cursor=cursor)

    return watch_sources


def _together(context: dg.SensorEvaluationContext, settings: Settings, looked: Looked, now: datetime) -> list[dg.RunRequest]:
    """What is asked for here. A table of which that cannot be told is left to the conditions, and its events are reported."""
    requests: list[dg.RunRequest] = []
    if not looked.events or not is_healed(context.instance):
        return requests
    for spec in looked.tables:
        try:
            requests += scattered(context.instance, settings, spec, looked.events, now, looked.seen.get(spec.name, {}))
        except Exception as error:
            context.log.warning(f"{spec.name}: its gaps are taken one by one: {error}")
    return requests
