"""The pages from the daemon and the command: the sensor, its off switch, links from Dagster, exit codes, the server.

Belongs here: what starts a making. Does not: the pages (test_site).
"""

import threading
import urllib.error
import urllib.request
from http.server import ThreadingHTTPServer

import dagster as dg
import pytest

from lakehouse_assets.cli import quality_pages, terminal
from lakehouse_assets.cli.serving import PageHandler
from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.orchestration.quality_pages import check_link, pages_sensor, window_link
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.pages.lake import passed, write


def tick(settings, instance, cursor=None):
    with dg.build_sensor_context(instance=instance, cursor=cursor) as context:
        data = pages_sensor(settings).evaluate_tick(context)
        return data.skip_message, data.cursor


def test_the_sensor_makes_the_pages_after_a_run_and_only_then(settings):
    with dg.DagsterInstance.ephemeral() as instance:
        assert tick(settings, instance)[0] == "nothing has been judged yet"
        write(settings, [passed(1)])
        message, cursor = tick(settings, instance)
        assert message.startswith("1 of 1 table(s) made anew") and (settings.site / "index.html").is_file()
        assert tick(settings, instance, cursor)[0] == "no new decisions"
        write(settings, [passed(2)])
        assert tick(settings, instance, cursor)[0].startswith("1 of 1 table(s)")
        off = settings.model_copy(update={"pages_refresh": False})
        assert "LAKEHOUSE_PAGES_REFRESH is off" in tick(off, instance, cursor)[0]


def test_links_lead_to_the_pages_where_an_address_is_set(settings):
    assert window_link(settings, "readings", passed(1), "daily") == {} == check_link(settings, "readings", "drift")
    served = settings.model_copy(update={"pages_url": "http://127.0.0.1:3080/"})
    link = window_link(served, "readings", passed(1), "daily")["quality_page"]
    assert link.value == "http://127.0.0.1:3080/tables/readings/windows/2024-01-01.html"
    assert check_link(served, "readings", "drift")["quality_page"].value.endswith("/tables/readings/checks/drift.html")
    assert window_link(served, "readings", None, "daily") == {}


def test_settings_of_the_pages(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    environment = {"LAKEHOUSE_PROJECT": str(tmp_path), "LAKEHOUSE_PAGES": "site", "LAKEHOUSE_PAGES_REFRESH": "off"}
    settings = Settings.from_environment(environment)
    assert (settings.site, settings.pages_url, settings.pages_refresh) == (tmp_path / "site", None, False)
    with pytest.raises(EnvironmentMissing, match="LAKEHOUSE_PAGES_URL"):
        Settings.from_environment({**environment, "LAKEHOUSE_PAGES_URL": "javascript:alert(1)"})


def test_the_command_makes_the_pages_and_counts_them(settings, monkeypatch, capsys):
    monkeypatch.setattr(Settings, "from_environment", classmethod(lambda cls, *_: settings))
    with pytest.raises(EnvironmentMissing) as error:
        quality_pages.pages(folder=None)
    assert error.value.exit_code == 3
    write(settings, [passed(1)])
    quality_pages.pages(folder=settings.dagster_home / "elsewhere", as_json=True, windows=10)
    assert '"refreshed": 1' in capsys.readouterr().out
    assert (settings.dagster_home / "elsewhere" / "index.html").is_file() and not settings.site.exists()
    assert terminal.out is not None


def test_the_server_gives_pages_and_neither_folders_nor_its_own_files(settings, monkeypatch):
    monkeypatch.setattr(Settings, "from_environment", classmethod(lambda cls, *_: settings))
    write(settings, [passed(1)])
    quality_pages.pages(folder=None, windows=10)
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *a, **k: PageHandler(*a, directory=str(settings.site), **k))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        with urllib.request.urlopen(url) as response:
            assert b"Data quality" in response.read() and response.headers["Cache-Control"] == "no-cache"
        for path in ("manifest.json", ".pages.lock", "assets/", "tables/readings/windows/", "%6danifest.json", "../lake/"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(url + path)
    finally:
        server.shutdown()
        server.server_close()
