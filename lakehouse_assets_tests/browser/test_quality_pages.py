"""The quality pages in a real browser: three clicks to the rows of a fault, charts, both schemes, a phone, print.

Belongs here: what only a browser can tell of them. Does not: their text (pages/test_site).
"""

from dataclasses import replace

import pytest

from lakehouse_assets.pages.site import make_site
from lakehouse_assets_tests.browser.ui import MISSING, browser
from lakehouse_assets_tests.logbook import outcome
from lakehouse_assets_tests.pages.lake import NOW, drift, feature, passed, quarantine_rows, quarantined, ruleset, write

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}")
GROUND = "getComputedStyle(document.body).backgroundColor"
RULES = ruleset(
    "weather",
    columns={"id": {"type": "string"}, "value": {"type": "double"}},
    extraction={"cadence": "daily", "start": "2013-01-01", "end": "2013-09-13", "mode": "upsert"},
    source={"kind": "files", "path": "weather/{window:%Y-%m-%d}.csv", "format": "csv"},
)
SCRIPT = "<img src=x onerror=alert(1)>"


def weather(settings) -> None:
    """252 days, of which the last four are 0.07 kPa too high at one station; texts that a browser could run."""
    start = passed(1).p_extracted_at.replace(year=2013)
    decisions = []
    for number in range(1, 256):
        at = start + (passed(number).p_extracted_at - passed(1).p_extracted_at)
        wave = 0.01 * (number % 7) + (0.3 if number > 251 else 0.0)
        results = [
            feature(stratum=s, quantiles=[w - 0.1, w - 0.05, w, w + 0.05, w + 0.1], p_value=p)
            for s, w, p in (("LGA", wave, 0.004 if number > 251 else 0.4), ("JFK", 0.02, 0.6))
        ]
        results = [{**r, "baseline_quantiles": [-0.1, -0.04, 0.02, 0.06, 0.1]} for r in results]
        warned = outcome("in_range_value", status="failed", effect="report", failed_rows=number % 5, message=SCRIPT)
        on = {"rules": RULES, "p_extracted_at": at, "drift": drift(results), "drift_p_value": 0.4}
        checks = (outcome("not_empty", kind="not_empty"), warned if number % 9 == 0 else outcome("in_range_value"))
        if number > 251:
            message = "value is 0.0733 kPa higher at LGA"
            on |= {"drift": drift(results, message, 0.004), "drift_p_value": 0.004}
            decisions.append(quarantined(number, "weather", message, **on))
        else:
            decisions.append(passed(number, "weather", checks=checks, **on))
    write(settings, decisions)
    fault = next(d for d in decisions if f"{d.p_extracted_at:%Y-%m-%d}" == "2013-09-09")
    rows = [{"id": station, "value": f"10{n}", "note": SCRIPT} for n in range(24) for station in ("EWR", "JFK", "LGA")]
    quarantine_rows(settings, replace(fault, table="weather"), rows)


def test_the_overview_fits_a_small_screen_without_a_cut(settings):
    weather(settings)
    make_site(settings, clock=lambda: NOW)
    with browser(f"file://{settings.site}/", None) as ui:
        ui.page.set_viewport_size({"width": 1300, "height": 700})
        ui.page.goto(f"file://{settings.site}/index.html")
        hidden = ui.page.evaluate(
            "(() => { const e = document.querySelector('.wide'); return e.scrollWidth - e.clientWidth; })()"
        )
        assert hidden == 0


def test_three_clicks_lead_from_the_overview_to_the_rows_of_the_fault(settings):
    weather(settings)
    make_site(settings, clock=lambda: NOW)
    with browser(f"file://{settings.site}/", None) as ui:
        requests: list[str] = []
        ui.page.on("request", lambda request: requests.append(request.url))
        ui.page.on("dialog", lambda dialog: ui.troubles.append(dialog.message))
        grounds = set()
        for scheme in ("dark", "light"):
            ui.page.emulate_media(color_scheme=scheme)
            ui.open("index.html")
            grounds.add(ui.page.evaluate(GROUND))
        assert len(grounds) == 2
        ui.page.get_by_role("link", name="weather", exact=True).click()
        ui.page.locator(".plot[data-drawn]").first.wait_for()
        assert ui.page.locator(".plot .bars .point").count() > 250
        ui.page.locator(".cases").get_by_role("link", name="2013-09-09").click()
        ui.page.get_by_role("heading", level=1, name="weather 2013-09-09").wait_for()
        ui.shows("weather/2013-09-09.csv")
        marked = ui.page.locator("table.rows tr.marked")
        assert marked.count() == 24 and all("LGA" in text for text in marked.all_inner_texts())
        ui.shows(SCRIPT)
        _look_elsewhere(ui)
        assert all(url.startswith(f"file://{settings.site}/") for url in requests), requests
        assert ui.troubles == []


def _look_elsewhere(ui) -> None:
    """A phone does not scroll sideways; print has no navigation, and its charts."""
    for path in (
        "index.html",
        "tables/weather/index.html",
        "tables/weather/windows/2013-09-09.html",
        "tables/weather/checks/drift.html",
    ):
        ui.page.set_viewport_size({"width": 390, "height": 844})
        ui.open(path)
        assert ui.page.evaluate("document.documentElement.scrollWidth") <= 390, path
        assert ui.page.evaluate("[...document.querySelectorAll('th')].every(cell => cell.scope)"), path
    ui.page.emulate_media(media="print")
    assert not ui.page.get_by_role("navigation").is_visible()
