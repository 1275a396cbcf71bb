"""The place where benchmarks run: a scratch folder, one Spark session, a Dagster home of its own, the size of everything.

Belongs here: what the benchmarks share. Does not: what any of them measures.
"""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks import PROJECT_ROOT
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.java import JAVA_OPTIONS
from lakehouse_assets.storage.session import build_session, spark_properties

# A machine's folders and jars are not reported; the other settings are.
PRIVATE = (
    "spark.jars",
    "spark.driver.extraClassPath",
    JAVA_OPTIONS,
    "spark.local.dir",
    "spark.sql.warehouse.dir",
    "spark.pyspark.python",
)


@dataclass
class Lab:
    """``scale``: what the stated sizes are multiplied by. ``memory``: of the session's JVM. ``properties``: a file of more
    Spark properties for that session, which win.
    """

    folder: Path
    pairs: int = 5
    scale: float = 1.0
    memory: str = "6g"
    properties: Path | None = None
    say: Callable[[str], Any] = lambda _: None

    def sized(self, stated: int, least: int = 1) -> int:
        """A stated size, scaled."""
        return max(least, round(stated * self.scale))

    def settings(self, name: str) -> Settings:
        """A lake and a landing folder by this name in the scratch folder, with the session's Spark properties."""
        home = self.folder / name
        return Settings(
            root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home, spark_conf=self._properties_file
        )

    @cached_property
    def _properties_file(self) -> Path:
        path = self.folder / "spark.conf"
        lines = {
            "spark.driver.memory": self.memory,
            "spark.local.dir": self.folder / "spark",
            "spark.sql.warehouse.dir": self.folder / "warehouse",
        }
        more = self.properties.read_text() if self.properties else ""
        path.write_text("".join(f"{key} {value}\n" for key, value in lines.items()) + more)
        return path

    @cached_property
    def spark(self) -> SparkSession:
        """The session that all benchmarks of this process share, as the project configures it."""
        return build_session(self.settings("session"), "benchmarks")

    def run(self, settings: Settings, spec: TableSpec, step: Callable[[str], None] = lambda _: None) -> Run:
        """A run of the project's own steps in the shared session."""
        return Run(settings, spec, lambda: self.spark, f"bench-{datetime.now(UTC):%H%M%S%f}", step=step)

    def clear(self, *folders: str) -> None:
        """Before a timed run: these folders gone, earlier writes on the disk, the heap free of what nobody holds."""
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        os.sync()
        if "spark" in self.__dict__:
            self._java("java.lang.System").gc()

    def cpu(self) -> float:
        """Processor seconds that this process and the session's JVM have used so far."""
        spent = self._java("java.lang.ProcessHandle").current().info().totalCpuDuration().get()
        return spent.toMillis() / 1000 + time.process_time()

    def _java(self, name: str) -> Any:
        """A class of the session's JVM."""
        jvm: Any = self.spark._jvm
        for part in name.split("."):
            jvm = getattr(jvm, part)
        return jvm

    def close(self) -> None:
        """End the session, if there was one, and forget the scratch folder."""
        if "spark" in self.__dict__:
            self.spark.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def public_properties(settings: Settings) -> dict[str, str]:
    """Return the session's properties without paths of this machine; the JVM's own flags are one of them."""
    properties = spark_properties(settings)
    flags = [flag for flag in properties[JAVA_OPTIONS].split() if "/" not in flag]
    public = {key: value for key, value in properties.items() if key not in PRIVATE}
    return {"spark.master": settings.spark_master, **public, "java": " ".join(flags)}


def own_instance(home: Path) -> dict[str, str]:
    """A Dagster home under ``home``, with the project's `dagster.yaml`, and the environment in which the `lakehouse` command
    works on it and on the lake and landing folder beside it. The Spark settings are the project's defaults.
    """
    home.mkdir(parents=True, exist_ok=True)
    # The project's own places are relative to its folder.
    text = (PROJECT_ROOT / "dagster.yaml").read_text().replace("data/dagster", str(home / "dagster"))
    if not (file := home / "dagster.yaml").is_file() or file.read_text() != text:
        file.write_text(text)  # once: a worker whose file has been written again becomes a new process
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("LAKEHOUSE_", "DAGSTER_"))}
    paths = {"LAKEHOUSE_ROOT": home / "lake", "LAKEHOUSE_LANDING": home / "landing", "DAGSTER_HOME": home}
    return inherited | {name: str(path) for name, path in paths.items()}
