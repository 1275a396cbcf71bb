"""Messages about decisions, sent at least once, from the decision log itself. The sensor `announce_quarantined` sends alerts
of critical failures, also of streams that fail. `publish_decisions` sends an event to Kafka for each applied decision, in
order.

Belongs here: how far each recipient of alerts was sent the log (stored by the instance), and the sensors. Does not: a message's
text, an event's fields and order, or Kafka (events); how far an outlet was sent the log (outlets); an alert of a stream
(streams/alerts).
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.events.alerts import AlertingTable, Channel, alert_channels, format_message, select_new, send_message
from lakehouse_assets.events.kafka import open_sender
from lakehouse_assets.events.outbox import Cursor
from lakehouse_assets.orchestration.dagster_internals import read_cursor, write_cursors
from lakehouse_assets.orchestration.outlets import (
    MAX_EVENTS,
    SECONDS,
    DeliveryReport,
    OpenSender,
    Outlet,
    log_sensor,
    send_due,
)
from lakehouse_assets.orchestration.streams.alerts import failing_streams, send_stream_alerts
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.check_results import find_lagging_tables, project_check_results

OFF = "LAKEHOUSE_KAFKA_BOOTSTRAP is not set: no events are sent; decisions stay in the log"


def send_alerts(instance: dg.DagsterInstance, settings: Settings, specs: Sequence[AlertingTable]) -> tuple[int, list[str]]:
    """Send each recipient the decisions that it was not sent before. Returns the number of windows and gold tables in them, and
    warnings: a failed alert is sent again to that recipient alone.
    """
    sent: set[str] = set()
    warnings = []
    for spec in specs:
        if not (recipients := alert_channels(spec)):
            continue
        tables = [spec.name, *(f"gold_{gold.name}" for gold in spec.gold)]
        decisions = {table: logs.decisions(settings, table) for table in tables}
        for recipient in recipients:
            new = {
                table: select_new(decisions[table], _last_sent(instance, table, recipient, decisions[table]))
                for table in tables
            }
            new_decisions = [decision for of_table in new.values() for decision in of_table]
            if not new_decisions:
                continue
            last = {table: of_table[-1] for table, of_table in new.items() if of_table}
            try:
                send_message(spec, settings, recipient, *format_message(spec, new_decisions))
                cursors = {_alert_key(table, recipient): Cursor.at(d).as_text() for table, d in last.items()}
                write_cursors(instance, cursors)
                sent |= {decision.decision_id for decision in new_decisions}
            except (LakehouseError, ConnectionError) as error:
                warnings.append(str(error))
    return len(sent), warnings


def _alert_key(table: str, recipient: Channel) -> str:
    return f"lakehouse_announced/{table}/{' '.join(recipient)}"


def _last_sent(instance: dg.DagsterInstance, table: str, recipient: Channel, decisions: Sequence[Decision]) -> int:
    """Return the number of the last decision sent to this recipient; 0 if the log does not have it, as another lake's."""
    cursor = Cursor.from_text(read_cursor(instance, _alert_key(table, recipient)) or "")
    return cursor.number if cursor.is_of(decisions) else 0


def complete_check_results(settings: Settings) -> list[str]:
    """Project the check results that steps left out. Returns warnings: the next tick tries again."""
    warnings = []
    for table in find_lagging_tables(settings):
        try:
            # A concurrent run of the table completes them as well.
            project_check_results(settings, table, wait_seconds=1)
        except Exception as error:
            warnings.append(f"{table}: check results are not complete: {error}")
    return warnings


def alert_sensor(settings: Settings, specs: Sequence[AlertingTable]) -> dg.SensorDefinition:
    """Return `announce_quarantined`, on by default. It also completes the check results where a step could not."""

    def state(instance: dg.DagsterInstance) -> str:
        # Recipients by table, as a hash without any address in it.
        tables = {spec.name: [sorted(alert_channels(spec)), sorted(gold.name for gold in spec.gold)] for spec in specs}
        recipients = hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()
        contents = [delta.content_id(settings.path("ops", log)) for log in ("decisions", "check_results")]
        return json.dumps([recipients, *contents, failing_streams(instance, specs, datetime.now(UTC))])

    def send(instance: dg.DagsterInstance) -> tuple[str, list[str], bool]:
        sent, warnings = send_alerts(instance, settings, specs)
        warnings = [*warnings, *send_stream_alerts(instance, settings, specs, datetime.now(UTC))]
        warnings += complete_check_results(settings)
        text = f"sent alerts of {sent} window(s)" if sent else "nothing to send"
        return "; ".join([text, *warnings]), warnings, not warnings

    description = (
        "Sends an alert when a critical check quarantines something or a stream fails, where a table names recipients."
    )
    return log_sensor("announce_quarantined", description, state, send)


def publish_decisions(
    instance: dg.DagsterInstance,
    settings: Settings,
    *,
    open_sender: OpenSender = open_sender,
    max_events: int = MAX_EVENTS,
    seconds: float = SECONDS,
    step: Callable[[str], None] = lambda _: None,
) -> DeliveryReport:
    """Send Kafka what it was not sent before (`send_due`). Without a broker's address, nothing is read."""
    if settings.kafka_bootstrap is None:
        return DeliveryReport()
    # A new topic has received nothing yet, and receives everything.
    outlet = Outlet("ops_outbox", f"lakehouse_published/{settings.kafka_topic}", open_sender)
    return send_due(instance, settings, outlet, max_events=max_events, seconds=seconds, step=step)


def decision_event_sensor(settings: Settings) -> dg.SensorDefinition:
    """Return `publish_decisions`, on by default; without a broker's address it says so."""

    def send(instance: dg.DagsterInstance) -> tuple[str, list[str], bool]:
        if settings.kafka_bootstrap is None:
            return OFF, [], False
        report = publish_decisions(instance, settings)
        return str(report), report.warnings, not report.warnings and not report.waiting

    description = "Sends each applied decision to Kafka as an event, where LAKEHOUSE_KAFKA_BOOTSTRAP names a broker."
    return log_sensor("publish_decisions", description, lambda _: log_state(settings), send)


def log_state(settings: Settings) -> str:
    """Return a text that changes when there may be new events."""
    if settings.kafka_bootstrap is None:
        return "off"
    return f"{settings.kafka_topic} {delta.content_id(settings.path('ops', 'decisions'))}"
