"""Rows of one key within a batch: which one is published, and whether two of them contradict each other.

Belongs here: the flags `_newest`, `_conflict`, `_ordinal`, and which keys need a sort for them. Does not: other flags.
"""

from collections.abc import Sequence

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import BATCH_COLUMNS, CONTENT_HASH, ROW_COLUMNS
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.contracts.total_order import total_order
from lakehouse_assets.measures.typed import typed_columns

MOST_HASHES = 10_000_000  # of eight bytes each, that the driver sorts


def flag_duplicates(rows: DataFrame, key: Sequence[str], last_modified: str | None) -> DataFrame:
    """Add `_newest`, the clean row of each key that the batch publishes, and `_conflict`, one row of each contradicting key."""
    if not key:
        # Equal rows have equal flags. Ordering by a flag would evaluate every check wherever the rows are read again, also one
        # that stopped the scan of their batch.
        return flag_distinct(rows, F.row_number().over(W.partitionBy(*ROW_COLUMNS).orderBy(F.lit(1))))
    same_key = f"PARTITION BY {', '.join([*BATCH_COLUMNS, *map(identifier, key), '_clean'])}"
    moment = identifier(last_modified) if last_modified else "CAST(NULL AS TIMESTAMP)"
    # The batch's own columns are constant within it.
    newest_first = [name for name in total_order(last_modified) if name and name not in BATCH_COLUMNS]
    in_order = f"({same_key} ORDER BY {', '.join(f'{identifier(name)} DESC NULLS LAST' for name in newest_first)})"
    # This order puts rows of one moment together, by their content: if any two differ, two neighbours do.
    differs = f"lag({moment}) OVER {in_order} <=> {moment} AND lag({CONTENT_HASH}) OVER {in_order} <> {CONTENT_HASH}"
    flagged = rows.selectExpr("*", f"row_number() OVER {in_order} AS _rank", f"coalesce({differs}, FALSE) AS _differs")
    flagged = flagged.selectExpr("*", f"max(_differs) OVER ({same_key}) AS _torn")
    first = "_clean AND _rank = 1"
    flags = [f"{first} AS _newest", f"{first} AND _torn AS _conflict", "1 AS _ordinal"]
    return flagged.selectExpr(*map(identifier, rows.columns), *flags)


def flag_distinct(rows: DataFrame, ordinal: Column | None = None) -> DataFrame:
    """Add the same flags to rows without a repeated key in a batch. ``ordinal``: default 1."""
    ordinal = F.lit(1) if ordinal is None else ordinal
    return rows.select("*", F.col("_clean").alias("_newest"), F.lit(False).alias("_conflict"), ordinal.alias("_ordinal"))


def key_hash(bronze: DataFrame, spec: TableContract) -> Column:
    """Return a hash of a bronze row's batch and typed key. Rows of different keys nearly never share it."""
    typed = {c.name: c.value for c in typed_columns(spec, set(bronze.columns))}
    return F.xxhash64(*BATCH_COLUMNS, *[F.expr(typed[name]) for name in spec.key])


def find_repeated_keys(rows: DataFrame, key: Column, most: int, count: int | None) -> list[int]:
    """Return the hash of every key on more than one row of a batch, but at most ``most`` of them. ``key``: that hash.
    ``count``: the rows; None: unknown. Reads the key's columns only.

    The driver sorts the hashes: for Spark, to group so many different values takes several times as long.
    """
    hashes = rows.select(key.alias("_again"))
    if count is None or count > MOST_HASHES:
        again = hashes.groupBy("_again").agg(F.count(F.lit(1)).alias("n")).where("n > 1").select("_again")
        return [row["_again"] for row in again.limit(most).collect()]
    values = np.sort(hashes.toArrow()["_again"].to_numpy())
    return np.unique(values[1:][values[1:] == values[:-1]])[:most].tolist()
