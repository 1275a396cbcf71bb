"""The page on frames: its script and its commands, in a process that has neither Dagster nor a lake."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lakehouse_assets.storage.jars import JARS
from lakehouse_assets_tests.support import FAST_COMPILER, PROJECT_ROOT, rows_of

PAGE = (PROJECT_ROOT / "docs" / "frames.md").read_text(encoding="utf-8")
AROUND = """
import json, shlex, sys
import pyspark.sql, pyspark.sql.functions
from lakehouse_assets import Gate
from pyspark.sql import SparkSession
from lakehouse_assets.errors import EnvironmentMissing, LakehouseError, RefusedError
bare = SparkSession.builder.config("spark.sql.extensions", "").getOrCreate()
rows, gate = bare.range(2), Gate.from_dict({"checks": [{"check": "not_empty"}]})
without = [gate.check(rows).verdict]
for attempt in (lambda: gate.publish(rows, "./bare"), lambda: (bare.stop(), gate.check(rows))):
    try:
        attempt()
    except (EnvironmentMissing, RefusedError) as error:
        without.append(str(error))
names = {}
for block in json.load(open("blocks.json")):
    exec(compile(block, "frames.md", "exec"), names)
from lakehouse_assets import cli
codes = []
cli.common.stop_own_spark = __import__("contextlib").nullcontext
for command in json.load(open("commands.json")):
    try:
        cli.app(shlex.split(command, comments=True)[1:], standalone_mode=False)
        codes.append(0)
    except LakehouseError as error:
        print("error:", error)
        codes.append(error.exit_code)
loaded = [name for name in sys.modules if name.split(".")[0] in ("dagster", "dagster_pyspark", "dagster_webserver")]
json.dump({"codes": codes, "loaded": loaded, "without": without}, open("seen.json", "w"))
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.exhaustive(seconds=60)
def test_the_page_s_script_and_commands_need_neither_dagster_nor_a_lake(tmp_path: Path):
    scripts, commands = blocks("python"), [line for block in blocks("sh") for line in block.splitlines()]
    assert len([line for line in scripts[0].splitlines() if line.strip()]) <= 20
    (tmp_path / "orders.yaml").write_text(blocks("yaml")[0])
    (tmp_path / "blocks.json").write_text(json.dumps(scripts))
    (tmp_path / "strict.yaml").write_text("checks: [{check: in_range, column: amount, min: 6}]")
    (tmp_path / "wrong.yaml").write_text("checks: [{check: in_range, column: price, min: 5}]")
    run = "lakehouse check run --table-path ./orders --rules"
    commands += [
        f"{run} strict.yaml",
        f"{run} wrong.yaml",
        "lakehouse check run --table-path ./none --rules strict.yaml",
        f"{run} none.yaml",
    ]
    (tmp_path / "commands.json").write_text(json.dumps(commands))
    delta = {
        "spark.jars": ",".join(map(str, sorted(JARS.glob("*.jar")))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.extraJavaOptions": FAST_COMPILER,
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
    }
    arguments = " ".join(f'--conf "{key}={value}"' for key, value in delta.items())
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEHOUSE", "DAGSTER"))}
    env |= {"PYSPARK_SUBMIT_ARGS": f"--master local[2] {arguments} pyspark-shell", "PYTHONPATH": str(PROJECT_ROOT)}
    command = [sys.executable, "-c", textwrap.dedent(AROUND)]
    process = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    record = json.loads((tmp_path / "seen.json").read_text())
    assert record["loaded"] == []
    verdict, no_delta, closed = record["without"]
    assert verdict == "published"
    assert "the session has no Delta Lake: start it with spark.jars.packages=" in no_delta
    assert "session is closed" in closed
    assert (record["codes"][:2], record["codes"][3:]) == ([0, 0], [8, 2, 5, 2]), process.stdout
    assert "wrong.yaml:1: checks.0: (in_range_price) the frame has no column 'price'" in process.stdout
    assert "published_with_warnings Counts(rows_in=4, rows_published=2, rows_superseded=1, rows_quarantined=1" in process.stdout
    assert "refused: orders: quarantined" in process.stdout
    assert "the rows that version 1 appended" in process.stdout
    assert [row["order_id"] for row in rows_of(str(tmp_path / "orders"))] == [1, 1, 3, 3]
    assert [row["order_id"] for row in rows_of(str(tmp_path / "orders_quarantine"))] == [2]
    written = {path.name for path in tmp_path.iterdir()} - {
        "blocks.json",
        "commands.json",
        "seen.json",
        "orders.yaml",
        "strict.yaml",
        "wrong.yaml",
    }
    assert written <= {"orders", "orders_quarantine", "orders_log", "spark-warehouse", "metastore_db", "derby.log"}
