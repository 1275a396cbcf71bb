"""The README's "Add a table in five minutes", typed into a copy of the project.

Belongs here: commands that the README shows, run as they stand there. Does not: what they do inside (their own tests).
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lakehouse_assets_tests.support import FOR_THREE_ROWS, PROJECT_ROOT, SHORT_LIVED


def section(title: str) -> str:
    text = (PROJECT_ROOT / "README.md").read_text(encoding="utf-8")
    match = re.search(rf"^## {title}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert match, title
    return match[1]


def commands(text: str) -> list[str]:
    """The fenced blocks of shell commands, without the indentation of a surrounding list."""
    return [textwrap.dedent(block) for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A clone of the project without the example's data: a newcomer's folder."""
    target = tmp_path_factory.mktemp("newcomer") / "project"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT_ROOT, capture_output=True, check=True, text=True)
    for name in files.stdout.split("\0"):
        if name.startswith(("lakehouse_assets/", "pyproject.toml", "dagster.yaml")) and (PROJECT_ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((PROJECT_ROOT / name).read_bytes())
    return target


def run_block(clone: Path, block: str) -> str:
    """Run a block of commands and return its output. The environment is the active one; the project is the copy."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEHOUSE_", "DAGSTER_"))}
    (clone / "spark.conf").write_text(SHORT_LIVED + FOR_THREE_ROWS)
    variables |= {
        "LAKEHOUSE_SPARK_CONF": str(clone / "spark.conf"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(clone),
        "COLUMNS": "200",
    }
    process = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=clone,
        env=variables,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert process.returncode == 0, f"{block}\n{process.stdout}\n{process.stderr}"
    return process.stdout


@pytest.mark.exhaustive(seconds=120)
def test_adding_a_table_to_the_letter(clone):
    land, init, edit, validate, run, show, correct = commands(section("Add a table in five minutes"))
    run_block(clone, land)
    assert "key: order_id, guessed" in run_block(clone, init)
    assert "checks: valid" in run_block(clone, validate), "the draft works as it is"
    run_block(clone, edit)
    assert "6 table(s)" in run_block(clone, validate)

    output = run_block(clone, run)
    assert "orders: 2024-05-01 to 2024-05-02, 2 window(s) in one run" in output
    verdicts = {line.split()[1]: line for line in output.splitlines() if line.startswith("orders ")}
    assert "published_with_warnings" in verdicts["2024-05-01"]
    assert "published_with_warnings" not in verdicts["2024-05-02"]

    row = run_block(clone, show)
    assert "-5.00" in row
    assert "cy@example.com" not in row

    output = run_block(clone, correct)
    last = [line for line in output.splitlines() if line.startswith("orders ") and "2024-05-01" in line][-1]
    assert "published" in last
    assert "warnings" not in last
