"""The layout of a Delta table's files: partitions and clustering, where a table is made or replaced.

Belongs here: making a table, and laying it out so or otherwise. Does not: which columns (contracts), or compacting files.

Delta takes clustering of a table by path from `ALTER TABLE` only, and refuses it beside partitions.
"""

from collections.abc import Mapping
from contextlib import nullcontext

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameWriter

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.layout import LayoutSpec
from lakehouse_assets.storage import delta


def create(frame: DataFrame, path: str, properties: Mapping[str, str], layout: LayoutSpec | None = None) -> None:
    """Create a table of these rows. ``properties``: its Delta table properties."""
    partition(frame.write.format("delta").options(**properties).mode("error"), layout).save(path)
    cluster(frame.sparkSession, path, layout)


def overwrite(frame: DataFrame, path: str, layout: LayoutSpec | None, user_metadata: str | None = None) -> None:
    """Replace a table's rows, columns and partitions in one commit, which takes its clustering off. That is set after it.
    ``user_metadata``: of both commits, so that the newest version names what it has.
    """
    spark = frame.sparkSession
    if delta.exists(path) and not (layout and layout.cluster_by):
        cluster(spark, path, None)
    writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    if user_metadata:
        writer = writer.option("userMetadata", user_metadata)
    partition(writer, layout).save(path)
    with nullcontext() if user_metadata is None else delta.tag_commits(spark, user_metadata):
        cluster(spark, path, layout)


def partition(writer: DataFrameWriter, layout: LayoutSpec | None) -> DataFrameWriter:
    """Return a writer that partitions the table so; without a layout, it is in one folder."""
    return writer.partitionBy(*layout.partition_by) if layout and layout.partition_by else writer


def cluster(spark: SparkSession, path: str, layout: LayoutSpec | None) -> None:
    """Cluster a table by these columns, or by none, unless it is. Files follow when maintenance compacts them."""
    wanted = list(layout.cluster_by) if layout else []
    if wanted != clustering(spark, path):
        columns = ", ".join(map(identifier, wanted))
        spark.sql(f"ALTER TABLE delta.{identifier(path)} CLUSTER BY {f'({columns})' if wanted else 'NONE'}")


def lies_so(spark: SparkSession, path: str, layout: LayoutSpec | None) -> bool:
    """Whether a table's files lie as the layout says; without one, in one folder and in no order."""
    partitions, columns = (layout.partition_by, layout.cluster_by) if layout else ((), ())
    return delta.snapshot(path).partitions == partitions and tuple(clustering(spark, path)) == columns


def clustering(spark: SparkSession, path: str) -> list[str]:
    """Return the columns that a table is clustered by. Without Delta's feature there are none, and no job is run."""
    if "clustering" not in (delta.open_table(path).protocol().writer_features or ()):
        return []
    return list(DeltaTable.forPath(spark, path).detail().select("clusteringColumns").collect()[0][0] or ())
