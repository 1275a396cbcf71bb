"""`dg` on a project elsewhere: it knows every key of a table, drafts one that loads, and names the loader's lines.

Belongs here: Dagster's own tools, as a person runs them. Does not: the schema's details (contracts/test_table_schema).
"""

import itertools
import json
import os
import re

import pytest
from click.testing import CliRunner
from dagster_dg_cli.cli import cli

from lakehouse_assets.contracts.document import read_documents
from lakehouse_assets.contracts.sharing import Shared
from lakehouse_assets.contracts.source_map import table_mistakes
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.orchestration.assets.table_attributes import TableScaffolder
from lakehouse_assets.orchestration.assets.table_files import read_tables
from lakehouse_assets_tests.support import PROJECT_ROOT

PROJECT = """\
[project]
name = "{0}"
version = "0.1"
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "{0}"
defs_module = "{0}.defs"
registry_modules = ["lakehouse_assets"]
[tool.lakehouse]
tables = "{0}/defs"
"""
MISTAKES = """\
type: lakehouse_assets.LakehouseTable

attributes:
  name: Readings
  source: {kind: files, path: "readings/{window:%Y-%m-%d}.csv", formt: csv}
  extraction: {cadence: dayly, start: yesterday, mode: upsert}
  key: sensor
  columns:
    sensor: string
    value: duoble
  checks:
    - {check: not_emty}
    - {check: in_range, column: value, maximum: 10, severity: grave}
    - {check: freshness, column: value, max_age: 6}
  drift: {features: [value], hold_at: 2}
  extra: 1
"""
_numbers = itertools.count(1)


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A Dagster project of its own, with a table full of mistakes. Python keeps the packages that it has imported."""
    name = f"shop_{next(_numbers)}"
    (tmp_path / "pyproject.toml").write_text(PROJECT.format(name))
    folder = tmp_path / name / "defs" / "readings"
    folder.mkdir(parents=True)
    for package in (tmp_path / name, folder.parent):
        (package / "__init__.py").touch()
    (folder / "defs.yaml").write_text(MISTAKES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEHOUSE_PROJECT", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(PROJECT_ROOT)]))
    return folder.parent


def dg(*arguments: str) -> str:
    return CliRunner().invoke(cli, list(arguments)).output


def test_check_yaml_names_the_lines_that_check_validate_names(shop):
    file = shop / "readings" / "defs.yaml"
    (document,) = read_documents(file)
    lines = {line.partition(": ")[0] for line in table_mistakes(document, Shared())}
    assert len(lines) == 10
    result = CliRunner().invoke(cli, ["check", "yaml"])
    printed = re.sub(r"\x1b\[[\d;]*m", "", result.output)
    assert result.exit_code == 1
    assert {f"{file}:{line}" for line in re.findall(r"defs\.yaml:(\d+) - ", printed)} == lines


@pytest.mark.exhaustive(seconds=10)
def test_scaffold_drafts_a_table_that_loads(shop):
    printed = dg("scaffold", "defs", "lakehouse_assets.LakehouseTable", "orders")
    loaded = read_tables(shop, {}, LakehouseTable)
    assert [table.spec.name for table in loaded.tables] == ["orders"], printed
    text = (shop / "orders" / "defs.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=../table.schema.json\n")
    assert json.loads((shop / "table.schema.json").read_text())["$defs"]["Table"]["properties"]["columns"]
    assert "All component YAML validated successfully." in dg("check", "yaml", str(shop / "orders"))


def test_inspect_component_shows_every_key(shop):
    printed = dg("utils", "inspect-component", "lakehouse_assets.LakehouseTable")
    assert all(f'"{key}": {{' in printed for key in ("packs", "columns", "drift", "InRange", "JdbcSource")), printed[:2000]


@pytest.mark.parametrize(("name", "reason"), [("Orders", "no table name"), ("1st", "no table name")])
def test_scaffold_refuses_what_is_no_name(shop, name, reason):
    request = type("Request", (), {"target_path": shop / name, "scaffold_format": "yaml"})()
    with pytest.raises(ConfigError, match=reason):
        TableScaffolder().scaffold(request)
