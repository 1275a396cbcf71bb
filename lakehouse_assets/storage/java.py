"""Java: which one starts, its options, the archive of the classes that it loads, and its classes by their names.

Belongs here: what holds for every JVM of this project. Does not: Spark's properties (session), or jars (jars).
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from lakehouse_assets.errors import EnvironmentMissing

# What Java loads for Spark, in one piece (scripts/archive_classes.py): by it a session starts in half the time.
CLASSES = Path(sys.prefix) / "share" / "lakehouse" / "classes.jsa"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Of a Java that lives for seconds: its thorough compiler costs more than it gains.
FAST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"


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


def class_archive_option() -> str:
    """Return Java's option for the class archive, with a leading space; empty without one. Java ignores a wrong one."""
    # Java reports an ignored archive on the standard output, which is ours.
    return f" -XX:SharedArchiveFile={CLASSES} -Xlog:cds*=error" if CLASSES.is_file() else ""


def is_connect(spark: Any) -> bool:
    """Whether the session is one of Spark Connect, which has no JVM in this process."""
    return ".connect." in type(spark).__module__


def java_class(jvm: Any, name: str) -> Any:
    """Return a class of ``jvm`` (`SparkContext._jvm`) by its whole name. By `jvm.org.apache…` each part is first looked for as
    a class, in all jars.
    """
    return getattr(jvm, name)
