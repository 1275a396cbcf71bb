"""The Spark session: its properties, its jars (Delta's; a store's, databases' and Kafka's if used), and the Java check.

Belongs here: how a JVM is configured. Does not: who starts one, what runs on it, or properties within a block
(session_properties).
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from lakehouse_assets.errors import ConfigError, EnvironmentMissing
from lakehouse_assets.object_store import ObjectStore
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.jar_names import join_jars
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.log_store import JAR, log_store_properties
from lakehouse_assets.storage.sql_functions import register_functions

JARS = Path(sys.prefix) / "share" / "lakehouse" / "jars"
JARS_FOR_S3, JARS_FOR_LOCAL = JARS / "s3", JARS / "local"
JARS_FOR_GCS, JARS_FOR_AZURE = JARS / "gcs", JARS / "azure"
JARS_FOR_JDBC, JARS_FOR_KAFKA, JARS_FOR_AVRO = JARS / "jdbc", JARS / "kafka-source", JARS / "avro"


@dataclass(frozen=True, eq=False)
class _JarSet:
    """Jars that a lake needs: those of ``packages`` that match ``ours`` go into the folder. Spark itself has the others."""

    folder: Path
    ours: str
    packages: Sequence[str]
    excludes: str = ""


DELTA = _JarSet(JARS, r"(io\.delta|io\.unitycatalog)_", [f"io.delta:delta-spark_4.1_2.13:{version('delta-spark')}"])
# Hadoop starts a process, `chmod`, for each file and folder that it makes on a local disk; this file system asks Java.
# Writing 720 partitions takes less than half of the processor's time by it.
LOCAL_FILE_SYSTEM = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
LOCAL = _JarSet(JARS_FOR_LOCAL, r"com\.globalmentor_", ["com.globalmentor:hadoop-bare-naked-local-fs:0.1.0"])
# Spark 4.1 brings Hadoop 3.4.2 without S3; its SDK as the parts that are used, and not as one bundle of 641 MB.
_SDK = ("s3", "s3-transfer-manager", "sts", "kms", "apache-client", "netty-nio-client")
S3 = _JarSet(
    JARS_FOR_S3,
    r"(org\.apache\.hadoop_hadoop-aws|org\.reactivestreams_|org\.wildfly|software\.amazon)",
    [
        "org.apache.hadoop:hadoop-aws:3.4.2",
        *(f"software.amazon.awssdk:{part}:2.29.52" for part in _SDK),
        "org.wildfly.openssl:wildfly-openssl:2.1.4.Final",
    ],
    "software.amazon.awssdk:bundle",
)
AZURE = _JarSet(
    JARS_FOR_AZURE,
    r"(org\.apache\.hadoop_hadoop-azure|org\.wildfly)",
    ["org.apache.hadoop:hadoop-azure:3.4.2", "org.wildfly.openssl:wildfly-openssl:2.1.4.Final"],
    # Spark has Apache's client; the other two are for the older `wasb`.
    "org.apache.httpcomponents:httpclient,org.apache.httpcomponents:httpcore,"
    "com.microsoft.azure:azure-storage,com.microsoft.azure:azure-keyvault-core,org.apache.hadoop.thirdparty:hadoop-shaded-guava",
)
POSTGRESQL = _JarSet(JARS_FOR_JDBC, r"org\.postgresql_postgresql-", ["org.postgresql:postgresql:42.7.8"])
MARIADB = _JarSet(JARS_FOR_JDBC, r"org\.mariadb\.jdbc_mariadb-java-client-", ["org.mariadb.jdbc:mariadb-java-client:3.5.10"])
DRIVERS = {"jdbc:postgresql:": POSTGRESQL, "jdbc:mariadb:": MARIADB, "jdbc:mysql:": MARIADB}
# Two of the four are not published for each version of Spark, so that they are asked for by themselves.
_TAGS, _TOKENS = "org.apache.spark:spark-tags_2.13", "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
KAFKA = _JarSet(
    JARS_FOR_KAFKA,
    r"(org\.apache\.spark_spark-sql-kafka|org\.apache\.kafka_kafka-clients|org\.apache\.commons_commons-pool2)",
    ["org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3"],
    f"{_TAGS},{_TOKENS}",
)
KAFKA_TOKENS = _JarSet(JARS_FOR_KAFKA, r"org\.apache\.spark_spark-token-provider-kafka", [f"{_TOKENS}:4.0.0"], _TAGS)
# Of another patch of Spark 4.1, since not each of them is published.
AVRO = _JarSet(JARS_FOR_AVRO, r"org\.apache\.spark_spark-avro", ["org.apache.spark:spark-avro_2.13:4.1.1"], _TAGS)
# What Java loads for Spark, in one piece (scripts/archive_classes.py): by it a session starts in half the time.
CLASSES = JARS.parent / "classes.jsa"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOG4J = Path(__file__).with_name("log4j2.properties")
CLASS_PATH = "spark.driver.extraClassPath"
# Of a Java that lives for seconds: its thorough compiler costs more than it gains.
FAST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
# PySpark writes each error that SQL meets to the standard error, with the value; it is raised as well, which is enough.
QUOTING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def require_java() -> None:
    """Raise EnvironmentMissing, in one line, unless a Java 17 or 21 is on the PATH (or in JAVA_HOME)."""
    advice = "Spark 4.1 needs Java 17 or 21: install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")  # the JVM launcher's own variable, not a setting of this project
    java = (shutil.which("java", path=f"{home}/bin") if home else None) or shutil.which("java")
    if java is None:
        raise EnvironmentMissing(f"java was not found. {advice}")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    if not re.search(r'version "(17|21)\b', answer):
        raise EnvironmentMissing(f"{java} is {answer.splitlines()[0] if answer else 'not a Java'}. {advice}")


def spark_properties(settings: Settings) -> dict[str, str]:
    """Return Spark's properties: ours, then those of ``LAKEHOUSE_SPARK_CONF`` (``key value`` lines), which win."""
    own_properties = _read_properties(settings.spark_conf) if settings.spark_conf else {}
    # Small, and unused without such a source.
    jars = [*_jars(JARS), *_jars(JARS_FOR_JDBC), *_jars(JARS_FOR_KAFKA), *_jars(JARS_FOR_AVRO)]
    jars += [str(jar) for connection in settings.jdbc.values() for jar in connection.jars]
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
        # Times to the nanosecond, of which Spark has none, come as numbers; sources/parquet_files makes times of them.
        "spark.sql.legacy.parquet.nanosAsLong": "true",
        # Which line of Python made each column, for errors: ours name the check and the column, and to note it is a twelfth of
        # a small run.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.dataFrameQueryContext.enabled": "false",
        "spark.ui.enabled": "false",
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
    if _jars(JARS):
        properties["spark.jars"] = ",".join(jars)
    else:
        properties["spark.jars.packages"] = DELTA.packages[0]
    properties |= _local_files(settings, own_properties)
    properties |= ObjectStore.from_environment().hadoop(settings.root, settings.landing)
    has_own_jars = bool(own_properties.keys() & {"spark.jars", "spark.jars.packages"})
    if for_stores := _store_jars(settings, is_optional=has_own_jars):
        properties["spark.jars"] = ",".join([*jars, *for_stores])
    return _with_own(_with_log_store(properties) if settings.is_leased else properties, own_properties)


