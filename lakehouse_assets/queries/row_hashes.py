"""Rows compared by their hashes: bronze and quarantine with themselves, quarantine and silver with bronze. Reads all rows.

Belongs here: these queries. Does not: counts from statistics (storage/evidence), or silver as the fold of bronze (`rebuild`).
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.batch import BRONZE_COLUMNS, ROW_COLUMNS, SEQUENCE
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.evidence.findings import Finding, Layer, describe_mend
from lakehouse_assets.pipeline.extract import hash_of_row
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta

OF_QUARANTINE = ("decision_id", "outcome", "reasons", "batch_reasons")


def compare_row_hashes(settings: Settings, spec: TableSpec, spark: SparkSession) -> list[Finding]:
    """Return findings about rows whose values do not fit their hash, and rows whose hash bronze lacks."""
    frames: dict[Layer, DataFrame] = {}
    for layer in ("bronze", "quarantine", "silver"):
        if delta.exists(path := settings.path(layer, spec.name)):
            frames[layer] = spark.read.format("delta").load(path)
    if "bronze" not in frames:
        return []
    findings: list[Finding] = []
    for layer in ("bronze", "quarantine"):
        if layer in frames:
            rows = frames[layer]
            values = sorted(c for c in rows.columns if c not in (*BRONZE_COLUMNS, *OF_QUARANTINE))
            changed = rows.where(~F.col("_content_hash").eqNullSafe(hash_of_row(values)))
            findings += _by_batch(spec, layer, changed, "row(s) have values that their hash does not fit")
    hashes = frames["bronze"].select(*ROW_COLUMNS).distinct()
    for layer in ("quarantine", "silver"):
        if layer in frames:
            foreign = frames[layer].select(*ROW_COLUMNS).join(hashes, [*ROW_COLUMNS], "left_anti")
            findings += _by_batch(spec, layer, foreign, "row(s) are not in bronze")
    return findings


def _by_batch(spec: TableSpec, layer: Layer, rows: DataFrame, text: str) -> Iterator[Finding]:
    for row in rows.groupBy(F.date_format("p_extracted_at", "yyyy-MM-dd HH:mm").alias("at"), SEQUENCE).count().collect():
        message = f"{row['at']} #{row[SEQUENCE]}: {row['count']} {text}"
        yield Finding(spec.name, layer, "more", message, describe_mend(spec.name, layer))
