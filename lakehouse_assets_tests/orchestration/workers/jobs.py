"""Definitions of the small project, with jobs that do to their process what a run should not.

Belongs here: definitions that a worker loads. Does not: any test.
"""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import dagster as dg

from lakehouse_assets.definitions import build_definitions
from lakehouse_assets.orchestration import spark as resource
from lakehouse_assets.orchestration.spark import SPARK, session_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.session_reset import kill_java

CONF, VARIABLE = "spark.sql.shuffle.partitions", "LEFT_BY_A_RUN"
KILL_AT = Path("kill_at")
MOMENTS = 0.15  # seconds into what follows a point with a +


def _killed_at(step: Any) -> Any:
    """A run's step, after which the process and its Java are killed, once, where the file says so; with a + some moments later,
    in the middle of what follows.
    """

    def kill() -> None:
        kill_java()
        os.kill(os.getpid(), signal.SIGKILL)

    def reached(name: str) -> None:
        step(name)
        point = KILL_AT.read_text() if KILL_AT.exists() else ""
        if point.rstrip("+") == name:
            KILL_AT.unlink()
            if point == name:
                kill()
            threading.Timer(MOMENTS, kill).start()

    return reached


_values = resource.run_values
resource.run_values = lambda *args: (values := _values(*args)) | {"step": _killed_at(values["step"])}  # type: ignore[assignment]


@dg.op
def sleep() -> None:
    """It can be interrupted."""
    time.sleep(600)


@dg.op
def sleep_on() -> None:
    """It cannot."""
    end = time.monotonic() + 600
    while time.monotonic() < end:
        try:
            time.sleep(600)
        except BaseException:
            Path("interrupted").touch()


@dg.op(required_resource_keys={SPARK})
def sleep_in_java(context: dg.OpExecutionContext) -> None:
    """Java works on."""
    spark = session_of(context)
    spark._jvm.java.lang.Thread.sleep(600_000)


@dg.op(required_resource_keys={SPARK})
def fill_heap(context: dg.OpExecutionContext) -> None:
    """More than Java has."""
    jvm = session_of(context)._jvm
    heap = jvm.java.util.ArrayList()
    while True:
        heap.add("x".ljust(50_000_000))


@dg.op
def die() -> None:
    """As if the machine had ended it."""
    os.kill(os.getpid(), signal.SIGKILL)


@dg.op(required_resource_keys={SPARK})
def leave_everything(context: dg.OpExecutionContext) -> None:
    """State of every kind."""
    spark = session_of(context)
    spark.conf.set(CONF, "77")
    frame = spark.range(1000).selectExpr("id AS left_by_a_run")
    frame.createOrReplaceTempView("left_by_a_run")
    frame.createOrReplaceGlobalTempView("left_by_a_run")
    frame.cache().count()
    frame.rdd.cache().count()
    spark.udf.register("left_by_a_run", lambda: 1)
    spark.sparkContext.setJobGroup("left_by_a_run", "left_by_a_run")
    os.environ[VARIABLE] = "1"
    os.chdir("/")


@dg.op(required_resource_keys={SPARK})
def find_nothing(context: dg.OpExecutionContext) -> None:
    """What a new process has."""
    spark = session_of(context)
    java = spark.sparkContext._jsc
    assert spark.conf.get(CONF) == "2", spark.conf.get(CONF)
    assert [table.name for table in spark.catalog.listTables()] == []
    assert spark.sql("SHOW VIEWS IN global_temp").collect() == []
    assert not spark.catalog.functionExists("left_by_a_run")
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()
    assert java.getPersistentRDDs().isEmpty()
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    assert VARIABLE not in os.environ
    assert Path("tables").exists()
    context.log.info("a session of its own")


OPS = (sleep, sleep_on, sleep_in_java, fill_heap, die, leave_everything, find_nothing)


def _job(op: Any) -> dg.JobDefinition:
    @dg.job(name=f"to_{op.name}", executor_def=dg.in_process_executor)
    def job() -> None:
        op()

    return job


@dg.definitions
def defs() -> dg.Definitions:
    """The project's tables, and the jobs."""
    return dg.Definitions.merge(build_definitions(Settings.from_environment()), dg.Definitions(jobs=[_job(op) for op in OPS]))