def _store_jars(settings: Settings, is_optional: bool) -> list[str]:
    """Return the jars of the stores of the lake and of the landing folder. Raises EnvironmentMissing without them."""
    fetched = f"`{Path(sys.executable).name} -m lakehouse_assets.storage.session` fetches them, in this same environment"
    stores = [("S3", settings.on_s3, JARS_FOR_S3, fetched), ("Azure", settings.on_azure, JARS_FOR_AZURE, fetched)]
    # Spark resolves no artifact by its classifier, and only the connector's shaded jar brings its libraries.
    copied = f"copy gcs-connector-hadoop3-2.2.26-shaded.jar to {JARS_FOR_GCS}"
    stores.append(("Google Cloud Storage", settings.on_gcs, JARS_FOR_GCS, copied))
    jars: list[str] = []
    for name, is_used, folder, remedy in stores:
        if is_used and not _jars(folder) and not is_optional:
            raise EnvironmentMissing(
                f"{settings.root} or {settings.landing} is on {name}, for which Spark lacks the jars: {remedy}"
            )
        jars += _jars(folder) if is_used else []
    return jars


def _with_log_store(properties: Mapping[str, str]) -> dict[str, str]:
    jars = ",".join(join_jars(properties.get("spark.jars", ""), str(JAR)))
    return {**properties, **log_store_properties(), "spark.jars": jars}


