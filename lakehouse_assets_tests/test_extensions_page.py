"""docs/extensions.md: its files make a project's extensions, and its examples hold in a process of that project.

Belongs here: applying the page, and running it. Does not: mistakes in extensions (test_extensions).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_assets_tests.support import PROJECT_ROOT

PAGE = (PROJECT_ROOT / "docs" / "extensions.md").read_text(encoding="utf-8")
NEW_FILE = re.compile(r"^New file `([\w/.]+)`:\n\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The session of the lakehouse, which registers the SQL functions.
START = """
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.session import build_session
spark = build_session(Settings.from_environment())
"""
END = """
import json
from lakehouse_assets.contracts.table_schema import table_schema
schema = json.dumps(table_schema())
assert all(word in schema for word in ('"upper_case"', '"clock"', '"stopped_at"', '"pagers"'))

from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import heal_windows, rows_of
checks = [{"check": "upper_case", "column": "start"}, {"check": "expression", "name": "e", "expr": "not gtin_is_valid(start)"}]
ours = TableSpec.model_validate({**spec.model_dump(by_alias=True), "columns": {"start": "string"}, "checks": checks})
settings = Settings.from_environment()
heal_windows(spark, settings, [first, second], ours)
decisions = logs.decisions(settings, "ticks")
assert [decision.verdict for decision in decisions] == ["published"] * 2, decisions
assert len(rows_of(settings.path("silver", "ticks"))) == 2
assert TableSpec.from_ruleset(decisions[0].ruleset).ruleset_hash == ours.ruleset_hash, "replay"

from lakehouse_assets import Gate
frame = spark.newSession().createDataFrame([("4006381333931",), ("4006381333932",)], "v string")
with Gate.from_dict({"checks": [gtins]}).check(frame) as result:
    assert (result.counts.rows_published, result.counts.rows_quarantined) == (1, 1), "a session that nobody registered it in"
spark.stop()
print("all of the page holds")
"""


@pytest.mark.exhaustive(seconds=55)
def test_the_page(tmp_path):
    files = NEW_FILE.findall(PAGE)
    assert [Path(path).parent.name for path, _ in files] == ["checks", "sources", "alerts", "functions"]
    for path, text in files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "pyproject.toml").write_text('[tool.lakehouse]\ntables = "tables"\n')
    (tmp_path / "tables").mkdir()
    examples = EXAMPLE.findall(NEW_FILE.sub("", PAGE))
    assert len(examples) == len(files)
    conf = tmp_path / "spark.conf"
    conf.write_text("spark.sql.shuffle.partitions 1\n")
    named = {
        "LAKEHOUSE_PROJECT": str(tmp_path), "LAKEHOUSE_ROOT": str(tmp_path / "lake"), "LAKEHOUSE_SPARK_CONF": str(conf),
        "LAKEHOUSE_SPARK_MASTER": "local[1]", "DAGSTER_HOME": str(tmp_path), "PYTHONPATH": str(PROJECT_ROOT),
    }  # fmt: skip
    script = tmp_path / "page.py"
    script.write_text("\n".join([START, *examples, END]))
    command = [sys.executable, str(script)]
    process = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **named}, capture_output=True, text=True, timeout=300, check=False
    )
    assert process.returncode == 0, process.stderr[-3000:]
    assert process.stdout.endswith("all of the page holds\n")
