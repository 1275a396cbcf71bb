"""What the commands load that only read logs.

Belongs here: modules that must not be loaded, and a listing's lines. Does not: seconds, which depend on the machine.
"""

import io
import json
import os
import subprocess
import sys

import pytest
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from lakehouse_assets.cli.plain_table import plain_lines

# Each takes a quarter of a second and more.
NEVER = ("pandas", "pyspark", "scipy", "matplotlib")
# What else a listing of decisions never loads: nothing of it is needed to read a log.
OF_A_LISTING = (
    "dagster",
    "numpy",
    "sqlglot",
    "http.server",
    "lakehouse_assets.checks.registry",
    "lakehouse_assets.decisions.gate",
)
LOADED = """
import json, sys
from lakehouse_assets.cli import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
json.dump(sorted(sys.modules), sys.stderr)
"""
READINGS = """
type: lakehouse_assets.LakehouseTable
attributes:
  name: readings
  source: {kind: files, path: "{window:%Y-%m-%d}.csv", format: csv}
  extraction: {cadence: daily, start: "2024-01-01", end: "2024-01-03"}
  key: [id]
  columns: {id: bigint}
"""


@pytest.mark.parametrize(
    ("command", "never"),
    [
        (["verdicts"], (*NEVER, *OF_A_LISTING)),
        (["quarantine", "list"], (*NEVER, *OF_A_LISTING)),
        (["heal", "status"], (*NEVER, "lakehouse_assets.orchestration.project_definitions")),
        (["pages"], ("pandas", "pyspark", "dagster", "scipy.stats", "matplotlib")),
    ],
    ids=lambda value: value[0] if len(value) < 3 else None,
)
def test_a_command_that_reads_logs_loads_neither_spark_nor_pandas(tmp_path, command, never):
    for folder in ("lake", "tables"):
        (tmp_path / folder).mkdir()
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    (tmp_path / "tables" / "defs.yaml").write_text(READINGS)
    # `make` sets DAGSTER_HOME to the project's folder, where the pages would be made.
    folders = {"LAKEHOUSE_PROJECT": tmp_path, "DAGSTER_HOME": tmp_path, "LAKEHOUSE_ROOT": tmp_path / "lake"}
    environment = {**os.environ, **{name: str(path) for name, path in folders.items()}}
    (tmp_path / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    arguments = [sys.executable, "-c", LOADED, *command]
    process = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    loaded = set(json.loads(process.stderr.splitlines()[-1]))
    assert "lakehouse_assets.storage.delta" in loaded
    assert [name for name in never if name in loaded] == []
    assert (tmp_path / "data" / "pages" / "index.html").is_file() == (command == ["pages"])


def test_a_listing_whose_rows_fit_is_laid_out_as_rich_does():
    header, rows = ["a", "name", "日"], [["1", "x [b]y[/b]", ""], ["123", "日本", "\\n"], ["", "", "e\u0301"]]
    console = Console(width=80, emoji=False, file=io.StringIO())
    drawn = Table(*[Column(Text(name)) for name in header], box=None, pad_edge=False)
    for row in rows:
        drawn.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(drawn)
    assert plain_lines(header, rows, 80) == captured.get().splitlines()
    assert plain_lines(header, rows, 10) is None
    assert plain_lines(header, [["1", "two\nlines", ""]], 80) is None
    assert plain_lines(header, [["1"]], 80) is None
