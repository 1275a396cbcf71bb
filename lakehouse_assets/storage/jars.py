"""Jars: Delta's, those of a store, of databases, of Kafka and of Avro: fetched once, and listed for a session.

Belongs here: which jars a lake needs, and where they are. Does not: how a session uses them (session).
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.java import require_java

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


def jars_in(folder: Path) -> list[str]:
    """Return the paths of a folder's jars, by name."""
    return sorted(str(jar) for jar in folder.glob("*.jar"))


def find_jars(settings: Settings) -> list[str]:
    """Return the jars of every session: Delta's, and those of databases, Kafka and Avro, which are small and may be unused."""
    paths = [path for folder in (JARS, JARS_FOR_JDBC, JARS_FOR_KAFKA, JARS_FOR_AVRO) for path in jars_in(folder)]
    return paths + [str(jar) for connection in settings.jdbc.values() for jar in connection.jars]


def find_store_jars(settings: Settings, is_optional: bool) -> list[str]:
    """Return the jars of the stores of the lake and of the landing folder. Raises EnvironmentMissing without them."""
    fetched = f"`{Path(sys.executable).name} -m lakehouse_assets.storage.session` fetches them, in this same environment"
    stores = [("S3", settings.on_s3, JARS_FOR_S3, fetched), ("Azure", settings.on_azure, JARS_FOR_AZURE, fetched)]
    # Spark resolves no artifact by its classifier, and only the connector's shaded jar brings its libraries.
    copied = f"copy gcs-connector-hadoop3-2.2.26-shaded.jar to {JARS_FOR_GCS}"
    stores.append(("Google Cloud Storage", settings.on_gcs, JARS_FOR_GCS, copied))
    jars: list[str] = []
    for name, is_used, folder, remedy in stores:
        if is_used and not jars_in(folder) and not is_optional:
            raise EnvironmentMissing(
                f"{settings.root} or {settings.landing} is on {name}, for which Spark lacks the jars: {remedy}"
            )
        jars += jars_in(folder) if is_used else []
    return jars


def join_jars(ours: str, theirs: str) -> list[str]:
    """Return both lists of jars. A person's jar takes the place of ours of the same name, whatever its version."""
    own = [jar.strip() for jar in theirs.split(",") if jar.strip()]
    names = {_artifact(jar) for jar in own}
    return [*(jar for jar in ours.split(",") if jar and _artifact(jar) not in names), *own]


def _artifact(jar: str) -> str:
    """Return a jar's name without its version, and without the group that Ivy puts before it.

    >>> _artifact("/opt/io.delta_delta-spark_4.1_2.13-4.4.0.jar"), _artifact("hdfs://x/delta-spark_4.1_2.13-4.4.1.jar")
    ('delta-spark_4.1_2.13', 'delta-spark_4.1_2.13')
    """
    name = re.sub(r"-\d[\w.-]*\.jar$", "", jar.rpartition("/")[2])
    return re.sub(r"^[a-z][a-z0-9]*(\.[a-z0-9]+)+_", "", name)


def fetch_jars(settings: Settings) -> None:
    """Resolve the jars that these settings need, once (by Spark's own Ivy), so that no run downloads."""
    addresses = [connection.url.get_secret_value() for connection in settings.jdbc.values() if not connection.jars]
    drivers = [jars for scheme, jars in DRIVERS.items() if any(address.startswith(scheme) for address in addresses)]
    stores = [(S3, settings.on_s3), (AZURE, settings.on_azure)]
    needed = [DELTA, LOCAL, AVRO, *(jars for jars, is_used in stores if is_used), *dict.fromkeys(drivers)]
    needed += [KAFKA, KAFKA_TOKENS] if settings.kafka_bootstrap else []
    needed = [jars for jars in needed if not any(re.match(jars.ours, Path(jar).name) for jar in jars_in(jars.folder))]
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
