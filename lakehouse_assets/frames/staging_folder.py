"""The folder of a gate's staged rows: where it is, and that it goes.

Belongs here: making and removing it. Does not: what is written into it.
"""

import atexit
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_assets.errors import RefusedError
from lakehouse_assets.frames.session import is_closed, runs_locally
from lakehouse_assets.storage.java import is_connect

OPEN_FOLDERS: list["StagingFolder"] = []  # frames outlive the result that they come from


class StagingFolder:
    """A folder of one judgement, below ``parent`` or the system's temporary folder. It goes with `remove`, at the latest when
    the process ends.

    Raises RefusedError where the session's workers cannot see this machine's disk, unless there is a parent.
    """

    def __init__(self, spark: SparkSession, parent: str | Path | None) -> None:
        self._spark: SparkSession | None = spark
        if parent is None and not runs_locally(spark):
            raise RefusedError(
                "the session's workers do not see this machine's temporary folder: "
                "pass `staging=`, a folder that they can write, such as a bucket's"
            )
        self._local = parent is None
        if parent is None:
            self.path = tempfile.mkdtemp(prefix="lakehouse-gate-")
        else:
            self.path = f"{str(parent).rstrip('/')}/lakehouse-gate-{uuid.uuid4().hex[:12]}"
        OPEN_FOLDERS.append(self)

    def remove(self) -> None:
        """Delete the folder. Frames that were read from it cannot be read any more."""
        spark, self._spark = self._spark, None
        if spark is None:
            return
        OPEN_FOLDERS.remove(self)
        if "://" not in self.path:
            shutil.rmtree(self.path, ignore_errors=True)
        if not self._local and not is_connect(spark) and not is_closed(spark):
            # By the session's own file system and its credentials.
            context: Any = spark.sparkContext
            folder = context._jvm.org.apache.hadoop.fs.Path(self.path)
            folder.getFileSystem(context._jsc.hadoopConfiguration()).delete(folder, True)


@atexit.register
def _remove_all() -> None:
    for folder in list(OPEN_FOLDERS):
        folder.remove()
