"""The logs are read and written without a JVM, Spark understands them, and a process that did so ends in order."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.storage import delta, delta_writes, logs
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import heal, land

MOMENT = datetime(2024, 1, 1, 12, tzinfo=UTC)
READ = """
import sys
from pathlib import Path
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
place = sys.argv[1]
settings = Settings(root=place, landing=place, dagster_home=Path(place))
from pyspark import SparkContext
print(len(logs.decisions(settings, "readings")), SparkContext._gateway is not None)
"""


@pytest.mark.exhaustive(seconds=15)
def test_a_process_that_read_the_log_ends_in_order(spark, settings):
    """It aborted three times of four while the library's own file system served the scan."""
    land(settings, 1, ["a,1,1,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1])
    for _ in range(5):
        child = subprocess.run([sys.executable, "-c", READ, settings.root], capture_output=True, text=True, check=False)
        assert (child.returncode, child.stdout.split()) == (0, ["1", "False"]), child.stderr


def test_a_log_that_spark_began_goes_on_and_spark_reads_it(spark, settings):
    path = settings.path("ops", "tried")
    frame = spark.createDataFrame([("a", 1, MOMENT)], "table string, number bigint, at timestamp")
    delta_writes.append(frame, path, partition_by=["table"])
    wider = [("table", pa.string()), ("number", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("more", pa.list_(pa.string()))]
    rows = pa.Table.from_pylist([{"table": "b", "number": 2, "at": MOMENT, "more": ["x"]}], pa.schema(wider))
    delta.append_arrow(rows, path, partition_by=["table"], user_metadata="what it was")
    read = spark.read.format("delta").load(path).orderBy("number")
    assert [(row["table"], row["number"], row["more"]) for row in read.collect()] == [("a", 1, None), ("b", 2, ["x"])]
    assert read.selectExpr("count(distinct at)").first()[0] == 1
    newest = spark.sql(f"describe history delta.`{path}` limit 1").first()
    assert newest["userMetadata"] == "what it was"


WRITE = """
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
place, table = sys.argv[1:]
settings = Settings(root=place, landing=place, dagster_home=Path(place))
at = datetime(2024, 1, 1, tzinfo=UTC)
for number in range(10):
    start = at + timedelta(days=number)
    logs.record_extractions(settings, [ExtractionRecord(table, start, 1, "f", 1, ("v",), number, "run", at)])
"""


@pytest.mark.exhaustive(seconds=12)
def test_processes_that_append_at_once_lose_nothing(settings):
    children = [subprocess.Popen([sys.executable, "-c", WRITE, settings.root, name]) for name in "abcd"]
    assert [child.wait(300) for child in children] == [0] * 4
    for name in "abcd":
        assert [record.bronze_version for record in logs.extractions(settings, name)] == list(range(10))


def test_records_are_ordered_and_read_back_completely(settings):
    """Types, spellings and what a batch added to the contract are read as they were written."""
    record = ExtractionRecord("readings", MOMENT, 1, "print", 1, ("a",), 0, "run", MOMENT)
    later = replace(record, extraction_seq=2, types={"a": "int"}, respelled={"a": "A"}, reading="{}")
    for each in (record, later):
        logs.record_extractions(settings, [each])
    later = replace(later, extracted_at=MOMENT + timedelta(microseconds=1))
    assert logs.extractions(settings, "readings") == [record, later]
    decision = logbook.decided(1)
    logs.log_decisions(settings, [decision])
    logs.log_decisions(settings, [replace(decision, number=2, evolved={"b": "date"})])
    assert [d.evolved for d in logs.decisions(settings, "readings")] == [{}, {"b": "date"}]


def test_evidence_of_some_decisions_equals_the_full_log(settings):
    """One without any, one that was superseded, one whose deferred checks were logged afterwards, two tables."""
    full = {"drift": {"action": "hold"}, "profiles": ({"feature": "value"},)}
    first, second = logbook.decided(1, **full), logbook.decided(2, checks=())
    superseded = replace(first, number=2, superseded_by=second.decision_id, checks=(), drift=None, profiles=())
    late = logbook.decided(3, **full)
    decisions = [first, second, superseded, late, logbook.decided(4)]
    logbook.write(settings, decisions, applied=False)
    logbook.write(settings, [logbook.decided(1, "others", **full)])
    outcome = Outcome("freshness", "freshness", "info", "failed", "none", 2, "old")
    logs.log_checked(settings, [(late, [outcome])])
    logbook.apply(settings, [first, second, late])
    all_decisions = logs.decisions(settings, "readings", evidence=True)
    plain = logs.decisions(settings, "readings")
    assert [bool(d.checks or d.drift or d.profiles) for d in plain] == [False] * 5
    assert logs.with_evidence(settings, "readings", plain) == all_decisions
    assert logs.with_evidence(settings, "readings", [plain[3], plain[0]]) == [all_decisions[3], all_decisions[0]]
    assert [check["check"] for check in all_decisions[3].checks] == ["not_empty", "value_in_range", "freshness"]
    assert logs.with_evidence(settings, "readings", []) == []
