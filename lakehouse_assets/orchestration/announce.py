"""The announcer: tells of quarantined windows after they are applied, at least once, from the log itself.

Belongs here: how far the log has been announced (kept by the instance), and the sensor. Does not: the message (events).
"""

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.events.alerts import news, send
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

PREFIX = "lakehouse_announced/"


def announce(instance: dg.DagsterInstance, settings: Settings, specs: list[TableSpec]) -> tuple[int, list[str]]:
    """Send what has not been sent. Returns how many windows were told of, and what went wrong (it is tried again)."""
    told, troubles = 0, []
    for spec in specs:
        if not (spec.alerts.webhooks or spec.alerts.slack or spec.alerts.emails):
            continue
        key = PREFIX + spec.name
        cursor = instance.daemon_cursor_storage.get_cursor_values({key}).get(key)
        fresh = news(logs.decisions(settings, spec.name, evidence=False), {spec.name: int(cursor or 0)}, spec.name)
        if not fresh:
            continue
        try:
            send(spec, settings, fresh)
        except (LakehouseError, ConnectionError) as error:
            troubles.append(str(error))
            continue
        instance.daemon_cursor_storage.set_cursor_values({key: str(fresh[-1].number)})
        told += len(fresh)
    return told, troubles


def announcer_sensor(settings: Settings, specs: list[TableSpec]) -> dg.SensorDefinition:
    """The sensor, on by default: it reads the decisions' log without a JVM."""

    @dg.sensor(
        name="announce_quarantined",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends an alert when a window was quarantined, where a table names whom to tell.",
    )
    def announce_quarantined(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        told, troubles = announce(context.instance, settings, specs)
        for trouble in troubles:
            context.log.warning(trouble)
        return dg.SkipReason("; ".join([f"told of {told} window(s)" if told else "nothing to tell", *troubles]))

    return announce_quarantined
