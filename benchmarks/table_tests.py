"""What a table's own test takes in a warm session: `python -m benchmarks.table_tests [ROUNDS]`. Seconds of the clock and of
processors, and Spark jobs.

Belongs here: the example's tests and one test of each other kind, each run several times. Does not: what a test means
(lakehouse_assets/testing).

As `lakehouse test`, it starts one session and runs all tests in their order. The first round is also that command's, for a
JVM that has compiled little. Each later figure is the median of the other rounds. On a busy machine, trust the processor
more than the clock.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.java import FAST_COMPILER
from lakehouse_assets.storage.session import build_session
from lakehouse_assets.testing.table_tests import DeclaredTest, find_table_tests, run_table_test

EXTRACTION = {"cadence": "daily", "start": "2024-01-01"}
READINGS: dict[str, Any] = {
    "name": "readings",
    "source": {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv"},
    "extraction": EXTRACTION,
    "key": ["sensor", "at"],
    "last_modified": "at",
    "columns": {"sensor": "string", "at": "timestamp", "value": "double", "unit": "string"},
    "checks": [{"check": "in_range", "column": "value", "min": 0, "max": 100}],
}
BATCH_CHECKS = [
    {"check": "distinct_count", "columns": ["sensor"], "max": 9},
    {"check": "row_count", "min": 1, "max": 9},
    {"check": "null_share", "column": "unit", "max": 0.9},
    {"check": "sql", "name": "own_day", "sql": "select * from batch where at < :window_start or at >= :window_end"},
    {"check": "unique", "columns": ["unit", "value"], "severity": "warning"},
]
LOOKS_UP = {"check": "foreign_key", "columns": ["sensor"], "table": "sensors"}
SENSORS = {
    **{name: READINGS[name] for name in ("source", "extraction")},
    "name": "sensors", "key": ["sensor"], "columns": {"sensor": "string", "site": "string"},
}  # fmt: skip
GOLD = {
    "name": "site_means", "sql": "site_means.sql", "key": ["site"],
    "checks": [
        {"check": "not_null", "column": "site"},
        {"check": "sql", "name": "means", "sql": "select * from batch where mean is null"},
    ],
}  # fmt: skip
SITE_MEANS = "SELECT site, avg(value) AS mean FROM silver_readings JOIN silver_sensors USING (sensor) GROUP BY site"
FIRST = [
    {"sensor": "a", "at": "2024-01-01T01:00:00Z", "value": 1, "unit": "K"},
    {"sensor": "b", "at": "2024-01-01T02:00:00Z", "value": 500, "unit": "K"},
    {"sensor": "c", "at": "2024-01-01T03:00:00Z", "value": "x", "unit": "K"},
]
SECOND = [
    {"sensor": "a", "at": "2024-01-02T01:00:00Z", "value": 2, "unit": "m"},
    {"sensor": "a", "at": "2024-01-02T01:00:00Z", "value": 3, "unit": "m"},
]
KNOWN_SENSORS = {"sensors": [{"sensor": "a", "site": "s"}]}
FAILING = {2: ["in_range_value"], 3: ["cast_value"]}
# Kind of test → changes of the table, and its test.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "row checks": ({}, {"batches": [{"rows": FIRST, "failing_rows": FAILING}]}),
    "upsert, two windows, silver": ({}, {"batches": [{"rows": FIRST}, {"rows": SECOND}], "silver": [{"sensor": "a"}] * 2}),
    "batch checks": ({"checks": BATCH_CHECKS}, {"batches": [{"rows": FIRST, "reasons": ["cast_value"]}]}),
    "append": (
        {"key": [], "extraction": {**EXTRACTION, "mode": "append"}},
        {"batches": [{"rows": FIRST}], "silver": [{"sensor": "a"}]},
    ),
    "snapshots": (
        {"key": ["sensor"], "extraction": {**EXTRACTION, "mode": "snapshot"}},
        {"batches": [{"rows": FIRST[:1]}, {"rows": SECOND[:1]}], "silver": [{"value": 2}]},
    ),
    "deletes": (
        {"key": ["sensor"], "extraction": {**EXTRACTION, "delete_when": "value = 2"}},
        {"batches": [{"rows": FIRST[:1]}, {"rows": SECOND[:1]}], "silver": []},
    ),
    "surrogate key": (
        {"surrogate_key": {"name": "sk", "from": ["sensor"]}},
        {"batches": [{"rows": FIRST}], "silver": [{"sensor": "a"}]},
    ),
    "foreign key": (
        {"checks": [LOOKS_UP]},
        {"batches": [{"rows": FIRST[:2], "failing_rows": {2: ["foreign_key_sensor"]}}], "tables": KNOWN_SENSORS},
    ),
    "gold of two tables": (
        {"gold": [GOLD]},
        {
            "batches": [{"rows": FIRST[:1]}, {"rows": SECOND[:1]}],
            "tables": KNOWN_SENSORS,
            "gold": {"site_means": {"verdict": "published", "rows": [{"site": "s", "mean": 1.5}]}},
        },
    ),
    "drift and gold": (
        {"gold": [GOLD], "drift": {"features": ["value", "unit"]}, "checks": [*READINGS["checks"], *BATCH_CHECKS]},
        {
            "batches": [{"rows": FIRST[:1], "verdict": "published"}],
            "tables": KNOWN_SENSORS,
            "silver": [{"value": 1}],
            "gold": {"site_means": {"rows": [{"site": "s", "mean": 1}]}},
        },
    ),
}  # fmt: skip


def made_up_tests(folder: Path) -> list[tuple[str, DeclaredTest]]:
    """Write a project of its own for each kind, and return its test."""
    tests = []
    for number, (kind, (changes, test)) in enumerate(KINDS.items()):
        project = folder / f"tables{number}"
        for spec in (READINGS | changes, SENSORS):
            table = project / spec["name"]
            table.mkdir(parents=True)
            contract = {"type": "lakehouse_assets.LakehouseTable", "attributes": spec}
            (table / "defs.yaml").write_text(json.dumps(contract))
        (project / "readings" / "site_means.sql").write_text(SITE_MEANS)
        (project / "readings" / "tests.yaml").write_text(json.dumps({"tests": [{"name": "t", **test}]}))
        (declared,) = find_table_tests(project)
        tests.append((kind, declared))
    return tests


def _cpu(spark: Any) -> float:
    """Processor seconds of this process and of the session's JVM so far."""
    spent = spark._jvm.java.lang.ProcessHandle.current().info().totalCpuDuration().get()
    return spent.toMillis() / 1000 + time.process_time()