def _with_own(properties: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    jars = (
        {"spark.jars": ",".join(join_jars(properties.get("spark.jars", ""), own["spark.jars"]))} if "spark.jars" in own else {}
    )
    return {**properties, **own, **jars}


def class_archive_option() -> str:
    """Return Java's option for the class archive, with a leading space; empty without one. Java ignores a wrong one."""
    # Java reports an ignored archive on the standard output, which is ours.
    return f" -XX:SharedArchiveFile={CLASSES} -Xlog:cds*=error" if CLASSES.is_file() else ""


def _local_files(settings: Settings, own_properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties of the faster local file system: for a local master, if the jar is there when Java starts."""
    jars = _jars(JARS_FOR_LOCAL)
    starts_java = SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ
    if not jars or not starts_java or not settings.spark_master.startswith("local") or CLASS_PATH in own_properties:
        return {}
    return {CLASS_PATH: ":".join(jars), "spark.hadoop.fs.file.impl": LOCAL_FILE_SYSTEM}


def _jars(folder: Path) -> list[str]:
    return sorted(str(jar) for jar in folder.glob("*.jar"))


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
    for name_of_logger in QUOTING_LOGGERS:
        PySparkLogger.getLogger(name_of_logger).disabled = True
    builder = SparkSession.builder.master(settings.spark_master).appName(name)
    ours = spark_properties(settings)
    is_own = settings.spark_conf is not None and JAVA_OPTIONS in _read_properties(settings.spark_conf)
    for key, value in ours.items():
        builder = builder.config(key, f"{value} {java_options}".strip() if key == JAVA_OPTIONS and not is_own else value)
    session = builder.getOrCreate()
    # Java logs by our file, even if a person's properties or another starter of the JVM set other options.
    jvm: Any = session.sparkContext._jvm
    jvm.org.apache.logging.log4j.core.config.Configurator.reconfigure(jvm.java.net.URI(LOG4J.as_uri()))
    session.sparkContext.setLogLevel("ERROR")
    register_functions(session)
    if settings.is_leased:
        guards.announce_guards(settings)
    return session


def fetch_jars(settings: Settings) -> None:
    """Resolve the jars that these settings need, once (by Spark's own Ivy), so that no run downloads."""
    addresses = [connection.url.get_secret_value() for connection in settings.jdbc.values() if not connection.jars]
    drivers = [jars for scheme, jars in DRIVERS.items() if any(address.startswith(scheme) for address in addresses)]
    stores = [(S3, settings.on_s3), (AZURE, settings.on_azure)]
    needed = [DELTA, LOCAL, AVRO, *(jars for jars, is_used in stores if is_used), *dict.fromkeys(drivers)]
    needed += [KAFKA, KAFKA_TOKENS] if settings.kafka_bootstrap else []
    needed = [jars for jars in needed if not any(re.match(jars.ours, Path(jar).name) for jar in _jars(jars.folder))]
    if needed:
        require_java()
    for jar_set in needed:
        _fetch(jar_set)


_RESOLVE = """
import sys
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.excludes", sys.argv[2])
session = builder.getOrCreate()
print("FOUND", session.sparkContext.getConf().get("spark.jars", ""))
session.stop()
"""


def _fetch(wanted: _JarSet) -> None:
    # Spark resolves packages when a JVM starts, and a process has one: each set is a process of its own.
    command = [sys.executable, "-c", _RESOLVE, ",".join(wanted.packages), wanted.excludes]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    jars = [Path(jar.split("file:")[-1]) for jar in process.stdout.rpartition("FOUND ")[2].strip().split(",") if jar]
    ours = [jar for jar in jars if re.match(wanted.ours, jar.name)]
    if process.returncode or not ours:
        raise EnvironmentMissing(f"{', '.join(wanted.packages)} could not be fetched:\n{process.stderr[-2000:]}")
    wanted.folder.mkdir(parents=True, exist_ok=True)
    for jar in ours:
        # Under a name that no run reads: half a jar is never on a class path.
        part = wanted.folder / f"{jar.name}.{os.getpid()}.part"
        shutil.copy(jar, part)
        part.replace(wanted.folder / jar.name)


if __name__ == "__main__":
    fetch_jars(Settings.from_environment())
