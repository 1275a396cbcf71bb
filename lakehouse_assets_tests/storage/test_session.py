"""The session's properties: what a local master has that another has not, and what a user's own file overrides.

Belongs here: which properties are given, and whose handler of Ctrl-C stays. Does not: what Spark does by them (the other
rooms' tests run on them).
"""

import os
import signal

import pytest
from py4j.java_gateway import JVMView
from pyspark import SparkContext
from pyspark.sql import functions as F

from lakehouse_assets.storage import jars, session

FILE_SYSTEM = "spark.hadoop.fs.file.impl"


@pytest.fixture
def before_java(monkeypatch, tmp_path):
    """As in a process that has no JVM yet, with the jar in its place."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    (tmp_path / "local.jar").touch()
    monkeypatch.setattr(jars, "JARS_FOR_LOCAL", tmp_path)


def test_a_new_session_leaves_the_handler_of_ctrl_c():
    """PySpark's context sets one that cancels all jobs, from within the call to Java that it interrupts."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        with session._own_handler_of_ctrl_c():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGINT) == handler
    finally:
        signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("before_java")
def test_local_files_are_created_without_child_processes(settings, tmp_path):
    properties = session.spark_properties(settings)
    assert properties[session.CLASS_PATH] == str(tmp_path / "local.jar")
    assert properties[FILE_SYSTEM] == jars.LOCAL_FILE_SYSTEM


@pytest.mark.usefixtures("before_java")
@pytest.mark.parametrize("why", ["cluster", "class path", "no jar", "java of others", "java"])
def test_but_not_where_java_would_not_know_the_class(settings, monkeypatch, tmp_path, why):
    if why == "cluster":
        settings = settings.model_copy(update={"spark_master": "spark://127.0.0.1:7077"})
    elif why == "class path":
        conf = tmp_path / "spark.conf"
        conf.write_text(f"{session.CLASS_PATH} /their.jar\n")
        settings = settings.model_copy(update={"spark_conf": conf})
    elif why == "no jar":
        monkeypatch.setattr(jars, "JARS_FOR_LOCAL", tmp_path / "none")
    elif why == "java of others":
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    else:
        monkeypatch.setattr(SparkContext, "_gateway", object())
    assert FILE_SYSTEM not in session.spark_properties(settings)


def test_the_tests_themselves_run_on_it(spark, tmp_path):
    """Files and folders have the permissions that the mask asks for, links to files are read whole."""
    if not list(jars.JARS_FOR_LOCAL.glob("*.jar")):
        pytest.fail("the environment has no jar of the local file system: run scripts/setup.sh")
    assert spark.sparkContext.getConf().get(FILE_SYSTEM) == jars.LOCAL_FILE_SYSTEM
    table_path = tmp_path / "t"
    spark.createDataFrame([("a", 1), ("b", 2)], "p string, v int").write.partitionBy("p").json(str(table_path))
    files = [path for path in table_path.rglob("*") if not path.name.startswith((".", "_"))]
    mask = os.umask(0)
    os.umask(mask)
    assert {oct(path.stat().st_mode & 0o777) for path in files if path.is_file()} == {oct(0o666 & ~0o022 & ~mask)}
    link = tmp_path / "link.json"
    link.symlink_to(next(path for path in files if path.is_file()))
    assert len(spark.read.json(str(link)).collect()) == 1


def test_java_is_not_asked_again_for_what_each_column_needs(spark, monkeypatch):
    lookup, lookups = JVMView.__getattr__, []
    monkeypatch.setattr(JVMView, "__getattr__", lambda view, name: [lookups.append(name), lookup(view, name)][1])
    rows = spark.range(3).select((F.col("id") + F.lit(1)).alias("n"), F.expr("id * 2"), F.coalesce("id", F.lit(0)))
    assert [row["n"] for row in rows.select("n").collect()] == [1, 2, 3]
    assert set(lookups).isdisjoint(session.OFTEN_LOOKED_UP)
