"""The Spark session: its settings, its jars (Delta's; those of S3, PostgreSQL and Kafka where they are used), and the check
that Java is there.

Belongs here: how a JVM is configured. Does not: who starts one, or what runs on it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakehouse_assets.errors import ConfigError, EnvironmentMissing
from lakehouse_assets.settings import ObjectStore, Settings

DELTA_PACKAGE = f"io.delta:delta-spark_4.1_2.13:{version('delta-spark')}"
# Spark 4.1 brings Hadoop 3.4.2 without S3; its SDK as the parts that are used, and not as one bundle of 641 MB.
SDK = ("s3", "s3-transfer-manager", "sts", "kms", "apache-client", "netty-nio-client")
S3_PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.4.2",
    *(f"software.amazon.awssdk:{part}:2.29.52" for part in SDK),
    "org.wildfly.openssl:wildfly-openssl:2.1.4.Final",
)
S3_BUNDLE = "software.amazon.awssdk:bundle"
# Hadoop starts a process, `chmod`, for each file and folder that it makes on a local disk; this file system asks Java.
# Writing 720 partitions takes less than half of the processor's time by it.
LOCAL_PACKAGE = "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0"
LOCAL_FILE_SYSTEM = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
LOCAL_JARS = re.compile(r"com\.globalmentor_")
POSTGRESQL_PACKAGE = "org.postgresql:postgresql:42.7.8"
# Two of the four are not published for each version of Spark, so that they are asked for by themselves.
KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3"
KAFKA_TOKENS_PACKAGE = "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"
OF_SPARK = "org.apache.spark:spark-tags_2.13,org.apache.spark:spark-token-provider-kafka-0-10_2.13"
# Spark itself has what else these packages ask for.
DELTA_JARS = re.compile(r"(io\.delta|io\.unitycatalog)_")
S3_JARS = re.compile(r"(org\.apache\.hadoop_hadoop-aws|org\.reactivestreams_|org\.wildfly|software\.amazon)")
POSTGRESQL_JARS = re.compile(r"org\.postgresql_postgresql-")
KAFKA_JARS = re.compile(
    r"(org\.apache\.spark_spark-sql-kafka|org\.apache\.kafka_kafka-clients|org\.apache\.commons_commons-pool2)"
)
KAFKA_TOKENS_JARS = re.compile(r"org\.apache\.spark_spark-token-provider-kafka")
JARS = Path(sys.prefix) / "share" / "lakehouse" / "jars"
JARS_FOR_S3 = JARS / "s3"
JARS_FOR_LOCAL = JARS / "local"
JARS_FOR_JDBC, JARS_FOR_KAFKA = JARS / "jdbc", JARS / "kafka-source"
# What Java loads for Spark, in one piece (scripts/archive_classes.py): by it a session starts in half the time.
CLASSES = JARS.parent / "classes.jsa"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOG4J = Path(__file__).with_name("log4j2.properties")
CLASS_PATH = "spark.driver.extraClassPath"
MOST_COMPILED = 150  # checks up to which Spark is let make one method of a staging


def require_java() -> None:
    """Raise EnvironmentMissing, in one line, unless a Java 17 or 21 is on the PATH (or in JAVA_HOME)."""
    advice = "Spark 4.1 needs Java 17 or 21: install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    java = _java()
    if java is None:
        raise EnvironmentMissing(f"java was not found. {advice}")
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', shown)
    if not found or int(found.group(1)) not in (17, 21):
        raise EnvironmentMissing(f"{java} is {shown.splitlines()[0] if shown else 'not a Java'}. {advice}")


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")  # the JVM launcher's own variable, not a setting of this project
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


def spark_properties(settings: Settings) -> dict[str, str]:
    """Spark's properties: ours, then those of ``LAKEHOUSE_SPARK_CONF`` (``key value`` lines), which win."""
    given = _read_properties(settings.spark_conf) if settings.spark_conf else {}
    # Small, and looked at by nobody who does not read such a source.
    jars = [*_jars(JARS), *_jars(JARS_FOR_JDBC), *_jars(JARS_FOR_KAFKA)]
    properties = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Small tables: one snapshot partition is the largest single win (MERGE 4.5 s -> 1.8 s).
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "8",
        # How many tasks VACUUM lists folders in, however few: Spark's default is ten thousand.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.csv.parser.columnPruning.enabled": "false",
        "spark.sql.adaptive.enabled": "true",
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
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.pyspark.python": sys.executable,
        # Spark makes methods of a staging that are too long for Java to compile, unless it is told to.
        JAVA_OPTIONS: f"-XX:-DontCompileHugeMethods -Duser.timezone=UTC -Dlog4j2.configurationFile=file:{LOG4J}"
        f"{shared_classes()}",
    }
    if _jars(JARS):
        properties["spark.jars"] = ",".join(jars)
    else:
        properties["spark.jars.packages"] = DELTA_PACKAGE
    properties |= _local_files(settings, given)
    if settings.on_s3:
        properties |= ObjectStore.from_environment().hadoop()
        for_s3 = _jars(JARS_FOR_S3)
        if not for_s3 and not given.keys() & {"spark.jars", "spark.jars.packages"}:
            raise EnvironmentMissing(
                f"{settings.root} or {settings.landing} is on S3, for which Spark lacks the jars: "
                f"`{Path(sys.executable).name} -m lakehouse_assets.storage.session` fetches them, in this same environment"
            )
        if for_s3:
            properties["spark.jars"] = ",".join([*jars, *for_s3])
    return properties | given


