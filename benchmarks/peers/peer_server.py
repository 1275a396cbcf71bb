"""A peer's side of the pipe: it reads a job, warms up, measures on request and reports the result.

Belongs here: reading the job, Spark as the job says, the clock, the answers. Does not: any tool. It needs PySpark alone, since
it runs in the peers' environments.

The job is a line of JSON: `path` (Parquet), `columns`, `rules` (as the project's YAML has them, each with an `id`), `spark`
(properties). Each further line asks for one measurement; its answer is `{seconds, cpu, failing}`, the last of which has the
failing rows of each rule. Answers go to the first standard output; what the tool prints goes to the second.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Failing = dict[str, int]
Measure = Callable[[], Failing]
# Given the session, the rows and the rules: what measures once.
Prepare = Callable[[SparkSession, DataFrame, list[dict[str, Any]]], Measure]
TRY = [
    {"id": "a", "check": "not_null", "column": "v"},
    {"id": "b", "check": "in_range", "column": "v", "min": 0, "max": 1},
    {"id": "c", "check": "in_set", "column": "s", "values": ["x", "yy"]},
    {"id": "d", "check": "length", "column": "s", "min": 1, "max": 1},
    {"id": "e", "check": "matches", "column": "s", "pattern": "^[xy]+$"},
    {"id": "f", "check": "unique", "columns": ["v", "s"]},
]
ROWS = [(0.5, "x"), (0.5, "x"), (2.0, "yy"), (None, "z")]
TRIED = {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 2}


def serve(prepare: Prepare, jars: Mapping[str, str] | None = None) -> None:
    """Answer until the input ends. With `--try`, measure four rows once and see that the numbers are right. ``jars``: Spark's
    properties by which the tool's own are found.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    job = {"spark": {"spark.driver.memory": "1g", "spark.master": "local[1]"}} if "--try" in sys.argv else json.loads(input())
    spark = _session(job["spark"] | _jar_properties(jars or {}))
    if "--try" in sys.argv:
        counts = prepare(spark, spark.createDataFrame(ROWS, "v double, s string"), TRY)()
        spark.stop()
        if counts != TRIED:
            raise SystemExit(f"four rows: found {counts}, not {TRIED}")
        return
    measure = prepare(spark, spark.read.parquet(job["path"]).select(*job["columns"]), job["rules"])
    for _ in sys.stdin:
        spark.catalog.clearCache()
        spark._jvm.java.lang.System.gc()
        used, began = _cpu(spark), time.perf_counter()
        failing = measure()
        seconds = time.perf_counter() - began
        answers.write(json.dumps({"seconds": seconds, "cpu": _cpu(spark) - used, "failing": failing}) + "\n")
    spark.stop()


def _jar_properties(jars: Mapping[str, str]) -> dict[str, str]:
    """Where the tool's jars are: in the environment, once it is made; until then they are fetched into it."""
    folder = Path(sys.prefix) / "ivy"
    there = sorted(str(jar) for jar in (folder / "jars").glob("*.jar"))
    return {"spark.jars": ",".join(there)} if there else {**jars, "spark.jars.ivy": str(folder)}


def _session(properties: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName("peer")
    for key, value in properties.items():
        builder = builder.config(key, value)
    session = builder.config("spark.ui.enabled", "false").config("spark.pyspark.python", sys.executable).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _cpu(spark: SparkSession) -> float:
    spent = spark._jvm.java.lang.ProcessHandle.current().info().totalCpuDuration().get()
    return spent.toMillis() / 1000 + time.process_time()
