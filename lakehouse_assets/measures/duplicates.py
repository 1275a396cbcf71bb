"""Rows of one key within a batch: which is published, and whether two of them contradict each other.

Belongs here: the flags `_newest`, `_conflict`, `_ordinal`, and which keys need them to be worked out. Does not: other flags.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.measures.typed import typed_columns

BATCH = ("p_extracted_at", "extraction_seq")


def flag_duplicates(rows: DataFrame, key: Sequence[str], last_modified: str | None) -> DataFrame:
    """`_newest`: the clean row of its key that the batch publishes. `_conflict`: one row of each key with unequal twins."""
    if not key:
        # Equal rows have equal flags. To order by one would evaluate every check wherever the rows are read again, the one that
        # stopped the scan of their batch too.
        ordinal = F.row_number().over(W.partitionBy(*BATCH, "_content_hash").orderBy(F.lit(1)))
        return rows.select("*", F.col("_clean").alias("_newest"), F.lit(False).alias("_conflict"), ordinal.alias("_ordinal"))
    same_key = W.partitionBy(*BATCH, *[identifier(name) for name in key], "_clean")
    moment = F.col(identifier(last_modified)) if last_modified else F.lit(None).cast("timestamp")
    in_order = same_key.orderBy(moment.desc_nulls_last(), F.col("_content_hash").desc())
    # In this order rows of one moment stand together, by their content: where two differ, two neighbours do. So one sort
    # answers everything.
    before = F.lag("_content_hash").over(in_order)
    differs = F.lag(moment).over(in_order).eqNullSafe(moment) & (before != F.col("_content_hash"))
    flagged = rows.select(
        "*", F.row_number().over(in_order).alias("_rank"), F.coalesce(differs, F.lit(False)).alias("_differs")
    )
    flagged = flagged.select("*", F.max("_differs").over(same_key).alias("_torn"))
    first = F.col("_clean") & (F.col("_rank") == 1)
    return flagged.select(
        *[F.col(identifier(c)) for c in rows.columns],
        first.alias("_newest"),
        (first & F.col("_torn")).alias("_conflict"),
        F.lit(1).alias("_ordinal"),
    )


def unrepeated(rows: DataFrame) -> DataFrame:
    """The same flags where no key stands on two rows of a batch."""
    return rows.select("*", F.col("_clean").alias("_newest"), F.lit(False).alias("_conflict"), F.lit(1).alias("_ordinal"))


def key_hash(bronze: DataFrame, spec: TableSpec) -> Column:
    """One number for a bronze row's batch and typed key: rows of one key have the same, and others nearly never."""
    typed = {c.name: c.value for c in typed_columns(spec, set(bronze.columns))}
    return F.xxhash64(*BATCH, *[F.expr(typed[name]) for name in spec.key])


def repeated_keys(bronze: DataFrame, spec: TableSpec) -> DataFrame:
    """`_again`: the hash of every key that stands on more than one row of a batch. Reads the key's columns only."""
    hashes = bronze.select(key_hash(bronze, spec).alias("_again"))
    return hashes.groupBy("_again").agg(F.count(F.lit(1)).alias("n")).where("n > 1").select("_again")
