"""The audits' pages as text: what they say, that all of it is escaped, and that every link leads to a page.

Belongs here: reports/audit_site.py. Does not: a browser (browser/test_audit_pages.py).
"""

import posixpath
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from lakehouse_assets.decisions.audit.verdict import format_percent
from lakehouse_assets.reports.audit_site import WIDTH, DriftedWindow, TableContext, bars, build_site, interval, page_path
from lakehouse_assets_tests.audited import AT, SCRIPT, firms, history, strict, torn

ALLOWED = set(
    "html head meta title style body a header nav main footer h1 h2 p strong code div table caption thead tbody tr th td br"
    " ul ol li dl dt dd span svg line circle rect text details summary img".split()
)


class ParsedPage(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name in ("href", "src") and value]

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def pages():
    features = ((SCRIPT, "LGA", "tail 0.7", "0.7", "0.0031", "0.0031", "1e-09", "+0.1 kPa", "1 / 2 / 3 → 2 / 3 / 4", ""),)
    verdict = ("2026-11-09 00:00", "quarantined", 0.0031, f"0.1 higher at {SCRIPT}")
    drift = (
        DriftedWindow(*verdict, features, "data:image/png;base64,AAAA"),
        DriftedWindow("2026-11-08 00:00", "published", None, "in error"),
    )
    beside = {"silver/firms": TableContext((("rows quarantined now", 72),), drift)}
    site = build_site(history(), strict(), beside, AT + timedelta(weeks=3), ["silver/firms", "silver/new"])
    return {path: ParsedPage(text) for path, text in site.items()}


def test_nothing_of_the_data_becomes_a_tag_an_attribute_or_a_script(pages):
    for path, page in pages.items():
        assert page.tags <= ALLOWED, path
        assert not {name for name in page.attributes if name.startswith("on")}, path
    text = pages[page_path("silver/firms")].text
    assert SCRIPT in text
    assert f"{SCRIPT}{{{{7*7}}}}" in text
    assert "onerror=alert(1)>" in text


def test_every_link_leads_to_a_page_of_the_site(pages):
    for path, page in pages.items():
        for link in page.links:
            if link.startswith("data:image/png;base64,"):
                continue
            assert link.startswith("#") or posixpath.normpath(posixpath.join(posixpath.dirname(path), link)) in pages, link


def test_lists_among_a_rules_parameters_are_text():
    (rule,) = [rule for rule in strict().rules if rule.name == "planet_code"]
    rule = rule.model_copy(update={"check": {"check": "in_set", "values": ["EWR", "JFK"], "where": {"origin": "US"}}})
    site = build_site(history(), replace(strict(), rules=(rule,)), {}, AT, [])
    page = ParsedPage(site["rules/planet_code.html"])
    assert "check: in_set values: EWR, JFK where: origin US" in " ".join(page.text.split())


def test_a_window_that_drifted_has_its_features_and_its_picture(pages):
    page = pages[page_path("silver/firms")]
    text = " ".join(page.text.split())
    assert "2026-11-09 00:00: its features beside the baseline" in text
    for phrase in ("p if rows were independent", f"{SCRIPT}LGA", "+0.1 kPa", "1 / 2 / 3 → 2 / 3 / 4"):
        assert phrase in text, phrase
    assert "data:image/png;base64,AAAA" in page.links
    assert "2026-11-08 00:00: its features" not in text, "of an error there is nothing to show"


def test_the_overview_lists_every_table_and_unmatched_rules(pages):
    text = pages["index.html"].text
    never = ("never audited: silver/new", "The critical rule planet_code", "fits no column of any table")
    for phrase in ("silver/firms", f"gold/{SCRIPT}/torn", "founded_year", *never):
        assert phrase in text, phrase


def test_a_table_page_shows_every_result(pages):
    text = " ".join(pages[page_path("silver/firms")].text.split())
    for phrase in (
        "80 of 1000 sampled rows fail", "inconclusive", "every row, after the sample left it open", "counted in full",
        "The rule country_name_present lost its column", "which was weighted", "260", "rows quarantined now", "0.0031",
        "added employees: int", "version 1: passed, with warnings", "Seed7",
    ):  # fmt: skip
        assert phrase in text, phrase
    assert format_percent(0.92) in text
    assert "country_name_present lost its column" in text.partition("Since the last audit")[2]


def test_changes_since_the_last_audit_are_listed():
    before, now = firms(0), firms(1)
    worse = tuple({**r, "status": "fail"} if r["rule"] == "url_form" else r for r in now.results)
    now = firms(1, results=worse, total_raw_records=300_000)
    text = build_site([before, now], strict(), {}, AT, [])[page_path("silver/firms")]
    assert "rows: 250,000 then, 300,000 now" in text
    assert "employee_count of employees: new" in text
    assert "exception then, fail now" in text


def test_an_audit_of_an_old_version_is_history_and_not_the_state():
    old = firms(5, as_of=True, verdict="stopped")
    text = ParsedPage(build_site([firms(0, verdict="passed"), old], strict(), {}, AT, [])["index.html"]).text
    assert ("✓ passed" in text, "✕ stopped" in text) == (True, False)


def test_a_page_s_name_is_plain_whatever_the_folder_is_called():
    names = {page_path(name) for name in ("silver/a/b", "silver/a-b", "../../x", torn().table, "silver/" + "y" * 300)}
    assert len(names) == 5
    assert all(name.count("/") == 1 and ".." not in name and "<" not in name and len(name) < 90 for name in names)


def test_charts_stay_within_their_frames():
    for low, at, high, promised in [(0, 0, 0, 1), (0.97, 0.98, 0.99, 0.98), (1, 1, 1, 1), (0.1, 0.5, 0.9, 0.35)]:
        chart = interval(low, at, high, promised)
        assert all(0 <= value <= WIDTH for value in chart.values()), chart
        assert chart["low"] < chart["high"]
    assert bars([])["rows"] == []
    assert max(row["raw_width"] for row in bars([("a", 0.5, 0.1), ("b", 0.2, 0.1)])["rows"]) == 420
