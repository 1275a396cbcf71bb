"""One Spark session a run in a process that stays: nothing of a run is left for the next one.

Belongs here: a session of a run's own, giving back what it left in Spark, and what an interrupt leaves. Does not: a session's
properties (session), or whose turn it is (orchestration/workers).
"""

import ctypes
import gc
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.clientserver import ClientServerConnection
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakehouse_assets.storage.java import java_class

END_SECONDS = 5.0
# As py4j logs it, with a traceback, by the root logger.
INTERRUPT_OF_PY4J = "KeyboardInterrupt while sending command."
_send = ClientServerConnection.send_command


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
    java.sc().setLocalProperties(java_class(jvm, "java.util.Properties")())
    # Tables are read from their logs again, as a new process does.
    java_class(jvm, "org.apache.spark.sql.delta.DeltaLog").clearCache()


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


def close_interrupted_calls() -> None:
    """Let a call to Java that an interrupt breaks off close its connection. Its answer is still to come: the next call of the
    thread would wait for it, and take it for its own. The interrupt is raised, and py4j no longer logs it as an error.
    """
    ClientServerConnection.send_command = _send_or_close  # type: ignore[reportAttributeAccessIssue]
    logging.getLogger().addFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return record.msg != INTERRUPT_OF_PY4J


def _send_or_close(connection: ClientServerConnection, command: str) -> Any:
    try:
        return _send(connection, command)
    except Exception:
        raise  # py4j closes it
    except BaseException:
        connection.close()
        raise


def end_jobs() -> None:
    """Cancel this process's jobs, and wait a few seconds for their tasks. Java would log an error of each task that still runs
    when the session stops; it logs nothing from now on.
    """
    context = SparkContext._active_spark_context
    if context is None:
        return
    with suppress(Exception):  # a Java that has died has no task either
        context.setLogLevel("OFF")
        context.cancelAllJobs()
        java: Any = context._jsc
        end = time.monotonic() + END_SECONDS
        while time.monotonic() < end and any(each.numRunningTasks() for each in java.sc().statusTracker().getExecutorInfos()):
            time.sleep(0.05)


def kill_java() -> None:
    """End this process's Java at once."""
    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.kill()
