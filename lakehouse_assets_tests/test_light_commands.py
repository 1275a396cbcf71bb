"""What the commands load that only read logs.

Belongs here: modules that must not be loaded. Does not: seconds, which depend on the machine.
"""

import json
import os
import subprocess
import sys

import pytest

# Each takes a quarter of a second and more.
NEVER = ("pandas", "pyspark", "dagster", "scipy.stats", "matplotlib")
LOADED = """
import json, sys
from lakehouse_assets.cli import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
json.dump(sorted(sys.modules), sys.stderr)
"""


@pytest.mark.parametrize("command", [["verdicts"], ["quarantine", "list"], ["pages"]])
def test_a_command_that_reads_logs_loads_neither_spark_nor_pandas(tmp_path, command):
    for folder in ("lake", "tables"):
        (tmp_path / folder).mkdir()
    # `make` sets DAGSTER_HOME to the project's folder, where the pages would be made.
    folders = {"LAKEHOUSE_PROJECT": tmp_path, "DAGSTER_HOME": tmp_path, "LAKEHOUSE_ROOT": tmp_path / "lake"}
    environment = {**os.environ, **{name: str(path) for name, path in folders.items()}}
    (tmp_path / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    arguments = [sys.executable, "-c", LOADED, *command]
    process = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    loaded = set(json.loads(process.stderr))
    assert "lakehouse_assets.storage.delta" in loaded
    assert [name for name in NEVER if name in loaded] == []
    assert (tmp_path / "data" / "pages" / "index.html").is_file() == (command == ["pages"])
