"""Hostile texts (values, names of columns, checks and files) through everything that shows them: they show as themselves.

Belongs here: characters and markup. Does not: what is said, or a browser (browser/).
"""

import io
import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from lakehouse_assets import cli
from lakehouse_assets.cli import terminal
from lakehouse_assets.contracts.decision import Reason
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.events.alerts import format_message
from lakehouse_assets.orchestration.assets.metadata import decision_metadata, samples_markdown
from lakehouse_assets.reports.audit_site import DriftedWindow, TableContext, build_site, page_path
from lakehouse_assets.reports.markdown import CONTROLS, escape, escape_controls, table
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.audited import AT, history, strict
from lakehouse_assets_tests.support import readings

TEXTS = {
    "script": "<script>alert(1)</script>",
    "attribute": "\"><img src=x onerror='alert(1)'>",
    "link": "[x](javascript:alert(1))",
    "picture": "![x](http://evil.example/p.png)",
    "bare link": "http://evil.example www.evil.example ann@evil.example",
    "code": "`x` ``` y",
    "pipes": "a | b || c",
    "template": "{{7*7}} {% if x %} ${7*7}",
    "rich": "[red]x[/red] [/] [link=http://evil.example]y[/link] :warning:",
    "list": "1. one",
    "heading": "# x",
    "entity": "&lt;b&gt; &#60;",
    "comment": "--> <!-- x",
    "escapes": "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J",
    "return": "good\rbad\x08\x08\x0b",
    "turned round": "\u202etxt.exe\u2066 \u200f",
    "unseen": "a\u200bb\ufeffc\u00add",
    "lines": "a\u2028b\u2029c\x85d",
    "nothing": "\x00",
}
HOSTILE = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)


@HOSTILE
def test_escaping_spells_out_invisible_characters_alone(text):
    assert not CONTROLS.search(escape_controls(text))
    assert escape_controls(escape_controls(text)) == escape_controls(text)
    assert escape_controls("naïve 日本 😀\tx\ny") == "naïve 日本 😀\tx\ny"


# What begins something in Markdown where no backslash stands before it.
ACTIVE = re.compile(r"(?<!\\)([`*_{}\[\]()#+!|~<>@]|:(?=//))|^\d+\.(?=\s)|(?<!\\)\bwww\.")


@HOSTILE
def test_markdown_has_no_sign_left_that_does_anything(text):
    shown = escape(text)
    assert not ACTIVE.search(shown), shown
    assert "\n" not in shown
    assert not CONTROLS.search(shown)
    drawn = table((text, "b"), [(text, text)])
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in drawn.splitlines()] == [3, 3, 3]
    assert str(samples_markdown([text]).value).count("\n") == 0


@pytest.mark.parametrize(("value", "shown"), [(0.5, "0.5"), ("1.5 kPa", "1.5 kPa"), ("x.csv", "x.csv"), ("a: b", "a: b")])
def test_harmless_text_stays_readable(value, shown):
    assert escape(value) == shown


@HOSTILE
def test_dagster_shows_decisions_as_inert_text(text):
    decision = logbook.decided(1, reasons=(Reason(text, "critical", "failed", "rows", 1, text),))
    shown = str(decision_metadata(decision)["reasons"].value)
    assert not any(ACTIVE.search(line.strip("| ").replace("| ", "")) for line in shown.splitlines()[2:])


@HOSTILE
def test_a_terminal_gets_the_text_and_no_command(text, capsys, monkeypatch):
    files = {"out": io.StringIO(), "err": io.StringIO()}
    for name, console in files.items():
        fresh = terminal.SafeConsole(file=console, width=400, emoji=False, force_terminal=False)
        monkeypatch.setattr(terminal, name, fresh)
    terminal.show([{text: text, "b": 1}])
    terminal.show([], False, text)
    terminal.out.print(text)
    written = files["out"].getvalue()
    for line in escape_controls(text).splitlines():
        assert written.count(line.strip()) >= 4, written
    assert not CONTROLS.search(written)
    terminal.show([{text: text}], as_json=True)
    assert not CONTROLS.search(capsys.readouterr().out)

    def fails(**_: object) -> None:
        raise RefusedError(text)

    monkeypatch.setattr(cli, "app", fails)
    with pytest.raises(SystemExit):
        cli.main()
    assert f"error: {escape_controls(text)}".split() == files["err"].getvalue().split()


@HOSTILE
def test_an_alert_has_its_own_lines_and_no_others(text):
    reasons = (Reason(text, "critical", "failed", "batch", 1, text),)
    decision = logbook.decided(1, verdict="quarantined", reasons=reasons)
    title, body = format_message(readings(), [decision])
    assert not CONTROLS.search(title + body)
    assert len(body.splitlines()) == 2


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs if name.startswith("on")}
        self.attributes |= {value for name, value in attrs if name in ("href", "src") and re.match(r"\w+:", value or "")}

    def handle_data(self, data):
        self.text += data


@HOSTILE
def test_the_pages_of_an_audit(text):
    records = [replace(record, error_message=text) for record in history()]
    features = ((text, text, "tail 0.7", "0.7", "0.1", "0.1", "1", "+0.1", "1 / 2", text),)
    beside = {"silver/firms": TableContext(((text, 72),), (DriftedWindow(text, "quarantined", 0.1, text, features),))}
    plain = {path: Tags(html).tags for path, html in build_site(history(), strict(), {}, AT, ["silver/firms"]).items()}
    pages = build_site(records, strict(), beside, AT + timedelta(weeks=3), ["silver/firms", f"silver/{text}"])
    for path, html in pages.items():
        tags = Tags(html)
        assert not tags.attributes, path
        assert not tags.tags & {"script", "img", "b", "link"} - plain.get(path, set()), path
        assert not CONTROLS.search(html), path
    tags = Tags(pages[page_path("silver/firms")]).text
    assert " ".join(escape_controls(text).split()) in " ".join(tags.split())
