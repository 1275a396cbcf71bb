"""Law 1: silver as the fold of the clean rows of each window's accepted extraction, in the total order.

Belongs here: which rows are clean by the decisions, and folding them. Does not: writing silver (exchange).
"""

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.sql_text import identifier, parse_expression
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.layers.run import Run
from lakehouse_assets.measures.stage import select_batches, stage
from lakehouse_assets.storage import delta

Batch = tuple[datetime | None, int]


def silver_columns(spec: TableSpec) -> list[str]:
    """Silver's columns in order: the declared ones, where the row comes from, and at the end what batches have added."""
    extra = ["_ordinal"] if spec.extraction.mode == "append" else []
    added = spec.evolved_columns
    declared = [name for name in spec.columns if name not in added]
    return [*declared, "p_extracted_at", "extraction_seq", "_content_hash", *extra, *added]


def order(spec: TableSpec, prefix: str = "") -> Column:
    """The total order (last_modified, p_extracted_at, extraction_seq, content hash) as one comparable struct."""
    moment = F.col(f"{prefix}{identifier(spec.last_modified)}") if spec.last_modified else F.lit(None).cast("timestamp")
    names = ("p_extracted_at", "extraction_seq", "_content_hash")
    return F.struct(moment.alias("last_modified"), *[F.col(f"{prefix}{name}").alias(name) for name in names])


def clean_rows(run: Run, decisions: Mapping[Batch, Decision]) -> DataFrame:
    """Typed rows of these batches, without those that their own decision put into quarantine."""
    spec, spark = run.spec, run.spark
    bronze = spark.read.format("delta").load(run.path("bronze"))
    batches = [(start, seq) for start, seq in decisions if start is not None]
    rows = stage(select_batches(bronze, batches), spec).select(*[identifier(c) for c in silver_columns(spec)], "_absent")
    if not delta.exists(run.path("quarantine")):
        return rows
    ids = spark.createDataFrame(
        [
            (d.p_extracted_at, d.extraction_seq, d.decision_id)
            for d in decisions.values()
            if d.counts.rows_in > d.counts.rows_published
        ],
        "p_extracted_at timestamp, extraction_seq int, decision_id string",
    )
    same = ["p_extracted_at", "extraction_seq", "_content_hash"]
    held = spark.read.format("delta").load(run.path("quarantine")).select(*same, "decision_id")
    held = held.join(F.broadcast(ids), [*same[:2], "decision_id"], "left_semi")
    return rows.join(held, same, "left_anti")


def fold(rows: DataFrame, spec: TableSpec, accepted: Mapping[Batch, Decision]) -> DataFrame:
    """One row per living key. Append mode has no keys in common, so its rows are the fold."""
    columns = silver_columns(spec)
    if spec.extraction.mode == "append":
        return rows.select(*[identifier(c) for c in columns])
    key = [identifier(name) for name in spec.key]
    rows = rows.withColumn("_order", order(spec))
    if spec.extraction.delete_when:
        rows = _after_last_delete(rows, key, spec.extraction.delete_when)
    if spec.extraction.mode == "snapshot":
        rows = _in_every_snapshot_since(rows, key, accepted)
    newest = []
    for name in spec.columns:
        if name in spec.key:
            continue
        had = ~F.array_contains("_absent", name) if spec.schema_policy.missing_columns == "keep" else F.lit(True)
        # Wrapped, so that a NULL that came is a value and an absent column is none.
        value = F.when(had, F.struct(F.col(identifier(name)).alias("v")))
        newest.append(F.max_by(value, F.when(had, F.col("_order")))["v"].alias(name))
    for name in columns:
        if name not in spec.columns:
            newest.append(F.max_by(name, "_order").alias(name))
    return rows.groupBy(*key).agg(*newest).select(*[identifier(c) for c in columns])


def _after_last_delete(rows: DataFrame, key: list[str], delete_when: str) -> DataFrame:
    gone = F.coalesce(F.expr(parse_expression(delete_when, "delete_when").sql(dialect="spark")), F.lit(False))
    last = F.max(F.when(gone, F.col("_order"))).over(W.partitionBy(*key))
    marked = rows.withColumn("_last_delete", last)
    return marked.where(F.col("_last_delete").isNull() | (F.col("_order") > F.col("_last_delete"))).drop("_last_delete")


def _in_every_snapshot_since(rows: DataFrame, key: list[str], accepted: Mapping[Batch, Decision]) -> DataFrame:
    """Rows of the unbroken run of snapshots that ends with the newest: a key that was absent once starts anew."""
    starts = sorted(start for start, _ in accepted if start is not None)
    if not starts:
        return rows.where(F.lit(False))
    table = F.create_map(*[cell for place, start in enumerate(starts) for cell in (F.lit(start), F.lit(place))])
    rows = rows.withColumn("_place", table[F.col("p_extracted_at")])
    after = W.partitionBy(*key).orderBy(F.col("_place").desc())
    ranked = rows.withColumn("_nth", F.dense_rank().over(after))
    return ranked.where(F.col("_place") + F.col("_nth") == len(starts)).drop("_place", "_nth")


def empty_silver(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """No rows, silver's schema."""
    extra = {"p_extracted_at": "timestamp", "extraction_seq": "int", "_content_hash": "string", "_ordinal": "int"}
    types = {name: column.type for name, column in spec.columns.items()} | extra
    return spark.createDataFrame([], ", ".join(f"{identifier(c)} {types[c]}" for c in silver_columns(spec)))