def main() -> int:
    """Run all tests in each round, and print the first time and the median of the others. A test that fails ends it."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    out = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    with tempfile.TemporaryDirectory(prefix="lakehouse-tests-") as name:
        home = Path(name)
        tests = [*((each.test.name, each) for each in find_table_tests()), *made_up_tests(home)]
        settings = Settings(root=str(home / "lake"), landing=str(home), dagster_home=home)
        spark = build_session(settings, "lakehouse test", FAST_COMPILER)
        seconds: dict[str, list[float]] = {kind: [] for kind, _ in tests}
        used: dict[str, list[float]] = {kind: [] for kind, _ in tests}
        jobs: dict[str, int] = {}
        for number in range(rounds + 1):
            for kind, declared in tests:
                group = f"{kind} {number}"
                spark.sparkContext.setJobGroup(group, kind)
                began, before = time.monotonic(), _cpu(spark)
                differences = run_table_test(spark, declared)
                seconds[kind].append(time.monotonic() - began)
                used[kind].append(_cpu(spark) - before)
                if differences:
                    raise SystemExit(f"{kind}: {differences}")
                jobs[kind] = len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
        spark.stop()
    table = Table(
        "Test", "First, s", "Median, s", "Longest, s", "Processor, s", "Spark jobs", title=f"{rounds} rounds after the first"
    )
    for kind, times in seconds.items():
        shown = (times[0], median(times[1:]), max(times[1:]), median(used[kind][1:]))
        table.add_row(kind, *(f"{each:.2f}" for each in shown), str(jobs[kind]))
    out.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
