"""Outlets of the decision log: each sends every applied decision, at least once and in order by table, and stores how far it is
in the instance.

Belongs here: how far each outlet is, its report, the shape of a sensor that reads the log. Does not: what an outlet sends
(events), or which outlets there are (notify, lineage).
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.errors import LakehouseError, LockedError
from lakehouse_assets.events.outbox import Cursor, Forms, Sender, advance_cursor, deliver, event_forms, find_due
from lakehouse_assets.orchestration.dagster_internals import read_cursor, write_cursors
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.lock import table_lock

# Limits of one tick: the next one, half a minute later, sends the rest.
MAX_EVENTS = 1000
SECONDS = 10.0
OpenSender = Callable[[Settings], AbstractContextManager[Sender]]


@dataclass(frozen=True)
class Outlet:
    """``lock``: one process sends at a time. ``cursor_key``: the place of its cursors; another receiver has another one, and so
    receives everything. ``forms``: a decision's messages.
    """

    lock: str
    cursor_key: str
    open_sender: OpenSender
    forms: Forms = event_forms


@dataclass
class DeliveryReport:
    """Events that were sent, events that wait, and warnings: what failed is sent again."""

    sent: int = 0
    waiting: int = 0
    warnings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        sent = f"{self.sent} event(s) sent" if self.sent or not self.waiting else "nothing sent"
        return "; ".join([sent, *([f"{self.waiting} wait"] if self.waiting else []), *self.warnings])


def send_due(
    instance: dg.DagsterInstance,
    settings: Settings,
    outlet: Outlet,
    *,
    max_events: int = MAX_EVENTS,
    seconds: float = SECONDS,
    step: Callable[[str], None] = lambda _: None,
) -> DeliveryReport:
    """Send an outlet what it was not sent before, for at most ``seconds`` after the log is read.

    ``step``: called with `events_sent` between the answers and the cursor's update: a crash there sends them again.
    """
    with ExitStack() as stack:
        try:
            # Two processes at once would send every event twice: allowed, but useless.
            stack.enter_context(table_lock(settings, outlet.lock, wait_seconds=0))
        except LockedError:
            return DeliveryReport(warnings=["another process is sending"])
        by_table: dict[str, list[Decision]] = {}
        for decision in logs.decisions(settings):
            by_table.setdefault(decision.table, []).append(decision)
        cursors = {table: _read_cursor(instance, outlet, table) for table in by_table}
        behind = [table for table in sorted(by_table) if find_due(by_table[table], cursors[table])]
        if not behind:
            return DeliveryReport()
        # Checks are read only now, and only of these tables: most ticks have nothing to send.
        complete = {table: logs.decisions(settings, table, checks=True) for table in behind}
        waiting = {table: find_due(complete[table], cursors[table]) for table in behind}
        report = DeliveryReport(waiting=sum(map(len, waiting.values())))
        try:
            with outlet.open_sender(settings) as sender:
                delivered = deliver(waiting, sender, forms=outlet.forms, at_most=max_events, seconds=seconds)
        except (LakehouseError, ConnectionError) as error:
            report.warnings.append(str(error))
            return report
        step("events_sent")
        for table, sent in delivered.accepted.items():
            if sent:
                cursor = advance_cursor(complete[table], sent, cursors[table])
                write_cursors(instance, {f"{outlet.cursor_key}/{table}": json.dumps(asdict(cursor))})
                report.sent += len(sent)
        report.waiting -= report.sent
        report.warnings += [f"{table}: {text}" for table, text in sorted(delivered.errors.items())]
        return report


def _read_cursor(instance: dg.DagsterInstance, outlet: Outlet, table: str) -> Cursor:
    values = json.loads(read_cursor(instance, f"{outlet.cursor_key}/{table}") or "{}")
    return Cursor(**{**values, "passed": tuple(values.get("passed", ()))})


def log_sensor(
    name: str,
    description: str,
    state: Callable[[dg.DagsterInstance], str],
    send: Callable[[dg.DagsterInstance], tuple[str, list[str], bool]],
) -> dg.SensorDefinition:
    """Return a sensor that calls ``send`` where ``state`` has changed: reading the logs of a year takes seconds. No JVM.

    ``send`` returns what it did, warnings, and whether nothing is left to send.
    """

    @dg.sensor(name=name, description=description, minimum_interval_seconds=30, default_status=dg.DefaultSensorStatus.RUNNING)
    def tick(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        cursor = state(context.instance)
        if context.cursor == cursor:
            return dg.SkipReason("no new decisions")
        text, warnings, is_complete = send(context.instance)
        for warning in warnings:
            context.log.warning(warning)
        context.update_cursor(cursor if is_complete else "")
        return dg.SkipReason(text)

    return tick
