"""The layout of a Delta table's files: partitions and clustering, where a table is made or replaced.

Belongs here: making a table, and laying it out so or otherwise. Does not: which columns (contracts), or compacting files.

Delta takes clustering of a table by path from `ALTER TABLE` only, and refuses it beside partitions.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameWriter

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.layout import LayoutSpec
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.file_systems import open_filesystem

# The domain of Delta's log that holds the columns of a clustering.
CLUSTERING = "delta.clustering"


def create(frame: DataFrame, path: str, properties: Mapping[str, str], layout: LayoutSpec | None = None) -> None:
    """Create a table of these rows. ``properties``: its Delta table properties."""
    partition(frame.write.format("delta").options(**properties).mode("error"), layout).save(path)
    cluster(frame.sparkSession, path, layout)


def overwrite(frame: DataFrame, path: str, layout: LayoutSpec | None) -> None:
    """Replace a table's rows, columns and partitions in one commit, which takes its clustering off. That is set after it; if
    the process ends between them, the caller's repetition does both.
    """
    if layout and layout.partition_by and delta.exists(path):
        cluster(frame.sparkSession, path, None)
    partition(frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true"), layout).save(path)
    cluster(frame.sparkSession, path, layout)


def partition(writer: DataFrameWriter, layout: LayoutSpec | None) -> DataFrameWriter:
    """Return a writer that partitions the table so; without a layout, it is in one folder."""
    return writer.partitionBy(*layout.partition_by) if layout and layout.partition_by else writer


def cluster(spark: SparkSession, path: str, layout: LayoutSpec | None) -> None:
    """Cluster a table by these columns, or by none, unless it is. Files follow when maintenance compacts them."""
    wanted = layout.cluster_by if layout else ()
    if wanted != read_clustering(path):
        columns = ", ".join(map(identifier, wanted))
        spark.sql(f"ALTER TABLE delta.{identifier(path)} CLUSTER BY {f'({columns})' if wanted else 'NONE'}")


def is_laid_out(path: str, layout: LayoutSpec | None) -> bool:
    """Whether a table's files lie as the layout says; without one, in one folder and in no order. No JVM."""
    return read_layout(path) == ((layout.partition_by, layout.cluster_by) if layout else ((), ()))


def read_layout(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns by which a table is partitioned, and those by which it is clustered. No JVM."""
    return delta.snapshot(path).partitions, read_clustering(path)


def read_clustering(path: str) -> tuple[str, ...]:
    """Return the columns by which a table is clustered: none without Delta's feature. They are in its log: in the newest commit
    that sets them, or in the checkpoint before it. No JVM.
    """
    table = delta.open_table(path)
    if "clustering" not in (table.protocol().writer_features or ()):
        return ()
    for actions in _newest_first(path, table.version()):
        for action in actions:
            if action.get("domain") == CLUSTERING:
                columns = json.loads(action["configuration"])["clusteringColumns"]
                return () if action.get("removed") else tuple(".".join(parts) for parts in columns)
    return ()


def _newest_first(path: str, version: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the domain metadata of each commit from this version back to the last checkpoint, and that of the checkpoint."""
    filesystem, base = open_filesystem(f"{path}/_delta_log")
    names = {info.base_name: info.path for info in filesystem.get_file_info(fs.FileSelector(base))}
    for number in range(version, -1, -1):
        if (commit := names.get(f"{number:020d}.json")) is not None:
            with filesystem.open_input_stream(commit) as file:
                lines = file.read().decode().splitlines()
            yield [json.loads(line)["domainMetadata"] for line in lines if line.startswith('{"domainMetadata"')]
        parts = [names[name] for name in names if name.startswith(f"{number:020d}.checkpoint.") and name.endswith(".parquet")]
        if parts:
            tables = [pq.read_table(part, columns=["domainMetadata"], filesystem=filesystem) for part in parts]
            yield [row["domainMetadata"] for rows in tables for row in rows.to_pylist() if row["domainMetadata"]]
            return
