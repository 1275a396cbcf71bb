"""A gate over Spark Connect: a server of its own, and a client process without a JVM.

Belongs here: what docs/frames.md says of Spark Connect. Does not: the same calls on a classic session (the other files here).
"""

import json
import os
import socket
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from lakehouse_assets.storage.jars import JARS
from lakehouse_assets_tests.e2e.servers import SPARK_CLASS, free_port, process, wait_for
from lakehouse_assets_tests.support import FAST_COMPILER, PROJECT_ROOT, rows_of

SERVER = {
    "spark.jars": ",".join(map(str, sorted(JARS.glob("*.jar")))),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
CLIENT = """
import json, sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from lakehouse_assets import Gate
from lakehouse_assets.errors import LakehouseError

address, folder = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
path, bad, log = f"{folder}/orders", f"{folder}/bad", f"{folder}/log"
gate = Gate.from_dict({
    "name": "orders", "key": ["id"], "last_modified": "v",
    "checks": [
        {"check": "in_range", "column": "v", "min": 0},
        {"check": "sql", "name": "small", "sql": "select * from batch where v > 100"},
        {"check": "foreign_key", "columns": ["id"], "table": "known", "to": ["id"]},
    ],
    "drift": {"features": ["v"], "cold_start": "learn"},
})
few = {"check": "row_count", "max": 50}
plain = Gate.from_dict({"name": "orders", "key": ["id"], "checks": [few], "drift": {"features": ["v"]}})
with_staging = {"staging": f"{folder}/staging", "tables": {"known": spark.range(100)}}
frame = spark.createDataFrame([(1, 1), (1, 2), (2, -1), (3, 5)], "id bigint, v bigint")
many = spark.range(300).selectExpr("id", "id % 7 as v", "id % 30 as day")
answers = {}


def error_of(call):
    try:
        call()
    except LakehouseError as error:
        return f"{type(error).__name__}: {error}"


with gate.check(frame, window="2024-05-01", log=log, **with_staging) as result:
    answers["counts"] = vars(result.counts)
    answers["rows"] = [sorted(map(tuple, rows.select("id", "v").collect())) for rows in (result.clean, result.superseded)]
    answers["quarantined"] = [(r["id"], [each["check"] for each in r["_reasons"]]) for r in result.quarantined.collect()]
    answers["markdown"] = "in\\\\_range\\\\_v" in result.markdown
answers["logged"] = len(gate.baseline(log).baseline)
for mode in ("append", "merge", "overwrite"):
    with gate.publish(frame, path, mode, quarantine=bad, **with_staging) as result:
        answers[mode] = result.version
answers["blocked"] = error_of(lambda: plain.publish(many.select("id", "v"), path, staging=folder))
with plain.guard(path, spark=spark, staging=folder) as guard:
    frame.where("v = 5").write.format("delta").mode("append").save(path)
answers["guard"] = [guard.judged, guard.after.verdict]
answers["windows"] = len(plain.baseline(many, by="day").baseline)
answers["versions"] = len(plain.baseline(path, spark=spark).baseline)
answers["drift"] = plain.compare(many.selectExpr("id", "v + 20 as v"), plain.baseline(many, by="day")).action
answers["draft"] = "in_range" in Gate.suggest(many)
answers["without"] = error_of(lambda: plain.check(frame))
answers["stream"] = error_of(lambda: plain.check(spark.readStream.format("rate").load(), staging=folder))
broken = spark.range(9).select("id", F.when(F.col("id") == 3, F.raise_error(F.lit("x"))).otherwise(F.col("id")).alias("v"))
answers["broken"] = error_of(lambda: plain.check(broken, staging=folder))
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
answers["zone"] = error_of(lambda: plain.check(frame, staging=folder))
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.conf.set("spark.sql.ansi.enabled", "false")
answers["ansi"] = error_of(lambda: plain.check(frame, staging=folder))
from pyspark import SparkContext
import gc
from pyspark.sql.connect.session import SparkSession as Session
answers["sessions"] = [each is spark for each in gc.get_objects() if isinstance(each, Session) and not each.is_stopped]
answers["jvm"] = SparkContext._gateway is not None
json.dump(answers, open(f"{folder}/answers.json", "w"), default=str)
"""


@contextmanager
def connect_server(home: Path):
    """The address of a server that ends with the block."""
    port = free_port()
    java = {"spark.driver.extraJavaOptions": FAST_COMPILER, "spark.sql.warehouse.dir": str(home / "warehouse")}
    settings = SERVER | java | {"spark.connect.grpc.binding.port": str(port), "spark.local.dir": str(home / "local")}
    arguments = [text for key, value in settings.items() for text in ("--conf", f"{key}={value}")]
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [str(SPARK_CLASS), "org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", *arguments]
    log = home / "server.log"
    with process([*command, "--class", name, "spark-internal"], log) as server:
        wait_for(lambda: _answers(port), [server], log)
        yield f"sc://127.0.0.1:{port}"


def _answers(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.exhaustive(seconds=90)
def test_every_call_works_without_a_jvm_in_the_process(tmp_path):
    pytest.importorskip("grpc_status", reason="needs the client's packages: pip install 'pyspark[connect]'")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LAKEHOUSE", "DAGSTER", "SPARK"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(PROJECT_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with connect_server(tmp_path) as address:
        command = [sys.executable, "-c", CLIENT, address, str(tmp_path)]
        client = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
    assert client.returncode == 0, client.stderr[-3000:]
    answers = json.loads((tmp_path / "answers.json").read_text())
    counts = {name: answers["counts"][name] for name in ("rows_in", "rows_published", "rows_superseded", "rows_quarantined")}
    assert counts == {"rows_in": 4, "rows_published": 2, "rows_superseded": 1, "rows_quarantined": 1}
    assert answers["rows"] == [[[1, 2], [3, 5]], [[1, 1]]]
    assert answers["quarantined"] == [[2, ["in_range_v"]]]
    assert answers["sessions"] == [True], "at the end of the process, PySpark waits for those that are left"
    assert (answers["markdown"], answers["logged"], answers["jvm"]) == (True, 1, False)
    assert [answers[mode] for mode in ("append", "merge", "overwrite")] == [0, 1, 2]
    assert sorted((row["id"], row["v"]) for row in rows_of(str(tmp_path / "orders"))) == [(1, 2), (3, 5), (3, 5)]
    assert len(rows_of(str(tmp_path / "bad"))) == 3
    assert answers["blocked"].startswith("QuarantinedError: orders: quarantined")
    assert answers["guard"] == ["the rows that version 3 appended", "published"]
    assert (answers["windows"], answers["versions"], answers["drift"], answers["draft"]) == (30, 3, "hold", True)
    assert list(tmp_path.rglob("lakehouse-gate-*")) == []
    assert "pass `staging=`" in answers["without"]
    assert answers["stream"].startswith("RefusedError: the frame is a stream")
    assert answers["broken"].startswith("SourceError: the frame cannot be read")
    assert answers["zone"].startswith(
        "EnvironmentMissing: this Spark Connect session has spark.sql.session.timeZone=Asia/Tokyo"
    )
    assert answers["ansi"].startswith("EnvironmentMissing: this Spark Connect session has spark.sql.ansi.enabled=false")
