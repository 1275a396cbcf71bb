"""Messages about decisions, sent at least once, from the decision log itself: alerts of critical failures by the sensor
`announce_quarantined`, and an event in Kafka for each applied decision, in order, by `publish_decisions`.

Belongs here: how far each recipient was sent the log (stored by the instance), and the sensors. Does not: a message's text, an
event's fields and order, or Kafka (events).
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.errors import LakehouseError, LockedError
from lakehouse_assets.events.alerts import AlertingTable, Channel, alert_channels, format_message, select_new, send_message
from lakehouse_assets.events.kafka import open_sender
from lakehouse_assets.events.outbox import Cursor, Sender, advance_cursor, deliver, find_due
from lakehouse_assets.orchestration.dagster_internals import read_cursor, write_cursors
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.check_results import find_lagging_tables, project_check_results
from lakehouse_assets.storage.lock import table_lock

# Limits of one tick of `publish_decisions`: the next one, half a minute later, sends the rest.
MAX_EVENTS = 1000
SECONDS = 10.0
OFF = "LAKEHOUSE_KAFKA_BOOTSTRAP is not set: no events are sent; decisions stay in the log"
OpenSender = Callable[[Settings], AbstractContextManager[Sender]]


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
                cursors = {_alert_key(table, recipient): f"{d.number} {d.decision_id}" for table, d in last.items()}
                write_cursors(instance, cursors)
                sent |= {decision.decision_id for decision in new_decisions}
            except (LakehouseError, ConnectionError) as error:
                warnings.append(str(error))
    return len(sent), warnings


def _alert_key(table: str, recipient: Channel) -> str:
    return f"lakehouse_announced/{table}/{' '.join(recipient)}"


def _last_sent(instance: dg.DagsterInstance, table: str, recipient: Channel, decisions: Sequence[Decision]) -> int:
    """Return the number of the last decision sent to this recipient; 0 if the log does not have it, as another lake's."""
    number, _, decision_id = (read_cursor(instance, _alert_key(table, recipient)) or "").partition(" ")
    return int(number) if decision_id in {decision.decision_id for decision in decisions} else 0


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

    def state() -> str:
        # Recipients by table, as a hash without any address in it.
        tables = {spec.name: [sorted(alert_channels(spec)), sorted(gold.name for gold in spec.gold)] for spec in specs}
        recipients = hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()
        contents = [delta.content_id(settings.path("ops", log)) for log in ("decisions", "check_results")]
        return json.dumps([recipients, *contents])

    def send(instance: dg.DagsterInstance) -> tuple[str, list[str], bool]:
        sent, warnings = send_alerts(instance, settings, specs)
        warnings = [*warnings, *complete_check_results(settings)]
        text = f"sent alerts of {sent} window(s)" if sent else "nothing to send"
        return "; ".join([text, *warnings]), warnings, not warnings

    description = "Sends an alert when a critical check quarantines something, where a table names recipients."
    return _log_sensor("announce_quarantined", description, state, send)


