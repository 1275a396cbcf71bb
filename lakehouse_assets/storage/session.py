"""The Spark session: its settings, its Delta jars, and the check that Java is there.

Belongs here: how a JVM is configured. Does not: who starts one, or what runs on it.
"""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse_assets.errors import ConfigError, EnvironmentMissing
from lakehouse_assets.settings import Settings

DELTA_PACKAGE = f"io.delta:delta-spark_4.1_2.13:{version('delta-spark')}"
JARS = Path(sys.prefix) / "share" / "lakehouse" / "jars"
LOG4J = Path(__file__).with_name("log4j2.properties")


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
    jars = sorted(str(jar) for jar in JARS.glob("*.jar"))
    properties = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Small tables: one snapshot partition is the largest single win (MERGE 4.5 s -> 1.8 s).
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.csv.parser.columnPruning.enabled": "false",
        "spark.sql.adaptive.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.pyspark.python": sys.executable,
        # C1 only halves start-up CPU; it shrinks the code cache, which Spark then fills: give it back.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -Duser.timezone=UTC"
        f" -Dlog4j2.configurationFile=file:{LOG4J}",
    }
    if jars:
        properties["spark.jars"] = ",".join(jars)
    else:
        properties["spark.jars.packages"] = DELTA_PACKAGE
    if settings.spark_conf:
        properties |= _read_properties(settings.spark_conf)
    return properties


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


def fetch_jars() -> None:
    """Resolve Delta's jars once (through Spark's own Ivy) into the environment, so that no run downloads."""
    if list(JARS.glob("*.jar")):
        return
    require_java()
    builder = (
        SparkSession.builder.master("local[1]").config("spark.jars.packages", DELTA_PACKAGE).config("spark.ui.enabled", "false")
    )
    session = builder.getOrCreate()
    wanted = [Path(jar.split("file:")[-1]) for jar in session.sparkContext.getConf().get("spark.jars", "").split(",") if jar]
    session.stop()
    # Spark brings the rest itself; these are what it lacks.
    ours = [jar for jar in wanted if re.match(r"(io\.delta|io\.unitycatalog)_", jar.name)]
    JARS.mkdir(parents=True, exist_ok=True)
    for jar in ours:
        shutil.copy(jar, JARS / jar.name)


if __name__ == "__main__":
    fetch_jars()
