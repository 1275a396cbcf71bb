"""The Delta table that a frame goes to: by a path or by a name, through the caller's session and its credentials.

Belongs here: what the table is, and its commits. Does not: writing rows (exchange).
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.errors import EnvironmentMissing, RefusedError
from lakehouse_assets.measures.error_text import plain_text
from lakehouse_assets.storage.java import is_connect

WITHOUT_DELTA = (
    "the session has no Delta Lake: start it with spark.jars.packages=io.delta:delta-spark_4.1_2.13:4.4.0, "
    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
)
ABSENT = re.compile(
    r"TABLE_OR_VIEW_NOT_FOUND|DELTA_MISSING_DELTA_TABLE|DELTA_TABLE_NOT_FOUND|PATH_NOT_FOUND|DELTA_PATH_DOES_NOT_EXIST"
    r"|SCHEMA_NOT_FOUND|doesn't exist|does not exist"
)
NO_DELTA = re.compile(r"DATA_SOURCE_NOT_FOUND|PARSE_SYNTAX_ERROR|DELTA_CONFIGURE_SPARK_SESSION|ClassNotFoundException")


# Plain Spark has no such statement, and reads most others of Delta's as something else.
PROBE = "DESCRIBE HISTORY delta.`/lakehouse-gate-probe` LIMIT 1"
_WITH_DELTA: WeakSet[SparkSession] = WeakSet()


def require_delta(spark: SparkSession) -> None:
    """Raise EnvironmentMissing for a session without Delta Lake's SQL."""
    if spark in _WITH_DELTA:
        return
    try:
        spark.sql(PROBE)
    except ParseException:
        raise EnvironmentMissing(WITHOUT_DELTA) from None
    except AnalysisException as error:
        if NO_DELTA.search(str(error)):
            raise EnvironmentMissing(WITHOUT_DELTA) from None
    _WITH_DELTA.add(spark)


@dataclass(frozen=True)
class Destination:
    """``text``: a path or URL, or a table's name. ``sql``: the same in SQL."""

    spark: SparkSession
    text: str
    is_path: bool
    sql: str

    @classmethod
    def of(cls, spark: SparkSession, to: str | Path) -> Self:
        """Return the destination: a text with a slash is a path, any other the name of a table. Raises EnvironmentMissing for a
        session without Delta.
        """
        require_delta(spark)
        text = str(to)
        if not text.strip():
            raise RefusedError("the destination is empty: a path or a table's name is wanted")
        is_path = isinstance(to, Path) or "/" in text or "\\" in text
        if is_path and "://" not in text:
            text = str(Path(text).expanduser().absolute())
        parts = [f"delta.{identifier(text)}"] if is_path else [".".join(map(identifier, text.split(".")))]
        return cls(spark, text, is_path, parts[0])

    def detail(self) -> dict[str, Any] | None:
        """Return Delta's description of the table; None if there is none. Raises RefusedError for another program's table."""
        try:
            row = self.spark.sql(f"DESCRIBE DETAIL {self.sql}").collect()[0].asDict()
        except AnalysisException as error:
            if ABSENT.search(str(error)):
                return None
            raise RefusedError(f"{self.text} cannot be used as a Delta table: {plain_text(error)}") from error
        if row.get("format") != "delta":
            raise RefusedError(f"{self.text} is a table of {row.get('format')}, and not of Delta; its commits name no decision")
        return row

    def holds_files(self) -> bool:
        """Whether there is anything at a path. Over Spark Connect this is not known, and taken for no."""
        if not self.is_path or is_connect(self.spark):
            return False
        context: Any = self.spark.sparkContext
        folder = context._jvm.org.apache.hadoop.fs.Path(self.text)
        files = folder.getFileSystem(context._jsc.hadoopConfiguration())
        return bool(files.exists(folder) and (files.getFileStatus(folder).isFile() or len(files.listStatus(folder))))

    def version(self) -> int:
        """Return the newest version of an existing table."""
        return int(self.spark.sql(f"DESCRIBE HISTORY {self.sql} LIMIT 1").collect()[0]["version"])

    def version_of(self, decision_id: str, since: int | None = None) -> int | None:
        """Return the version whose commit names a decision, if it is among the newest. ``since``: look at all commits after
        this version, however many others have made meanwhile.
        """
        history = self.spark.sql(f"DESCRIBE HISTORY {self.sql}" + (" LIMIT 50" if since is None else ""))
        newest = history if since is None else history.where(history["version"] > since)
        for row in newest.collect():
            try:
                metadata = json.loads(row["userMetadata"] or "{}")
            except ValueError:
                continue
            if isinstance(metadata, dict) and decision_id in metadata.get("decisions", ()):
                return int(row["version"])
        return None

    def read(self, version: int | None = None) -> DataFrame:
        """Return the rows of a version, or of the newest."""
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(self.text) if self.is_path else reader.table(self.text)

    def save(self, writer: DataFrameWriter) -> None:
        """Run a Delta writer's commit."""
        if self.is_path:
            writer.save(self.text)
        else:
            writer.saveAsTable(self.text)
