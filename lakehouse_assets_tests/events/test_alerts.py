"""The alert of a quarantined window, received on a real loopback server: once, grouped, and again only where it failed."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import dagster as dg
import pytest
from pydantic import SecretStr

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.events.alerts import addresses
from lakehouse_assets.orchestration.announce import announce
from lakehouse_assets_tests.support import heal, land, readings


@pytest.fixture
def server():
    """A web server that keeps what it is sent, and answers with `status`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(self.server.status)
            self.end_headers()

        def log_message(self, *_):
            pass

    found = HTTPServer(("127.0.0.1", 0), Handler)
    found.got, found.status = [], 200
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()


def test_quarantined_windows_are_told_of_once_and_again_where_nobody_listened(spark, settings, server):
    spec = readings(alerts={"webhooks": ["OPS"]})
    settings = settings.model_copy(update={"secrets": {"OPS": SecretStr(f"http://127.0.0.1:{server.server_port}/hook")}})
    land(settings, 1, [])
    land(settings, 2, [])
    land(settings, 3, ["a,1,1,2024-01-03T00:00:00Z"])
    heal(spark, settings, [1, 2, 3], spec)
    with dg.DagsterInstance.ephemeral() as instance:
        server.status = 500
        told, troubles = announce(instance, settings, [spec])
        assert told == 0
        assert len(troubles) == 1
        assert "127.0.0.1" not in troubles[0], "an address may hold a secret"
        server.got.clear()
        server.status = 200
        assert announce(instance, settings, [spec]) == (2, [])
        assert announce(instance, settings, [spec]) == (0, [])
    assert len(server.got) == 1
    assert "readings: 2 window(s) quarantined" in server.got[0]["title"]
    assert "2024-01-01 00:00 UTC: 0 rows held. not_empty: the batch is empty" in server.got[0]["message"]


def test_a_missing_secret_is_named_and_holds_up_nothing(settings):
    spec = readings(alerts={"webhooks": ["OPS"]})
    with pytest.raises(EnvironmentMissing, match="LAKEHOUSE_SECRET_OPS"):
        addresses(spec, settings)


def test_settings_never_show_a_secret():
    from lakehouse_assets.settings import Settings

    found = Settings.from_environment({"LAKEHOUSE_SECRET_OPS": "https://hooks/very-secret"})
    assert "very-secret" not in repr(found) + str(found.model_dump())
    assert found.secret("OPS") == "https://hooks/very-secret"
