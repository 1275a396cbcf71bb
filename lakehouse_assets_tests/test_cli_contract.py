"""`lakehouse contract` as a person runs it. No JVM is started.

Belongs here: files, notes, exit codes. Does not: what of a contract has a counterpart (contracts/test_open_contract).
"""

import pytest
import yaml
from typer.testing import CliRunner

from lakehouse_assets import cli
from lakehouse_assets.cli import common
from lakehouse_assets.errors import ConfigError, RefusedError


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of somebody's own without tables."""
    (tmp_path / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    (tmp_path / "tables").mkdir()
    monkeypatch.setenv("LAKEHOUSE_PROJECT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli.app, ["contract", *map(str, arguments)])


def test_export_and_import_elsewhere(tmp_path, request):
    file = tmp_path / "weather.odcs.yaml"
    result = run("export", "weather", "--to", file, "--version", "2.0.0")
    assert result.exit_code == 0, result.output
    assert "no place for source, extraction" in " ".join(result.output.split())
    assert yaml.safe_load(file.read_text())["version"] == "2.0.0"
    printed = run("export", "weather", "--version", "2.0.0")
    assert printed.stdout == file.read_text()

    project = request.getfixturevalue("project")
    result = run("import", file)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "wrote tables/weather/defs.yaml",
        "- gold: put daily_weather.sql beside the table's YAML: a contract has no files",
    ]
    (project / "tables" / "weather" / "daily_weather.sql").write_text(
        "select origin, date(time_hour) as day from silver_weather"
    )
    assert "table.schema.json" in (project / "tables" / "weather" / "defs.yaml").read_text().splitlines()[0]
    (table,) = common.load_all_tables().tables
    assert table.spec.key == ("origin", "time_hour")
    again = run("import", file)
    assert isinstance(again.exception, RefusedError) and "exists already" in str(again.exception)


def test_a_contract_with_a_mistake_writes_nothing(project):
    file = project / "orders.yaml"
    file.write_text("kind: DataContract\napiVersion: v3.0.0\nschema: [{name: orders, colour: red}]\n")
    result = run("import", file)
    assert isinstance(result.exception, ConfigError) and result.exception.exit_code == 2
    assert "schema.0.colour" in str(result.exception)
    assert list((project / "tables").iterdir()) == []
