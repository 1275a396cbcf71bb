"""The README, taken literally: "Add a table in five minutes", typed into a copy of the project.

Belongs here: commands that the README shows, run as they stand there. Does not: what they do inside (their own tests).
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lakehouse_assets.settings import PROJECT_ROOT
from lakehouse_assets_tests.support import SHORT_LIVED


def section(title: str) -> str:
    text = (PROJECT_ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {title}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def commands(text: str) -> list[str]:
    """Each fenced block of shell commands, without the indentation of the list that it stands in."""
    return [textwrap.dedent(block) for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """What git would clone, without the example: a newcomer's project in its own folder."""
    target = tmp_path_factory.mktemp("newcomer") / "project"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT_ROOT, capture_output=True, check=True, text=True)
    for name in listed.stdout.split("\0"):
        if name.startswith(("lakehouse_assets/", "pyproject.toml", "dagster.yaml")) and (PROJECT_ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((PROJECT_ROOT / name).read_bytes())
    return target


def typed(clone: Path, block: str) -> str:
    """What a block of commands says. The environment is the one that is active here; the project is the copy."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEHOUSE_", "DAGSTER_"))}
    (clone / "spark.conf").write_text(SHORT_LIVED)
    variables |= {
        "LAKEHOUSE_SPARK_CONF": str(clone / "spark.conf"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(clone),
        "COLUMNS": "200",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=clone,
        env=variables,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_adding_a_table_to_the_letter(clone):
    land, init, edit, validate, run, show, correct = commands(section("Add a table in five minutes"))
    typed(clone, land)
    assert "key: order_id, guessed" in typed(clone, init)
    assert "right" in typed(clone, validate), "the draft works as it is"
    typed(clone, edit)
    assert "6 table(s)" in typed(clone, validate)

    said = typed(clone, run)
    assert "orders: 2024-05-01 to 2024-05-02, 2 window(s) in one run" in said
    verdicts = {line.split()[1]: line for line in said.splitlines() if line.startswith("orders ")}
    assert "published_with_warnings" in verdicts["2024-05-01"]
    assert "published_with_warnings" not in verdicts["2024-05-02"]

    held = typed(clone, show)
    assert "-5.00" in held
    assert "cy@example.com" not in held

    said = typed(clone, correct)
    last = [line for line in said.splitlines() if line.startswith("orders ") and "2024-05-01" in line][-1]
    assert "published" in last
    assert "warnings" not in last
