"""The page on guards: its job, its guard and its commands, in a project made of the page alone."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from lakehouse_assets.cli import app
from lakehouse_assets.errors import CheckFailedError
from lakehouse_assets_tests.support import PROJECT_ROOT

PAGE = (PROJECT_ROOT / "docs" / "guards.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.exhaustive(seconds=60)
def test_the_page_s_commands_do_what_the_page_promises(spark, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    (tmp_path / "tables" / "orders").mkdir(parents=True)
    (tmp_path / "tables" / "orders" / "defs.yaml").write_text(blocks("yaml")[0])
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.chdir(tmp_path)
    for name in ("LAKEHOUSE_PROJECT", "DAGSTER_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    exec(compile(blocks("python")[0].replace("./theirs", str(tmp_path / "theirs")), "guards.md", "exec"), {})
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    results = {}
    for command in commands:
        results[command] = CliRunner().invoke(app, shlex.split(command, comments=True)[1:])
    codes = [getattr(result.exception, "exit_code", result.exit_code) for result in results.values()]
    text = "\n".join(f"{command}\n{result.output}{result.exception!r}" for command, result in results.items())
    assert codes == [0, 0, CheckFailedError.exit_code, 0, 0, 0, CheckFailedError.exit_code, 0, 0], text
    first_run, listed = results[commands[2]].output, results[commands[4]].output
    assert re.search(r"^1 .*orders.* quarantined", first_run, re.M), text
    assert "in_range_amount" in listed, text
    refused = CliRunner().invoke(app, ["schema", "show", "orders"])
    assert "orders guards a table that others write: `lakehouse guard` has its commands" in str(refused.exception)
