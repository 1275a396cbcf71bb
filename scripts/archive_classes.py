"""Make the class archive of this environment: what Java loads for a run of Spark, found in one piece (JEP 350). A session
starts in half the time by it.

Belongs here: the windows of the example that are run for it, once, aside, by `setup.sh`. Does not: who takes it (`session`).
"""

import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from land_example import EXAMPLES, land

from lakehouse_assets.contracts.windows import calendar
from lakehouse_assets.orchestration.assets.project_tables import load_tables
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.java import CLASSES, JAVA_OPTIONS
from lakehouse_assets.storage.session import build_session, spark_properties

DAYS = 2
TRY = "--try"


def archive(folder: str, archive_file: Path) -> None:
    """Run the weather's first days in a session of which Java keeps what it loaded, in the file ``made``."""
    landing = Path(folder, "landing", "weather")
    landing.mkdir(parents=True)
    for file in sorted((EXAMPLES / "weather" / "on_time").glob("*.csv"))[:DAYS]:
        land(file, landing / file.name)
    settings = lake_settings(folder)
    conf = Path(folder, "spark.conf")
    options = f"-XX:TieredStopAtLevel=1 -Xlog:cds*=error -XX:ArchiveClassesAtExit={archive_file}"
    conf.write_text(f"{JAVA_OPTIONS} {spark_properties(settings)[JAVA_OPTIONS]} {options}\n")
    settings = settings.model_copy(update={"spark_conf": conf})
    session = build_session(settings, "archive")
    spec = next(table.spec for table in load_tables() if table.spec.name == "weather")
    run = Run(settings, spec, lambda: session, "archive")
    windows = list(islice(calendar(spec.extraction.start, datetime.max.replace(tzinfo=UTC), "daily"), DAYS))
    extract(run, windows)
    publish(run, windows)
    gateway = session.sparkContext._gateway
    assert gateway is not None
    java = gateway.proc
    assert isinstance(java, subprocess.Popen)
    session.stop()
    # Java writes the archive as it ends, and it ends as soon as nobody can write to it any more.
    java.communicate()


def lake_settings(folder: str) -> Settings:
    """A lake of its own."""
    return Settings(root=f"{folder}/lake", landing=f"{folder}/landing", dagster_home=Path(folder), spark_master="local[*]")


def main() -> None:
    """Make the archive, and keep it if a session starts with it: Java does not look whether one is whole, and a disk may have
    been full. Where that fails, runs start as they did, and nothing else is different.
    """
    CLASSES.unlink(missing_ok=True)
    # Beside its place, so that it comes there whole; whatever is left half is gone with the folder.
    with tempfile.TemporaryDirectory(dir=CLASSES.parent) as folder:
        archive_file = Path(folder, CLASSES.name)
        archive(folder, archive_file)
        archive_file.replace(CLASSES)
    if subprocess.run([sys.executable, __file__, TRY], capture_output=True, check=False).returncode:
        CLASSES.unlink()


if __name__ == "__main__":
    if TRY in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            build_session(lake_settings(folder), "try").range(1).count()
    else:
        main()
