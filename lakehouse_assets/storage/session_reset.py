"""One Spark session a run in a process that stays: nothing of a run is left for the next one.

Belongs here: a session of a run's own, and giving back what it left in Spark. Does not: a session's properties (session), or
whose turn it is (orchestration/workers).
"""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession


@contextmanager
def session_of_one_run(base: SparkSession) -> Iterator[SparkSession]:
    """Within the block, `build_session` returns a new session: views, properties and functions of its own, as a new process has
    them. Afterwards nothing that the block cached, started or stored in the context is left.
    """
    context, java_session = base.sparkContext, base._jsparkSession
    try:
        yield _make_current(context, java_session.newSession())  # type: ignore[reportOptionalCall]
    finally:
        _give_back(_make_current(context, java_session))


def _make_current(context: SparkContext, java_session: Any) -> SparkSession:
    """Return the session, which is the process's own from now on: PySpark and Java find it."""
    SparkSession._instantiatedSession = None  # as in a process that has none yet
    return SparkSession(context, java_session)


def _give_back(base: SparkSession) -> None:
    context = base.sparkContext
    jvm: Any = context._jvm
    java: Any = context._jsc
    context.cancelAllJobs()
    base.catalog.clearCache()
    for rdd in java.getPersistentRDDs().values():
        rdd.unpersist(False)
    for row in base.sql("SHOW VIEWS IN global_temp").collect():
        base.catalog.dropGlobalTempView(row["viewName"])
    java.sc().setLocalProperties(jvm.java.util.Properties())
    # Tables are read from their logs again, as a new process does.
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def give_memory_back(session: SparkSession) -> None:
    """Let Java and Python return unused memory to the machine, and Spark delete the files of what nobody has any more."""
    jvm: Any = session.sparkContext._jvm
    options = jvm.java.lang.management.ManagementFactory.getPlatformMXBean(
        jvm.java.lang.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
    )
    with suppress(Py4JError):  # another Java, or a collector without them
        options.setVMOption("MinHeapFreeRatio", "5")
        options.setVMOption("MaxHeapFreeRatio", "10")
    jvm.java.lang.System.gc()
    gc.collect()
    with suppress(OSError, AttributeError):  # of glibc alone
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def kill_java() -> None:
    """End this process's Java at once."""
    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.kill()
