"""Checks added to a `defs.yaml`: where they go, and that every other character stays.

Belongs here: texts of files. Does not: the command (test_cli_checks).
"""

from pathlib import Path

import pytest

from lakehouse_assets.contracts.added_checks import add_checks
from lakehouse_assets.contracts.document import read_text
from lakehouse_assets.errors import RefusedError

NEW = ["{check: not_null, column: a}", "{check: in_set, column: b, values: [x, 'y, z']}"]


def added(text, number=0, checks=NEW):
    document = read_text(text, Path("defs.yaml"))[number]
    return add_checks(document, text, ("attributes",), checks)


HEAD = "# yaml-language-server: x\ntype: t\nattributes:\n  name: readings\n"
LINES = "    - {check: not_null, column: a}\n    - {check: in_set, column: b, values: [x, 'y, z']}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("  checks:\n    - {check: not_empty}\n", ""),
        ("  checks:\n    - {check: not_empty}  # first\n", "\n  # about drift\n  drift:\n    features: [a]\n"),
        (
            "  checks:\n    - check: sql\n      name: n\n      sql: >-\n        select *\n        from batch\n",
            "\n\n  drift: {features: [a]}\n",
        ),
        ("  checks:\n    - check: sql\n      name: n\n      sql: |\n        select 1\n", "---\ntype: other\n"),
        ("  checks:\n    - check: not_null\n      column: a\n", "# the end\n"),
    ],
)
def test_checks_go_to_the_end_of_the_list(before, after):
    assert added(HEAD + before + after) == HEAD + before + LINES + after


def test_a_table_without_checks_gets_the_key():
    assert added(HEAD + "  key: [a]\n\n# end\n") == HEAD + "  key: [a]\n  checks:\n" + LINES + "\n# end\n"


def test_a_list_that_is_not_indented_stays_so():
    text = "attributes:\n  name: a\n  checks:\n  - {check: not_empty}\n"
    assert added(text) == text + LINES.replace("    -", "  -")


def test_the_end_of_a_file_and_of_its_lines():
    text = HEAD + "  checks:\n    - {check: not_empty}"
    assert added(text) == text + "\n" + LINES
    windows = (text + "\n").replace("\n", "\r\n")
    assert added(windows) == windows + LINES.replace("\n", "\r\n")


def test_the_second_document_of_a_file():
    first, second = (
        HEAD + "  checks:\n    - {check: not_empty}\n",
        "---\nattributes:\n  name: b\n  checks:\n    - {check: not_empty}\n",
    )
    assert added(first + second, 1) == first + second + LINES
    assert added(first + second, 0) == first + LINES + second


@pytest.mark.parametrize(
    "text",
    [
        "attributes: {name: a, checks: [{check: not_empty}]}\n",
        "attributes:\n  name: a\n  checks: [{check: not_empty}]\n",
        "attributes:\n  name: a\n  checks: []\n",
        "attributes:\n  name: a\n  checks: null\n",
        "type: t\n",
    ],
)
def test_another_layout_is_refused(text):
    with pytest.raises(RefusedError, match=r"^defs.yaml:\d+: .*paste the checks by hand"):
        added(text)


def test_a_file_that_has_changed_meanwhile_is_refused():
    text = HEAD + "  checks:\n    - {check: not_empty}\n"
    (document,) = read_text(text, Path("defs.yaml"))
    with pytest.raises(RefusedError, match="the file has changed meanwhile"):
        add_checks(document, text.replace("readings", "others"), ("attributes",), NEW)
    # A comment is no change.
    assert add_checks(document, f"# new\n{text}", ("attributes",), NEW) == f"# new\n{text}{LINES}"
