"""Chromium on Dagster's UI: opening pages, reading their rows, taking pictures.

Belongs here: how the UI is driven. Does not: what it has to show (`test_ui`), what is behind it (`demo`).
Playwright is imported where it is used: where it is missing, the tests are skipped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync"
)
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = [name for name, resource in {"Chromium": BROWSER, "playwright": find_spec("playwright")}.items() if not resource]
SIZE = {"width": 1440, "height": 900}
PATIENCE = 60_000
NEW_RUN = """known => [...document.querySelectorAll("a[href^='/runs/']")]
    .map(a => a.getAttribute("href").split("?")[0]).find(href => !known.includes(href))"""


class Ui:
    """One page of a browser. ``pictures``: where the pictures go; without it none are taken."""

    def __init__(self, page: Page, url: str, pictures: Path | None) -> None:
        self.page, self.url, self.pictures = page, url, pictures
        self.troubles: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.troubles.append(f"{page.url}: {error}"))
        page.on(
            "console", lambda message: self.troubles.append(f"{page.url}: {message.text}") if message.type == "error" else None
        )
        page.on(
            "response",
            lambda response: self.troubles.append(f"{response.status} {response.url}") if response.status >= 400 else None,
        )

    def open(self, path: str) -> None:
        """Go there. Pages fill themselves later: wait for what they have to show."""
        self.page.goto(self.url + path, wait_until="domcontentloaded")

    def shows(self, text: str, within: Locator | None = None) -> None:
        """Wait for exactly this text."""
        (within or self.page).get_by_text(text, exact=True).first.wait_for()

    def row(self, name: str) -> Locator:
        """The row of a table, by the text of one of its cells."""
        return self.page.locator("tr", has=self.page.get_by_text(name, exact=True)).first

    def state_of_check(self, name: str) -> str:
        """What the list of checks says of one: Succeeded, Failed, …"""
        entry = self.page.locator("[class*='checkRow']", has=self.page.get_by_text(name, exact=True)).first
        return entry.inner_text().splitlines()[-1]

    def partition_of_check(self, name: str) -> Locator:
        """One partition in the list of an open check."""
        self.page.get_by_placeholder("Filter by partition").fill(name)
        return self.page.locator("[class*='assetListRow']", has=self.page.get_by_text(name, exact=True)).first

    def switched_on(self, kind: str, name: str) -> Locator:
        """The switch of a sensor or a schedule in the list of automations, if it is on; the list learns that a little later."""
        item = self.page.locator("[data-index]", has=self.page.locator(f"a[href$='/{kind}/{name}']"))
        return item.locator("input:checked")

    def runs(self) -> list[str]:
        """The addresses of the runs that the page links to."""
        links = self.page.locator("a[href^='/runs/']")
        links.first.wait_for()
        return sorted({href.split("?")[0] for href in links.evaluate_all("all => all.map(a => a.getAttribute('href'))")})

    def new_run(self, earlier_runs: list[str]) -> str:
        """Wait for a link to a run that is not one of these."""
        return self.page.wait_for_function(NEW_RUN, arg=earlier_runs).json_value()

    def end_of_run(self) -> str:
        """Wait for the end of the run that is open, and say how it ended."""
        ends = [self.page.get_by_text(status, exact=True) for status in ("Success", "Failure", "Canceled")]
        end = ends[0].or_(ends[1]).or_(ends[2]).first
        end.wait_for(timeout=5 * PATIENCE)
        return end.inner_text()

    def close_dialog(self) -> None:
        """Close the dialog, and wait until it is gone: it fades out, and the next one has a button of the same name."""
        close = self.page.get_by_role("button", name="Close")
        close.click()
        close.wait_for(state="detached")

    def picture(self, name: str) -> None:
        """Keep what is seen, once nothing more is being loaded."""
        if self.pictures:
            self.page.wait_for_load_state("networkidle")
            self.page.screenshot(path=self.pictures / f"{name}.png", animations="disabled")


@contextmanager
def browser(url: str, pictures: Path | None) -> Iterator[Ui]:
    """Headless Chromium with one page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=BROWSER, args=ARGUMENTS.split())
        try:
            yield Ui(chromium.new_page(viewport=SIZE), url, pictures)
        finally:
            chromium.close()
