"""Delta tables by path through Spark: appending, columns, properties and commit metadata.

Belongs here: the few writes that every table needs. Does not: what needs no JVM (delta), what a table means.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.session_properties import set_session_property

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@contextmanager
def tag_commits(spark: SparkSession, text: str) -> Iterator[None]:
    """Set the user metadata of commits within the block: MERGE reads it from the session only."""
    with set_session_property(spark, USER_METADATA, text):
        yield


def set_property(spark: SparkSession, path: str, name: str, value: str) -> None:
    """Set a table property, unless it has this value. ``name`` and ``value`` are the project's own."""
    set_properties(spark, path, {name: value})


def set_properties(spark: SparkSession, path: str, values: Mapping[str, str]) -> None:
    """Set table properties in one commit, unless it has these values. Names and values are the project's own."""
    before = delta.properties(path)
    if changed := {name: value for name, value in values.items() if before.get(name) != value}:
        pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in changed.items())
        spark.sql(f"ALTER TABLE delta.{identifier(path)} SET TBLPROPERTIES ({pairs})")


def append(
    frame: DataFrame,
    path: str,
    *,
    partition_by: Sequence[str] = (),
    user_metadata: str | None = None,
    replacing: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> None:
    """Add rows in one commit, with the columns that the table lacks. ``replacing``: SQL of the rows that these replace.
    ``properties``: of a table that is not there yet.
    """
    writer = frame.write.format("delta").option("mergeSchema", "true").mode("append")
    if user_metadata:
        writer = writer.option("userMetadata", user_metadata)
    if properties:
        writer = writer.options(**properties)
    if replacing and delta.exists(path):
        writer = writer.mode("overwrite").option("replaceWhere", replacing)
    (writer.partitionBy(*partition_by) if partition_by else writer).save(path)


def add_columns(spark: SparkSession, path: str, columns: Mapping[str, str]) -> None:
    """Add columns (name → type) at the table's end, in one commit that touches no row."""
    definitions = ", ".join(f"{identifier(name)} {kind}" for name, kind in columns.items())
    spark.sql(f"ALTER TABLE delta.{identifier(path)} ADD COLUMNS ({definitions})")


def allow_types(spark: SparkSession, path: str, kinds: Iterable[str]) -> None:
    """Let an existing table take columns of these types: Delta requires a table feature for times without a zone."""
    if not any("timestamp_ntz" in kind for kind in kinds) or not delta.exists(path):
        return
    if "timestampNtz" not in (delta.open_table(path).protocol().writer_features or ()):
        spark.sql(f"ALTER TABLE delta.{identifier(path)} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
