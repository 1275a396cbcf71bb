"""Sending what is due while other runs write the log."""

from contextlib import contextmanager

import dagster as dg
import pytest

from lakehouse_assets.events.outbox import Answer
from lakehouse_assets.orchestration import outlets
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests import logbook


def test_what_is_applied_while_the_log_is_read_is_sent_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at which tables are behind, and the read of their checks."""
    logbook.write(settings, [logbook.decided(1)])
    messages: list[str] = []

    class Sender:
        def send(self, some, seconds):
            messages.extend(some)
            return dict.fromkeys(some, Answer(True))

    @contextmanager
    def opened(_):
        yield Sender()

    def read(*arguments, **options):
        decisions = read_log(*arguments, **options)
        if not options and len(decisions) == 1:
            logbook.write(settings, [logbook.decided(2)])
        return decisions

    read_log = logs.decisions
    monkeypatch.setattr(outlets.logs, "decisions", read)
    with dg.DagsterInstance.ephemeral() as instance:
        outlet = outlets.Outlet("a lock", "a cursor", opened)
        assert [outlets.send_due(instance, settings, outlet).sent for _ in range(3)] == [2, 0, 0]
    assert len(messages) == 2
