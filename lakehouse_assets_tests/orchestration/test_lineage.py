"""OpenLineage on a real log and a real instance, with a receiver on loopback that is down at first. No JVM.

Belongs here: delivery, the sensor's words, what is never sent. Does not: an event's facets (events/test_lineage).
"""

import json
import sys
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer

import dagster as dg
import pytest
from pydantic import SecretStr

from lakehouse_assets.errors import ConfigError, EnvironmentMissing
from lakehouse_assets.events.lineage_tables import lineage_tables
from lakehouse_assets.events.openlineage import open_lineage_sender
from lakehouse_assets.orchestration.lineage import MISSING, OFF, lineage_sensor, publish_lineage
from lakehouse_assets.orchestration.outlets import DeliveryReport
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.e2e.servers import free_port
from lakehouse_assets_tests.logbook import decided, write
from lakehouse_assets_tests.support import readings

PASSWORD, KEY = "hush-password", "hush-key"
RULES = readings().ruleset()


class Receiver(BaseHTTPRequestHandler):
    """Keeps the events that it is sent; answers with the first status of `answers`, or 201."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.server.answers.pop(0) if self.server.answers else 201
        if status < 300:
            self.server.got.append((self.path, self.headers["Authorization"], body))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def start(port):
    """Start the receiver at the port; it stops with the test."""
    started = []

    def serve() -> HTTPServer:
        server = HTTPServer(("127.0.0.1", port), Receiver)
        server.got, server.answers = [], []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return server

    yield serve
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.fixture
def on(settings, port):
    url = SecretStr(f"http://127.0.0.1:{port}/marquez")
    return settings.model_copy(update={"openlineage_url": url, "secrets": {"OPENLINEAGE": SecretStr(KEY)}})


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as ephemeral_instance:
        yield ephemeral_instance


TABLES = lineage_tables([readings()], {}, [])


def test_nothing_is_lost_while_the_receiver_is_down(on, instance, start):
    write(on, [decided(n, ruleset=RULES) for n in (1, 2)])
    write(on, [decided(1, "gold_days")])
    report = publish_lineage(instance, on, TABLES)
    assert (report.sent, report.waiting) == (0, 3)
    assert report.warnings[0].startswith("gold_days: the receiver of OpenLineage cannot be reached")
    server = start()
    write(on, [decided(3, ruleset=RULES)])
    assert publish_lineage(instance, on, TABLES) == DeliveryReport(sent=4)
    assert publish_lineage(instance, on, TABLES) == DeliveryReport()
    written = [body for _, _, body in server.got if body["job"]["name"] == "silver_readings"]
    assert [body["run"]["facets"]["lakehouse_decision"]["number"] for body in written] == [1, 2, 3], "in order"
    assert {path for path, _, _ in server.got} == {"/marquez/api/v1/lineage"}
    assert {key for _, key, _ in server.got} == {f"Bearer {KEY}"}
    assert KEY not in str(report) + repr(on)


def test_a_password_in_the_address_is_used_and_never_shown(on, instance, start, port):
    on = on.model_copy(update={"openlineage_url": SecretStr(f"http://ann:{PASSWORD}@127.0.0.1:{port}"), "secrets": {}})
    write(on, [decided(1, ruleset=RULES)])
    report = publish_lineage(instance, on, TABLES)
    assert report.waiting == 1 and PASSWORD not in str(report) + repr(on)
    server = start()
    assert publish_lineage(instance, on, TABLES).sent == 1
    assert {key for _, key, _ in server.got} == {"Basic " + b64encode(f"ann:{PASSWORD}".encode()).decode()}
    assert PASSWORD not in str([body for _, _, body in server.got])


def test_a_refusal_in_the_middle_is_sent_again_with_the_same_run_ids(on, instance, start):
    server = start()
    write(on, [decided(1, ruleset=RULES)])
    server.answers = [201, 503]
    assert publish_lineage(instance, on, TABLES).warnings == ["readings: the receiver answers with status 503"]
    assert publish_lineage(instance, on, TABLES).sent == 1
    ids = [(body["job"]["name"], body["run"]["runId"]) for _, _, body in server.got]
    assert ids[0] == ids[1], "the doubled event"
    assert [name for name, _ in ids[1:]] == ["bronze_readings", "silver_readings__checks", "silver_readings"]


def test_killed_before_its_cursor_it_sends_the_same_again(on, instance, start):
    server = start()
    write(on, [decided(1, ruleset=RULES)])

    def stop(step: str) -> None:
        raise KeyboardInterrupt(step)

    with pytest.raises(KeyboardInterrupt):
        publish_lineage(instance, on, TABLES, step=stop)
    first, server.got = [body for _, _, body in server.got], []
    assert publish_lineage(instance, on, TABLES).sent == 1
    assert [body for _, _, body in server.got] == first


def test_too_large_an_event_is_sent_shorter_and_a_redirect_is_no_delivery(on, instance, start):
    server = start()
    write(on, [decided(1, ruleset=RULES)])
    server.answers = [302]
    assert "final address" in publish_lineage(instance, on, TABLES).warnings[0]
    server.answers = [413, 413]
    assert publish_lineage(instance, on, TABLES).sent == 1
    checked = next(body for _, _, body in server.got if body["job"]["name"].endswith("__checks"))
    assertions = checked["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert [each["name"] for each in assertions] == ["value_in_range"], "the last form has no passed checks"
    assert "schema" not in checked["inputs"][0]["facets"]
    write(on, [decided(2, ruleset=RULES)])
    server.answers = [413] * 3
    assert "larger than the receiver takes" in publish_lineage(instance, on, TABLES).warnings[0]


def test_another_receiver_or_namespace_is_sent_everything(on, instance, start):
    server = start()
    write(on, [decided(1, ruleset=RULES)])
    assert publish_lineage(instance, on, TABLES).sent == 1
    assert publish_lineage(instance, on.model_copy(update={"openlineage_namespace": "other"}), TABLES).sent == 1
    assert {body["job"]["namespace"] for _, _, body in server.got} == {"lakehouse", "other"}


def sensor(settings: Settings, instance) -> str:
    context = dg.build_sensor_context(instance=instance)
    return lineage_sensor(settings, TABLES).evaluate_tick(context).skip_message or ""


def test_the_sensor_reports_what_is_off_missing_or_waiting(settings, on, instance, monkeypatch):
    write(settings, [decided(1, ruleset=RULES)])
    assert sensor(settings, instance) == OFF
    assert sensor(on, instance).startswith("nothing sent; 1 wait; readings: the receiver of OpenLineage cannot be reached")
    for name in [name for name in sys.modules if name.startswith(("openlineage", "lakehouse_assets.events.lineage"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openlineage", None)
    assert sensor(on, instance) == f"0 event(s) sent; {MISSING}"


def test_a_wrong_address_is_not_shown():
    for url in (f"ftp://ann:{PASSWORD}@host", f"{PASSWORD}.example.org:5000", f"http:///{PASSWORD}"):
        with pytest.raises(EnvironmentMissing, match="LAKEHOUSE_OPENLINEAGE_URL") as caught:
            Settings.from_environment({"LAKEHOUSE_OPENLINEAGE_URL": url})
        assert PASSWORD not in str(caught.value)
    odd = Settings.from_environment({"LAKEHOUSE_OPENLINEAGE_URL": f"http://[{PASSWORD}"})
    with pytest.raises(ConfigError, match="LAKEHOUSE_OPENLINEAGE_URL") as caught, open_lineage_sender(odd):
        pass
    assert PASSWORD not in str(caught.value)