def shared_classes() -> str:
    """Java's option for the class archive, with a space before it; nothing where there is none. An archive of another Java or
    of other jars is left aside by Java itself.
    """
    # Java says on the standard output, which is ours, that it left one aside.
    return f" -XX:SharedArchiveFile={CLASSES} -Xlog:cds*=error" if CLASSES.is_file() else ""


def _local_files(settings: Settings, given: Mapping[str, str]) -> dict[str, str]:
    """Of a local master only: other machines would need the jar too. It must be on the class path with which Java starts, so
    a JVM that runs already goes on with Hadoop's own.
    """
    jars = _jars(JARS_FOR_LOCAL)
    starts_java = SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ
    if not jars or not starts_java or not settings.spark_master.startswith("local") or CLASS_PATH in given:
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


def build_session(settings: Settings, name: str = "lakehouse") -> SparkSession:
    """The session of this process, started if there is none. Raises EnvironmentMissing without a fitting Java."""
    require_java()
    builder = SparkSession.builder.master(settings.spark_master).appName(name)
    for key, value in spark_properties(settings).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def compiled_as_fits(spark: SparkSession, checks: int) -> Iterator[None]:
    """Within it, Spark does not make one method of a whole stage where there are many checks. Of some hundred it would be a
    method that takes more memory to compile than a run has.
    """
    key = "spark.sql.codegen.wholeStage"
    before = str(spark.conf.get(key, "true"))
    if checks > MOST_COMPILED:
        spark.conf.set(key, "false")
    try:
        yield
    finally:
        spark.conf.set(key, before)


@dataclass(frozen=True)
class _Wanted:
    """Jars that a lake needs: ``ours`` of what Ivy brings for these packages go into the folder."""

    folder: Path
    ours: re.Pattern[str]
    packages: Sequence[str]
    excludes: str = ""


def fetch_jars(settings: Settings) -> None:
    """Resolve the jars once (through Spark's own Ivy) into the environment, so that no run downloads: Delta's and the local
    file system's; S3's if the lake or the landing folder is there; PostgreSQL's and Kafka's if the environment names any.
    """
    wanted = [_Wanted(JARS, DELTA_JARS, [DELTA_PACKAGE]), _Wanted(JARS_FOR_LOCAL, LOCAL_JARS, [LOCAL_PACKAGE])]
    if settings.on_s3:
        wanted.append(_Wanted(JARS_FOR_S3, S3_JARS, S3_PACKAGES, S3_BUNDLE))
    if settings.jdbc:
        wanted.append(_Wanted(JARS_FOR_JDBC, POSTGRESQL_JARS, [POSTGRESQL_PACKAGE]))
    if settings.kafka_bootstrap:
        wanted.append(_Wanted(JARS_FOR_KAFKA, KAFKA_JARS, [KAFKA_PACKAGE], OF_SPARK))
        wanted.append(_Wanted(JARS_FOR_KAFKA, KAFKA_TOKENS_JARS, [KAFKA_TOKENS_PACKAGE], OF_SPARK.partition(",")[0]))
    wanted = [each for each in wanted if not any(each.ours.match(Path(jar).name) for jar in _jars(each.folder))]
    if not wanted:
        return
    require_java()
    for each in wanted:
        _fetch(each)


_RESOLVE = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.excludes", sys.argv[2])
session = builder.getOrCreate()
print("FOUND", session.sparkContext.getConf().get("spark.jars", ""))
session.stop()
"""


def _fetch(wanted: _Wanted) -> None:
    # Spark resolves packages when a JVM starts, and a process has one: each set is a process of its own.
    command = [sys.executable, "-c", _RESOLVE, ",".join(wanted.packages), wanted.excludes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [Path(jar.split("file:")[-1]) for jar in done.stdout.rpartition("FOUND ")[2].strip().split(",") if jar]
    ours = [jar for jar in found if wanted.ours.match(jar.name)]
    if done.returncode or not ours:
        raise EnvironmentMissing(f"{', '.join(wanted.packages)} could not be fetched:\n{done.stderr[-2000:]}")
    wanted.folder.mkdir(parents=True, exist_ok=True)
    for jar in ours:
        # By a name that no run looks for: half a jar is never on a class path.
        part = wanted.folder / f"{jar.name}.{os.getpid()}.part"
        shutil.copy(jar, part)
        part.replace(wanted.folder / jar.name)


if __name__ == "__main__":
    fetch_jars(Settings.from_environment())