def _log_sensor(
    name: str,
    description: str,
    state: Callable[[], str],
    send: Callable[[dg.DagsterInstance], tuple[str, list[str], bool]],
) -> dg.SensorDefinition:
    """Return a sensor that calls ``send`` where ``state`` has changed: reading the logs of a year takes seconds. No JVM.

    ``send`` returns what it did, warnings, and whether nothing is left to send.
    """

    @dg.sensor(name=name, description=description, minimum_interval_seconds=30, default_status=dg.DefaultSensorStatus.RUNNING)
    def tick(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        cursor = state()
        if context.cursor == cursor:
            return dg.SkipReason("no new decisions")
        text, warnings, is_complete = send(context.instance)
        for warning in warnings:
            context.log.warning(warning)
        context.update_cursor(cursor if is_complete else "")
        return dg.SkipReason(text)

    return tick


@dataclass
class DeliveryReport:
    """Events that were sent, events that wait, and warnings: what failed is sent again."""

    sent: int = 0
    waiting: int = 0
    warnings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        sent = f"{self.sent} event(s) sent" if self.sent or not self.waiting else "nothing sent"
        return "; ".join([sent, *([f"{self.waiting} wait"] if self.waiting else []), *self.warnings])


def publish_decisions(
    instance: dg.DagsterInstance,
    settings: Settings,
    *,
    open_sender: OpenSender = open_sender,
    max_events: int = MAX_EVENTS,
    seconds: float = SECONDS,
    step: Callable[[str], None] = lambda _: None,
) -> DeliveryReport:
    """Send events that were not sent before, for at most ``seconds`` after the log is read. Without a broker's address, nothing
    is read.

    ``step``: called with `events_sent` between the brokers' answers and the cursor's update: a crash there sends them again.
    """
    if settings.kafka_bootstrap is None:
        return DeliveryReport()
    with ExitStack() as stack:
        try:
            # Two processes at once would send every event twice: allowed, but useless.
            stack.enter_context(table_lock(settings, "ops_outbox", wait_seconds=0))
        except LockedError:
            return DeliveryReport(warnings=["another process is sending"])
        by_table: dict[str, list[Decision]] = {}
        for decision in logs.decisions(settings):
            by_table.setdefault(decision.table, []).append(decision)
        cursors = {table: _read_event_cursor(instance, settings, table) for table in by_table}
        behind = [table for table in sorted(by_table) if find_due(by_table[table], cursors[table])]
        if not behind:
            return DeliveryReport()
        # Checks are read only now, and only of these tables: most ticks have nothing to send.
        by_table = {table: logs.decisions(settings, table, checks=True) for table in behind}
        waiting = {table: find_due(by_table[table], cursors[table]) for table in behind}
        report = DeliveryReport(waiting=sum(map(len, waiting.values())))
        try:
            with open_sender(settings) as sender:
                delivered = deliver(waiting, sender, at_most=max_events, seconds=seconds)
        except (LakehouseError, ConnectionError) as error:
            report.warnings.append(str(error))
            return report
        step("events_sent")
        for table, sent in delivered.accepted.items():
            if sent:
                cursor = advance_cursor(by_table[table], sent, cursors[table])
                write_cursors(instance, {_event_key(settings, table): json.dumps(asdict(cursor))})
                report.sent += len(sent)
        report.waiting -= report.sent
        report.warnings += [f"{table}: {text}" for table, text in sorted(delivered.errors.items())]
        return report


def _event_key(settings: Settings, table: str) -> str:
    # A new topic has received nothing yet, and receives everything.
    return f"lakehouse_published/{settings.kafka_topic}/{table}"


def _read_event_cursor(instance: dg.DagsterInstance, settings: Settings, table: str) -> Cursor:
    values = json.loads(read_cursor(instance, _event_key(settings, table)) or "{}")
    return Cursor(**{**values, "passed": tuple(values.get("passed", ()))})


def decision_event_sensor(settings: Settings) -> dg.SensorDefinition:
    """Return `publish_decisions`, on by default; without a broker's address it says so."""

    def send(instance: dg.DagsterInstance) -> tuple[str, list[str], bool]:
        if settings.kafka_bootstrap is None:
            return OFF, [], False
        report = publish_decisions(instance, settings)
        return str(report), report.warnings, not report.warnings and not report.waiting

    description = "Sends each applied decision to Kafka as an event, where LAKEHOUSE_KAFKA_BOOTSTRAP names a broker."
    return _log_sensor("publish_decisions", description, lambda: log_state(settings), send)


def log_state(settings: Settings) -> str:
    """Return a text that changes when there may be new events."""
    if settings.kafka_bootstrap is None:
        return "off"
    return f"{settings.kafka_topic} {delta.content_id(settings.path('ops', 'decisions'))}"
