"""The announcer: tells of critical failures once they are applied, at least once, from the log itself; and completes the
projection of checks' results, where a step could not.

Belongs here: how far the log has been announced (kept by the instance), and the sensor. Does not: the message (events).
"""

import hashlib
import json
from collections.abc import Sequence

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.events.alerts import Place, news, places, send
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.check_results import lagging, project

PREFIX = "lakehouse_announced/"


def announce(instance: dg.DagsterInstance, settings: Settings, specs: list[TableSpec]) -> tuple[int, list[str]]:
    """Send each place what it has not been sent. Returns how many windows and gold tables were told of, and what went wrong
    (it is tried again, there alone).
    """
    told: set[str] = set()
    troubles = []
    for spec in specs:
        if not (to := places(spec)):
            continue
        tables = [spec.name, *(f"gold_{gold.name}" for gold in spec.gold)]
        known = {table: logs.decisions(settings, table, evidence=False) for table in tables}
        for place in to:
            fresh = {table: news(known[table], _told_up_to(instance, table, place, known[table])) for table in tables}
            found = [decision for each in fresh.values() for decision in each]
            if not found:
                continue
            try:
                send(spec, settings, place, found)
            except (LakehouseError, ConnectionError) as error:
                troubles.append(str(error))
                continue
            told_now = {table: each[-1] for table, each in fresh.items() if each}
            numbers = {_key(table, place): f"{last.number} {last.decision_id}" for table, last in told_now.items()}
            instance.daemon_cursor_storage.set_cursor_values(numbers)
            told |= {decision.decision_id for decision in found}
    return len(told), troubles


def _key(table: str, place: Place) -> str:
    return f"{PREFIX}{table}/{' '.join(place)}"


def _told_up_to(instance: dg.DagsterInstance, table: str, place: Place, known: Sequence[Decision]) -> int:
    """The number of the last decision that this place was told of. Of a log in which that one does not stand, which is another
    lake's, it was told nothing. Kept for all places together before, under the table, and without the decision.
    """
    keys = [_key(table, place), PREFIX + table]
    found = instance.daemon_cursor_storage.get_cursor_values(set(keys))
    there = {decision.decision_id for decision in known}
    cursors = [found[key].split(" ") for key in keys if found.get(key)]
    return max((int(number) for number, *told in cursors if not told or told[0] in there), default=0)


def _whom(specs: Sequence[TableSpec]) -> str:
    """What is different once a table names another place, or there is another table. No address is in it."""
    tables = {spec.name: [sorted(map(list, places(spec))), sorted(gold.name for gold in spec.gold)] for spec in specs}
    return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()


def complete_results(settings: Settings) -> list[str]:
    """Project what the steps left out. Returns what went wrong (it is tried again)."""
    troubles = []
    for table in lagging(settings):
        try:
            # A run that writes them just now does it as well.
            project(settings, table, wait_seconds=1)
        except Exception as error:
            troubles.append(f"{table}: check results are not complete: {error}")
    return troubles


def announcer_sensor(settings: Settings, specs: list[TableSpec]) -> dg.SensorDefinition:
    """The sensor, on by default: it reads the decisions' log without a JVM."""

    @dg.sensor(
        name="announce_quarantined",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends an alert when a critical check holds something, where a table names whom to tell.",
    )
    def announce_quarantined(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        # To read the logs of a year takes seconds; most looks find them as the last one left them.
        looked_at = json.dumps(
            [_whom(specs), *(delta.state(settings.path("ops", log)) for log in ("decisions", "check_results"))]
        )
        if context.cursor == looked_at:
            return dg.SkipReason("nothing has been decided since the last look")
        told, troubles = announce(context.instance, settings, specs)
        troubles = [*troubles, *complete_results(settings)]
        for trouble in troubles:
            context.log.warning(trouble)
        context.update_cursor("" if troubles else looked_at)
        return dg.SkipReason("; ".join([f"told of {told} window(s)" if told else "nothing to tell", *troubles]))

    return announce_quarantined
