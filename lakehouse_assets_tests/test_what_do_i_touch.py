"""The answers of "What do I touch?" in docs/development.md: the files exist, and each example works in a copy of the code.

Belongs here: applying what the page shows, and running what it asserts. Does not: other pages (test_docs).

A section shows new files (a `python` block after "New file `path`:"), edits (`diff` blocks that begin with `--- path`), and
what holds afterwards (the other `python` blocks). All sections are applied to one copy, in which one process runs all asserts.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_assets_tests.support import PROJECT_ROOT

PAGE = (PROJECT_ROOT / "docs" / "development.md").read_text(encoding="utf-8")
ANSWERS = PAGE.partition("## What do I touch?")[2].partition("\n## ")[0]
SECTIONS = {title: text for title, _, text in (part.partition("\n") for part in ANSWERS.split("\n### ")[1:])}
SUBJECTS = (
    "A check kind", "A source kind", "A column of `ops/decisions`", "The order of ties", "A drift default", "A plot",
    "A kind of fault", "A command", "The retry policy", "An alert channel", "A verdict",
)  # fmt: skip
NEW_FILE = re.compile(r"^New file `([\w/.]+)`:\n\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN_ALL = """
import json, sys, traceback
errors = {}
for title, text in json.load(sys.stdin).items():
    try:
        exec(compile(text, title, "exec"), {})
    except BaseException:
        errors[title] = traceback.format_exc()
print(json.dumps(errors))
"""


def blocks(section: str, language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(NEW_FILE.sub("", section)) if name == language]


def apply_diff(root: Path, diff: str) -> None:
    """Replace the lines that a diff removes by those that it adds. Its context and removed lines occur once in the file."""
    header, _, body = diff.partition("\n")
    path = root / header.removeprefix("--- ")
    for hunk in body.split("@@\n"):
        lines = hunk.splitlines()
        before = "\n".join(line[1:] for line in lines if line[:1] != "+")
        after = "\n".join(line[1:] for line in lines if line[:1] != "-")
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{header}: found {text.count(before)} times:\n{before}"
        path.write_text(text.replace(before, after), encoding="utf-8")


def apply_section(root: Path, section: str) -> None:
    for path, text in NEW_FILE.findall(section):
        assert not (root / path).exists(), path
        (root / path).write_text(text, encoding="utf-8")
    for diff in blocks(section, "diff"):
        apply_diff(root, diff)


@pytest.fixture(scope="module")
def errors(tmp_path_factory) -> dict[str, str]:
    """Why a section fails in a copy of the code with all examples applied: a line that is gone, or a traceback."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(PROJECT_ROOT / "lakehouse_assets", root / "lakehouse_assets", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT_ROOT / "pyproject.toml", root)
    failures: dict[str, str] = {}
    for title, section in SECTIONS.items():
        try:
            apply_section(root, section)
        except (AssertionError, OSError) as error:
            failures[title] = str(error)
    asserts = {title: "\n".join(blocks(section, "python")) for title, section in SECTIONS.items()}
    process = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        cwd=root,
        input=json.dumps(asserts),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1]) | failures


def test_every_subject_has_an_answer():
    assert tuple(SECTIONS) == SUBJECTS


@pytest.mark.parametrize("title", SECTIONS)
def test_each_file_named_exists(title):
    """Paths stand from the project's root, below `lakehouse_assets/` or below `lakehouse_assets_tests/`."""
    section = SECTIONS[title]
    created = {path for path, _ in NEW_FILE.findall(section)}
    paths = set(re.findall(r"`([\w/]+/\w+\.(?:py|md))`", section)) - created
    roots = (PROJECT_ROOT, PROJECT_ROOT / "lakehouse_assets", PROJECT_ROOT / "lakehouse_assets_tests")
    assert paths
    for path in paths:
        assert any((root / path).is_file() for root in roots), path


@pytest.mark.parametrize("title", SECTIONS)
def test_each_example_works(title, errors):
    section = SECTIONS[title]
    assert blocks(section, "diff") or NEW_FILE.search(section), "no example"
    assert "assert " in "".join(blocks(section, "python")), "nothing is asserted"
    assert title not in errors, errors[title]
