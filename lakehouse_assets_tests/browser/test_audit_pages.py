"""The audits' pages in a real browser: no script runs, nothing is fetched, both colour schemes, keyboard, print.

The picture in docs/audits.md is taken on the way, where LAKEHOUSE_PICTURES names a folder.
Belongs here: what only a browser can tell of them. Does not: their text (reports/test_audit_site.py).
"""

import os
from pathlib import Path

import pytest

from lakehouse_assets.reports.audit_site import build_site, page_path
from lakehouse_assets_tests.audited import AT, SCRIPT, history, strict
from lakehouse_assets_tests.browser.ui import MISSING, browser

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}")
GROUND = "getComputedStyle(document.body).backgroundColor"


def test_pages_are_read_with_a_keyboard_in_both_schemes_and_fetch_nothing(tmp_path):
    for path, html in build_site(history(), strict(), {}, AT, []).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(html, encoding="utf-8")
    pictures = os.environ.get("LAKEHOUSE_PICTURES")
    with browser(f"file://{tmp_path}/", Path(pictures) if pictures else None) as ui:
        requests: list[str] = []
        ui.page.on("request", lambda request: requests.append(request.url))
        ui.page.on("dialog", lambda dialog: ui.troubles.append(dialog.message))
        grounds = set()
        for scheme in ("dark", "light"):
            ui.page.emulate_media(color_scheme=scheme)
            ui.open("index.html")
            grounds.add(ui.page.evaluate(GROUND))
        assert len(grounds) == 2
        ui.page.keyboard.press("Tab")
        assert ui.page.evaluate("document.activeElement.textContent") == "To the content"
        ui.page.get_by_role("link", name="silver/firms").click()
        ui.page.get_by_role("heading", level=1, name="silver/firms").wait_for()
        ui.shows(SCRIPT)
        charts = ui.page.get_by_role("img")
        assert charts.count() > 5
        assert all(charts.nth(n).get_attribute("aria-label") for n in range(charts.count()))
        assert ui.page.locator("script").count() == 0
        assert ui.page.evaluate("[...document.querySelectorAll('th')].every(cell => cell.scope)")
        ui.picture("audit")
        ui.page.emulate_media(media="print")
        assert not ui.page.get_by_role("navigation").is_visible()
        ui.page.get_by_role("link", name="url_form").first.click(timeout=5000)
        ui.page.get_by_role("heading", level=1, name="url_form").wait_for()
        assert all(url.startswith(f"file://{tmp_path}/") and url.endswith(".html") for url in requests), requests
        assert (tmp_path / page_path("silver/firms")).stat().st_size < 100_000
        assert ui.troubles == []
