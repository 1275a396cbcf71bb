"""A check of a project's own is one Python file: put among the kinds, it is known everywhere, with nothing else said.

Belongs here: discovery. Does not: the kinds that come with the project.
"""

import json
import subprocess
import sys

OWN = '''
"""Evenness.

Belongs here: kinds about even numbers. Does not: anything else.
"""

from typing import ClassVar, Literal

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import ColumnCheck
from lakehouse_assets.checks.sql.text import identifier


class Even(ColumnCheck):
    """The number is even. NULL passes."""

    summary: ClassVar[str] = "the number is even"
    example: ClassVar[str] = "{check: even, column: hour}"

    check: Literal["even"]
    column: str
    """A whole number."""

    def condition(self, context: CheckContext) -> str:
        """Odd."""
        return f"{identifier(self.column)} % 2 <> 0"

    def message(self) -> str:
        """What is promised."""
        return f"{self.column} even"
'''
# The folder that a file is put into, without putting it into this clone.
PUT = """
import sys
import lakehouse_assets.checks.kinds as package
package.__path__.append(sys.argv[1])
"""
USED = """
from lakehouse_assets_tests.support import readings
from lakehouse_assets.checks.registry import describe_kind
from lakehouse_assets.checks.registry import kinds
from lakehouse_assets.measures.stage import row_rules
spec = readings(checks=[{"check": "even", "column": "hour", "severity": "critical"}])
rule = row_rules(spec)[-1]
import json
print(json.dumps([rule.id, rule.failing, rule.message, describe_kind(kinds()["even"])["nulls"]]))
"""


def test_one_file_is_enough(tmp_path):
    (tmp_path / "evenness.py").write_text(OWN)
    command = [sys.executable, "-c", PUT + USED, str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    name, failing, message, nulls = json.loads(process.stdout)
    assert (name, message, nulls) == ("even_hour", "hour even", "NULL passes.")
    assert "`hour` % 2 <> 0" in failing


def test_without_the_file_there_is_no_such_kind(tmp_path):
    process = subprocess.run([sys.executable, "-c", PUT + USED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert "even" in process.stderr


def test_two_kinds_of_one_name_are_refused(tmp_path):
    (tmp_path / "evenness.py").write_text(OWN.replace('Literal["even"]', 'Literal["not_null"]'))
    command = [sys.executable, "-c", PUT + "from lakehouse_assets.checks.registry import kinds; kinds()", str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert "two kinds of checks are called 'not_null'" in process.stderr
    assert "kinds.presence" in process.stderr and "kinds.evenness" in process.stderr
