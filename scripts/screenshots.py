"""Take the README's two pictures of the UI, from a running `make dev` after `make demo`, with Debian's Chromium.

Belongs here: where to go in the UI and what to wait for. `python scripts/screenshots.py [--url http://127.0.0.1:3000]`
"""

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


def partitions(page: Page, url: str, day: str) -> None:
    """`silver_weather`'s partitions, with the verdict of a faulty day."""
    page.goto(f"{url}/assets/silver_weather?view=partitions&partition={day}", wait_until="domcontentloaded")
    page.get_by_text("verdict").first.wait_for(timeout=60_000)
    page.wait_for_timeout(2_000)
    page.screenshot(path=IMAGES / "partitions.png")


def drift_check(page: Page, url: str) -> None:
    """The failed drift check, with its plot drawn."""
    page.goto(f"{url}/assets/silver_weather?view=checks&checkDetail=drift", wait_until="domcontentloaded")
    page.get_by_text("windows_failed").first.wait_for(timeout=60_000)
    row = page.locator("tr").filter(has_text="plot").filter(has_text="Show Markdown").first
    row.get_by_text("Show Markdown").click()
    page.locator("img[src^='data:image/png']").first.wait_for(timeout=20_000)
    page.wait_for_timeout(1_000)
    page.screenshot(path=IMAGES / "drift_check.png")


def main() -> None:
    """Both pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:3000")
    parser.add_argument("--day", default="2013-09-09")
    arguments = parser.parse_args()
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        partitions(page, arguments.url, arguments.day)
        drift_check(page, arguments.url)
        browser.close()


if __name__ == "__main__":
    main()
