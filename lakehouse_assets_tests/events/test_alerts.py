"""The alert of critical failures, received on a real loopback server: once, grouped, and again only where it failed."""

import json
import shutil
import threading
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import dagster as dg
import pytest
from pydantic import SecretStr

from lakehouse_assets.contracts.decision import Counts, Reason
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.table_contract import AlertSpec
from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.events.alerts import SHOWN, alert_channels, channel_address, format_message, select_new, send_message
from lakehouse_assets.orchestration import notify as announcing
from lakehouse_assets.orchestration.notify import send_alerts
from lakehouse_assets.orchestration.streams.recorded_report import record_error
from lakehouse_assets_tests.logbook import DECIDED, decided, write
from lakehouse_assets_tests.orchestration.test_shared_partitions import streamed
from lakehouse_assets_tests.support import readings

QUARANTINED = {"verdict": "quarantined", "counts": Counts(3, 0, 0, 3, 0)}
EMPTY = Reason("not_empty", "critical", "failed", "batch", 0, "the batch is empty")
GOLD = [{"name": "days", "sql": "days.sql", "key": ["day"]}]


@pytest.fixture
def server():
    """A web server that keeps what it is sent and the last `path`, and answers with `status`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.server.path = self.path
            self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(self.server.status)
            self.end_headers()

        def log_message(self, *_):
            pass

    http_server = HTTPServer(("127.0.0.1", 0), Handler)
    http_server.got, http_server.status = [], 200
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    yield http_server
    http_server.shutdown()


def test_the_logs_are_read_again_only_once_they_have_changed_or_there_was_trouble(settings, monkeypatch):
    spec = readings(alerts={"webhooks": ["OPS"]})
    answers = [(1, []), (0, ["nobody listens"]), (1, []), (0, []), (0, [])]
    monkeypatch.setattr(announcing, "send_alerts", lambda *_: answers.pop(0))
    cursor = None

    def reads_logs(*specs: TableSpec) -> bool:
        nonlocal cursor
        left = len(answers)
        with dg.DagsterInstance.ephemeral() as instance:
            context = dg.build_sensor_context(instance=instance, cursor=cursor)
            cursor = announcing.alert_sensor(settings, [*specs]).evaluate_tick(context).cursor
        return len(answers) < left

    write(settings, [decided(1)])
    announcing.complete_check_results(settings)
    assert [reads_logs(spec), reads_logs(spec)] == [True, False]
    write(settings, [decided(2)])
    announcing.complete_check_results(settings)
    assert [reads_logs(spec), reads_logs(spec), reads_logs(spec)] == [True, True, False], "there was trouble"
    # Whom to tell is another matter now; and so are results that somebody has deleted.
    assert [reads_logs(readings(alerts={"slack": ["OPS"]})), reads_logs(readings(alerts={"slack": ["OPS"]}))] == [True, False]
    shutil.rmtree(settings.path("ops", "check_results"))
    assert reads_logs(readings(alerts={"slack": ["OPS"]}))


def ops(settings, server):
    return settings.model_copy(update={"secrets": {"OPS": SecretStr(f"http://127.0.0.1:{server.server_port}/hook")}})


@pytest.mark.parametrize(
    "query",
    [
        "",
        "api-version=1&sp=%2Ftriggers%2Frun&Sig=a%2Bb%3D%26c",
        "token=x&empty=",
        "verify=no&method=get&format=html",
        "Sig=100%25%2Cto%253D",
        "back=https%3A%2F%2Fexample.org%2F%3Fa%3Db%252Fc%26d%3D%2B",
        "%2541=+both+ends+&b=%20",
    ],
)
def test_a_webhook_receives_the_query_of_its_address(settings, server, query):
    address = f"http://127.0.0.1:{server.server_port}/a%2Fb/hook{'?' if query else ''}{query}"
    settings = settings.model_copy(update={"secrets": {"OPS": SecretStr(address)}})
    send_message(readings(alerts={"webhooks": ["OPS"]}), settings, ("webhook", "OPS"), "title", "body")
    sent = urlsplit(server.path)
    assert (sent.path, parse_qsl(sent.query, keep_blank_values=True)) == (
        "/a%2Fb/hook",
        parse_qsl(query, keep_blank_values=True),
    )
    assert server.got[0]["title"] == "title"


def test_a_name_that_the_query_of_a_webhook_repeats_is_sent_with_its_last_value(settings, server, caplog):
    """Apprise keeps one value of a name. The alert is sent, and one warning is logged, without the address."""
    address = f"http://127.0.0.1:{server.server_port}/hook?token=first&a=1&token=second"
    settings = settings.model_copy(update={"secrets": {"TWICE": SecretStr(address)}})
    for _ in range(2):
        send_message(readings(alerts={"webhooks": ["TWICE"]}), settings, ("webhook", "TWICE"), "title", "body")
    assert sorted(parse_qsl(urlsplit(server.path).query)) == [("a", "1"), ("token", "second")]
    assert len(server.got) == 2
    [warning] = [record.getMessage() for record in caplog.records if record.name == "lakehouse.alerts"]
    assert warning == "webhook TWICE: the query of its address has a name twice; only the name's last value is sent"


def test_quarantined_windows_raise_one_alert_and_failed_sends_are_repeated(settings, server):
    spec = readings(alerts={"webhooks": ["OPS"]})
    settings = ops(settings, server)
    empty = {"verdict": "quarantined", "counts": Counts(0, 0, 0, 0, 0), "reasons": (EMPTY,)}
    good = decided(3, verdict="published", counts=Counts(1, 1, 0, 0, 0), reasons=())
    write(settings, [decided(1, **empty), decided(2, **empty), good])
    with dg.DagsterInstance.ephemeral() as instance:
        server.status = 500
        message_count, troubles = send_alerts(instance, settings, [spec])
        assert message_count == 0
        assert len(troubles) == 1
        assert "127.0.0.1" not in troubles[0], "an address may hold a secret"
        server.got.clear()
        server.status = 200
        assert send_alerts(instance, settings, [spec]) == (2, [])
        assert send_alerts(instance, settings, [spec]) == (0, [])
    assert len(server.got) == 1
    assert "readings: 2 window(s) quarantined" in server.got[0]["title"]
    assert "2024-01-01 00:00 UTC: 0 rows quarantined. not_empty: the batch is empty" in server.got[0]["message"]


def test_an_unreachable_channel_delays_no_other_and_gets_its_alert_later(settings, server):
    """Of two webhooks one answers; e-mail has no server at all. None is notified twice."""
    other = HTTPServer(("127.0.0.1", 0), server.RequestHandlerClass)
    other.got, other.status = [], 503
    threading.Thread(target=other.serve_forever, daemon=True).start()
    urls = {"OPS": server.server_port, "TEAM": other.server_port}
    secrets = {name: SecretStr(f"http://127.0.0.1:{port}/hook") for name, port in urls.items()}
    settings = settings.model_copy(update={"secrets": secrets})
    spec = readings(alerts={"webhooks": ["TEAM", "OPS"], "emails": ["me@example.com"]})
    write(settings, [decided(1, reasons=(EMPTY,), **QUARANTINED)])
    try:
        with dg.DagsterInstance.ephemeral() as instance:
            message_count, troubles = send_alerts(instance, settings, [spec])
            assert (message_count, len(server.got)) == (1, 1)
            assert "alerts: webhook TEAM: the channel refused the alert" in troubles[0]
            assert "LAKEHOUSE_SECRET_SMTP" in troubles[1]
            other.got.clear()
            other.status = 200
            assert send_alerts(instance, settings, [spec])[0] == 1
            assert send_alerts(instance, settings, [spec])[0] == 0
    finally:
        other.shutdown()
    assert (len(server.got), len(other.got)) == (1, 1)


def test_quarantined_rows_and_gold_share_one_message(settings, server):
    settings = ops(settings, server)
    spec = readings(alerts={"webhooks": ["OPS"]}, gold=GOLD)
    write(settings, [decided(1), decided(2, reasons=(EMPTY,), **QUARANTINED)])
    write(settings, [decided(1, "gold_days", reasons=(EMPTY,), **QUARANTINED)])
    write(settings, [decided(1, "sensors", reasons=(EMPTY,), **QUARANTINED)])
    with dg.DagsterInstance.ephemeral() as instance:
        assert send_alerts(instance, settings, [spec]) == (3, [])
        assert send_alerts(instance, settings, [spec]) == (0, [])
        write(settings, [decided(2, "gold_days", reasons=(EMPTY,), **QUARANTINED)])
        assert send_alerts(instance, settings, [spec]) == (1, [])
    first, second = server.got
    assert first["title"] == "readings: 1 window(s) quarantined, 1 window(s) with quarantined rows, gold_days quarantined"
    assert first["message"].splitlines() == [
        "- 2024-01-01 00:00 UTC: 1 of 3 rows quarantined. value_in_range: 1 of 3 rows fail",
        "- 2024-01-02 00:00 UTC: 3 rows quarantined. not_empty: the batch is empty",
        "- gold_days: 3 rows quarantined. not_empty: the batch is empty",
        "Look: lakehouse quarantine list --table readings",
        "Look: lakehouse quarantine list --table gold_days",
    ]
    assert second["title"] == "readings: gold_days quarantined"


def test_another_lake_is_announced_from_its_beginning(settings, server, tmp_path):
    """The instance stays; the lake is another one, or was removed and made again."""
    settings = ops(settings, server)
    spec = readings(alerts={"webhooks": ["OPS"]})
    write(settings, [decided(1), decided(2, reasons=(EMPTY,), **QUARANTINED)])
    other = settings.model_copy(update={"root": str(tmp_path / "other")})
    with dg.DagsterInstance.ephemeral() as instance:
        assert send_alerts(instance, settings, [spec]) == (2, [])
        write(other, [decided(1, reasons=(EMPTY,), **QUARANTINED, ruleset_hash="of others")])
        assert send_alerts(instance, other, [spec]) == (1, [])
        assert send_alerts(instance, other, [spec]) == (0, [])


def mark_applied(*decisions):
    return [replace(d, applied_at=DECIDED) for d in decisions]


def test_only_critical_failures_raise_alerts():
    warned = Reason("value_in_range", "warning", "failed", "report", 1, "")
    given_up = decided(2, kind="discarded", counts=Counts(3, 2, 0, 0, 1))
    waived = Reason("value_in_range", "critical", "failed", "waived", 1, "")
    released = decided(3, counts=Counts(3, 3, 0, 0, 0), reasons=(waived,))
    fine = decided(1, counts=Counts(3, 3, 0, 0, 0), reasons=(warned,))
    assert select_new(mark_applied(fine, given_up, released), 0) == []
    assert select_new([decided(1)], 0) == [], "not applied yet"


def test_only_current_decisions_raise_alerts():
    quarantined = decided(1, reasons=(EMPTY,), **QUARANTINED)
    released = decided(2, p_extracted_at=quarantined.p_extracted_at, kind="released", verdict="published", reasons=())
    assert select_new(mark_applied(quarantined, released), 0) == []
    gold = [decided(n, "gold_days", reasons=(EMPTY,), **QUARANTINED) for n in (1, 2)]
    assert [d.number for d in select_new(mark_applied(*gold), 0)] == [2], "a gold table is one batch"
    mended = decided(3, "gold_days", verdict="published", reasons=())
    assert select_new(mark_applied(*gold, mended), 0) == []


def test_ten_are_listed_and_the_others_counted():
    _, text = format_message(readings(), [decided(n, reasons=(EMPTY,), **QUARANTINED) for n in range(1, SHOWN + 4)])
    lines = text.splitlines()
    assert sum(line.startswith("- ") for line in lines) == SHOWN
    assert "… and 3 more" in lines


def test_a_missing_secret_is_named_and_delays_nothing(settings):
    spec = readings(alerts={"webhooks": ["OPS"]})
    with pytest.raises(EnvironmentMissing, match="LAKEHOUSE_SECRET_OPS"):
        channel_address(alert_channels(spec)[0], settings)


def test_settings_never_show_a_secret():
    from lakehouse_assets.settings import Settings

    from_environment = Settings.from_environment({"LAKEHOUSE_SECRET_OPS": "https://hooks/very-secret"})
    assert "very-secret" not in repr(from_environment) + str(from_environment.model_dump())
    assert from_environment.secret("OPS") == "https://hooks/very-secret"


def test_a_stream_that_fails_raises_one_alert_for_each_failure(settings, server, monkeypatch):
    settings, spec = ops(settings, server), streamed().model_copy(update={"alerts": AlertSpec(webhooks=("OPS",))})
    messages, clock = server.got, SimpleNamespace(now=lambda _: now)
    monkeypatch.setattr(announcing, "datetime", clock)
    now, cursor = DECIDED, None
    with dg.DagsterInstance.ephemeral() as instance:

        def sent_by_tick(after: timedelta, error: str | None) -> int:
            nonlocal now, cursor
            now, before = now + after, len(messages)
            record_error(instance, spec, error, now)
            context = dg.build_sensor_context(instance=instance, cursor=cursor)
            cursor = announcing.alert_sensor(settings, [spec]).evaluate_tick(context).cursor
            return len(messages) - before

        minute = timedelta(minutes=1)
        assert sent_by_tick(minute, "SourceError: away") == 0, "a broker may start again"
        server.status = 500
        sent_by_tick(minute, "SourceError: away")
        messages.clear()
        server.status = 200
        assert sent_by_tick(minute, "SourceError: away") == 1
        assert [sent_by_tick(minute, error) for error in ("SourceError: away", "DiskError: full", None)] == [0, 0, 0]
        assert [sent_by_tick(minute, "SourceError: away") for _ in range(3)] == [0, 1, 0]
    assert messages[0]["title"] == "readings: the stream fails"
    assert "SourceError: away" in messages[0]["message"]
