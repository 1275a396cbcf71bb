"""The Spark session: its properties, and its start. As a program, it fetches the jars that the environment's settings need.

Belongs here: how Spark is configured. Does not: Java (java), which jars there are (jars), who starts a session, or properties
within a block (session_properties).
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark import SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from lakehouse_assets.errors import ConfigError, EnvironmentMissing
from lakehouse_assets.object_store import ObjectStore
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import jars
from lakehouse_assets.storage.java import JAVA_OPTIONS, class_archive_option, java_class, require_java
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.log_store import JAR, log_store_properties
from lakehouse_assets.storage.session_reset import close_interrupted_calls
from lakehouse_assets.storage.sql_functions import register_functions

LOG4J = Path(__file__).with_name("log4j2.properties")
CLASS_PATH = "spark.driver.extraClassPath"
# PySpark writes each error that SQL meets to the standard error, with the value; it is raised as well, which is enough.
QUOTING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# Java's classes, each with the functions of it.
OFTEN_LOOKED_UP = {
    "functions": ("col", "lit"),
    "org.apache.spark.sql.functions": ("col", "lit", "expr"),
    "PythonUtils": ("toSeq",),
    "PythonSQLUtils": (),
    "org.apache.spark.sql.classic.SparkSession": (),
}


def spark_properties(settings: Settings) -> dict[str, str]:
    """Return Spark's properties: ours, then those of ``LAKEHOUSE_SPARK_CONF`` (``key value`` lines), which win."""
    own_properties = _read_properties(settings.spark_conf) if settings.spark_conf else {}
    paths = jars.find_jars(settings)
    properties = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Small tables: one snapshot partition is the largest single win (MERGE 4.5 s -> 1.8 s).
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "8",
        # Spark makes a program of each query. A window takes some 130: of the default, 100, none would be left for the next.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # How many tasks VACUUM lists folders in, however few: Spark's default is ten thousand.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.csv.parser.columnPruning.enabled": "false",
        # Spark's default, INT96, takes longer to write and keeps no statistics.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Nearly every row has another one: a dictionary of them would be filled and thrown away.
        "spark.hadoop.parquet.enable.dictionary#_content_hash": "false",
        # Times to the nanosecond, of which Spark has none, come as numbers; sources/parquet_files makes times of them.
        "spark.sql.legacy.parquet.nanosAsLong": "true",
        # Which line of Python made each column, for errors: ours name the check and the column, and to note it is a twelfth of
        # a small run.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.dataFrameQueryContext.enabled": "false",
        "spark.ui.enabled": "false",
        # Spark makes a text of each query's plan for its pages, whether there are pages or not: this one is the shortest.
        "spark.sql.ui.explainMode": "simple",
        # Spark keeps what its own pages would show of the last thousand queries and jobs, pages or not: in a run of many
        # windows that is most of what lives in Java, and nobody reads it.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.showConsoleProgress": "false",
        # Spark's own pattern, and the property of Kafka's client that holds a password.
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|account[.]key|jaas",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.pyspark.python": sys.executable,
        # Spark makes methods of a staging that are too long for Java to compile, unless it is told to.
        JAVA_OPTIONS: f"-XX:-DontCompileHugeMethods -Duser.timezone=UTC -Dlog4j2.configurationFile=file:{LOG4J}"
        f"{class_archive_option()}",
    }
    if jars.jars_in(jars.JARS):
        properties["spark.jars"] = ",".join(paths)
    else:
        properties["spark.jars.packages"] = jars.DELTA.packages[0]
    properties |= _local_files(settings, own_properties)
    properties |= ObjectStore.from_environment().hadoop(settings.root, settings.landing)
    has_own_jars = bool(own_properties.keys() & {"spark.jars", "spark.jars.packages"})
    if for_stores := jars.find_store_jars(settings, is_optional=has_own_jars):
        properties["spark.jars"] = ",".join([*paths, *for_stores])
    return _with_own(_with_log_store(properties) if settings.is_leased else properties, own_properties)


def _with_log_store(properties: Mapping[str, str]) -> dict[str, str]:
    return {**properties, **log_store_properties(), "spark.jars": _join(properties, str(JAR))}


def _with_own(properties: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    joined = {"spark.jars": _join(properties, own["spark.jars"])} if "spark.jars" in own else {}
    return {**properties, **own, **joined}


def _join(properties: Mapping[str, str], theirs: str) -> str:
    return ",".join(jars.join_jars(properties.get("spark.jars", ""), theirs))


def _local_files(settings: Settings, own_properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties of the faster local file system: for a local master, if the jar is there when Java starts."""
    paths = jars.jars_in(jars.JARS_FOR_LOCAL)
    starts_java = SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ
    if not paths or not starts_java or not settings.spark_master.startswith("local") or CLASS_PATH in own_properties:
        return {}
    return {CLASS_PATH: ":".join(paths), "spark.hadoop.fs.file.impl": jars.LOCAL_FILE_SYSTEM}


def _read_properties(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise EnvironmentMissing(f"LAKEHOUSE_SPARK_CONF names {path}, which is not a file")
    properties = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, *value = re.split(r"\s*=\s*|\s+", line.strip(), maxsplit=1)
        if not value:
            raise ConfigError(f"{path}:{number}: {key}: a Spark property needs a value (`spark.key value`)")
        properties[key] = value[0]
    return properties


def build_session(settings: Settings, name: str = "lakehouse", java_options: str = "") -> SparkSession:
    """Return this process's session, started if there is none. ``java_options``: of a Java that is started, besides ours,
    unless a person sets others. Raises EnvironmentMissing without a supported Java.
    """
    if SparkContext._active_spark_context is None:
        require_java()
    close_interrupted_calls()
    for name_of_logger in QUOTING_LOGGERS:
        PySparkLogger.getLogger(name_of_logger).disabled = True
    builder = SparkSession.builder.master(settings.spark_master).appName(name)
    ours = spark_properties(settings)
    is_own = settings.spark_conf is not None and JAVA_OPTIONS in _read_properties(settings.spark_conf)
    for key, value in ours.items():
        builder = builder.config(key, f"{value} {java_options}".strip() if key == JAVA_OPTIONS and not is_own else value)
    with _own_handler_of_ctrl_c():
        session = builder.getOrCreate()
    # Java logs by our file, even if a person's properties or another starter of the JVM set other options.
    jvm: Any = session.sparkContext._jvm
    configurator = java_class(jvm, "org.apache.logging.log4j.core.config.Configurator")
    configurator.reconfigure(java_class(jvm, "java.net.URI")(LOG4J.as_uri()))
    _keep_classes(jvm)
    session.sparkContext.setLogLevel("ERROR")
    register_functions(session)
    if settings.is_leased:
        guards.announce_guards(settings)
    return session


def _keep_classes(jvm: Any) -> None:
    """Keep what PySpark looks up at each of its calls, where it looks first: a run of one window asks Java some
    600 times fewer.
    """
    for name, members in OFTEN_LOOKED_UP.items():
        entry_point = java_class(jvm, name)
        if isinstance(entry_point, JavaClass):
            setattr(jvm, name, entry_point)
            for member in members:
                setattr(entry_point, member, getattr(entry_point, member))


@contextmanager
def _own_handler_of_ctrl_c() -> Iterator[None]:
    """Keep the process's handler of Ctrl-C. PySpark's own cancels all jobs, by a call to Java from within the call that it
    interrupts. Python refuses that in the middle of a read, and prints tracebacks.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


if __name__ == "__main__":
    jars.fetch_jars(Settings.from_environment())
