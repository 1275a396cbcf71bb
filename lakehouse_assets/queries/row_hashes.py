"""Rows compared: bronze and quarantine with their hashes, quarantine and silver with bronze, silver with its fold. Reads all.

Belongs here: these queries. Does not: counts from statistics (storage/evidence), or writing the fold (operations/rebuild).
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.batch import BRONZE_COLUMNS, ROW_COLUMNS, SEQUENCE
from lakehouse_assets.contracts.quarantine import OWN_COLUMNS, bronze_name
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.evidence.findings import Finding, Kind, Layer, describe_mend
from lakehouse_assets.decisions.schema.evolution import effective_table
from lakehouse_assets.pipeline.extract import hash_of_row
from lakehouse_assets.pipeline.fold import find_differences, fold, foldable
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs


def compare_row_hashes(settings: Settings, spec: TableSpec, spark: SparkSession) -> list[Finding]:
    """Return findings about rows whose values do not fit their hash, and rows whose hash bronze lacks. Return also findings
    about rows of silver that are not those of its fold.
    """
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
            if layer == "quarantine":
                rows = rows.drop(*OWN_COLUMNS)
                rows = rows.withColumnsRenamed({name: bronze_name(name) for name in rows.columns})
            values = sorted(c for c in rows.columns if c not in BRONZE_COLUMNS)
            changed = rows.where(~F.col("_content_hash").eqNullSafe(hash_of_row(values)))
            findings += _by_batch(spec, layer, changed, "row(s) have values that their hash does not fit")
    hashes = frames["bronze"].select(*ROW_COLUMNS).distinct()
    for layer in ("quarantine", "silver"):
        if layer in frames:
            foreign = frames[layer].select(*ROW_COLUMNS).join(hashes, [*ROW_COLUMNS], "left_anti")
            findings += _by_batch(spec, layer, foreign, "row(s) are not in bronze")
    # What is folded from damaged rows proves nothing of silver.
    if "silver" in frames and not findings:
        findings += _compare_with_fold(settings, spec, spark, frames["silver"])
    return findings


def _compare_with_fold(settings: Settings, spec: TableSpec, spark: SparkSession, silver: DataFrame) -> Iterator[Finding]:
    """Yield rows that silver has and the fold has not, and the reverse: also a cell that another program changed.

    Not while the decisions of a killed run wait for the next one, nor once the contract has changed: the next run folds anew.
    """
    decisions = logs.decisions(settings, spec.name)
    contract = effective_table(spec, decisions)
    meaning = delta.properties(settings.path("silver", spec.name)).get(delta.MEANING)
    if ledger.unapplied_decisions(decisions) or meaning != contract.meaning:
        return
    run = Run(settings, contract, lambda: spark, "verify")
    foreign, missing = find_differences(silver, fold(foldable(run, ledger.live_decisions(decisions)), contract))
    yield from _by_batch(spec, "silver", foreign, "row(s) are not those of bronze and the decisions")
    yield from _by_batch(spec, "silver", missing, "row(s) of bronze and the decisions are missing", "fewer")


def _by_batch(spec: TableSpec, layer: Layer, rows: DataFrame, text: str, kind: Kind = "more") -> Iterator[Finding]:
    for row in rows.groupBy(F.date_format("p_extracted_at", "yyyy-MM-dd HH:mm").alias("at"), SEQUENCE).count().collect():
        message = f"{row['at']} #{row[SEQUENCE]}: {row['count']} {text}"
        yield Finding(spec.name, layer, kind, message, describe_mend(spec.name, layer))
