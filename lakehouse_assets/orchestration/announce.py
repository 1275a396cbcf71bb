"""The announcer: tells of critical failures once they are applied, at least once, from the log itself; and completes the
projection of checks' results, where a step could not.

Belongs here: how far the log has been announced (kept by the instance), and the sensor. Does not: the message (events).
"""

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.events.alerts import news, send
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.check_results import lagging, project

PREFIX = "lakehouse_announced/"


def announce(instance: dg.DagsterInstance, settings: Settings, specs: list[TableSpec]) -> tuple[int, list[str]]:
    """Send what has not been sent. Returns how many windows and gold tables were told of, and what went wrong (it is tried
    again).
    """
    told, troubles = 0, []
    for spec in specs:
        if not (spec.alerts.webhooks or spec.alerts.slack or spec.alerts.emails):
            continue
        fresh: dict[str, list[Decision]] = {}
        for table in [spec.name, *(f"gold_{gold.name}" for gold in spec.gold)]:
            key = PREFIX + table
            cursor = instance.daemon_cursor_storage.get_cursor_values({key}).get(key)
            fresh[key] = news(logs.decisions(settings, table, evidence=False), int(cursor or 0))
        found = [decision for each in fresh.values() for decision in each]
        if not found:
            continue
        try:
            send(spec, settings, found)
        except (LakehouseError, ConnectionError) as error:
            troubles.append(str(error))
            continue
        instance.daemon_cursor_storage.set_cursor_values({key: str(each[-1].number) for key, each in fresh.items() if each})
        told += len(found)
    return told, troubles


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
        told, troubles = announce(context.instance, settings, specs)
        troubles = [*troubles, *complete_results(settings)]
        for trouble in troubles:
            context.log.warning(trouble)
        return dg.SkipReason("; ".join([f"told of {told} window(s)" if told else "nothing to tell", *troubles]))

    return announce_quarantined
