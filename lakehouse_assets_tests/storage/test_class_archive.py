"""The class archive: taken where there is one and it fits, left aside in silence otherwise.

Belongs here: Java's own answer to the option. Does not: the making of the archive (scripts/archive_classes.py).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_assets.storage import java, session
from lakehouse_assets_tests.support import FAST_COMPILER, PROJECT_ROOT

COUNT = """
import sys
from pathlib import Path
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import java, session

home, java.CLASSES = Path(sys.argv[1]), Path(sys.argv[2])
settings = Settings(root=str(home), landing=str(home), dagster_home=home, spark_master="local[1]")
options = session.spark_properties(settings)[java.JAVA_OPTIONS]
(home / "spark.conf").write_text(f"{java.JAVA_OPTIONS} {options} {sys.argv[3]}\\n")
spark = session.build_session(settings.model_copy(update={"spark_conf": home / "spark.conf"}))
print(spark.range(3).count())
process = spark.sparkContext._gateway.proc
spark.stop()
process.communicate()
"""


def counted(home: Path, archive: Path, options: str = "") -> str:
    """What a process that counts three rows writes on its standard output."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("LAKEHOUSE_")}
    command = [sys.executable, "-c", COUNT, str(home), str(archive), f"{FAST_COMPILER} {options}"]
    return subprocess.run(
        command, env=variables, cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=300
    ).stdout


def test_the_option_is_there_where_the_archive_is(settings, monkeypatch, tmp_path):
    archive = tmp_path / "classes.jsa"
    monkeypatch.setattr(java, "CLASSES", archive)
    assert "SharedArchiveFile" not in session.spark_properties(settings)[java.JAVA_OPTIONS]
    archive.write_bytes(b"")
    assert f" -XX:SharedArchiveFile={archive} " in session.spark_properties(settings)[java.JAVA_OPTIONS]


@pytest.mark.exhaustive(seconds=80)
def test_a_session_takes_its_classes_from_an_archive_of_such_a_session(tmp_path):
    archive, log = tmp_path / "classes.jsa", tmp_path / "loaded.log"
    assert counted(tmp_path, archive, f"-Xlog:cds*=error -XX:ArchiveClassesAtExit={archive}") == "3\n"
    assert counted(tmp_path, archive, f"-Xlog:class+load=info:file={log}") == "3\n"
    of_spark = [line for line in log.read_text().splitlines() if " org.apache.spark." in line and "Lambda" not in line]
    shared = [line for line in of_spark if "source: shared objects file (top)" in line]
    assert len(shared) > 0.9 * len(of_spark) > 1000


@pytest.mark.exhaustive(seconds=15)
@pytest.mark.parametrize("content", ["no archive", ""])
def test_an_invalid_class_archive_is_ignored_silently(tmp_path, content):
    (tmp_path / "classes.jsa").write_text(content)
    assert counted(tmp_path, tmp_path / "classes.jsa") == "3\n"
