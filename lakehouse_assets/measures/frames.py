"""Between frames and the driver: small frames of its values, the rows of chosen batches, and moments.

Belongs here: helpers that do not know what the rows mean. Does not: any measurement.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import literal
from lakehouse_assets.contracts.batch import Batch, start_of

MOMENT = pa.timestamp("us", "UTC")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def local_frame(spark: SparkSession, columns: Sequence[tuple[str, pa.DataType]], rows: Iterable[Sequence[Any]]) -> DataFrame:
    """Return a frame of these rows, without a job or a Python worker. ``columns``: name and Arrow type, in order."""
    by_row = list(rows)
    arrays = [pa.array([row[index] for row in by_row], kind) for index, (_, kind) in enumerate(columns)]
    return spark.createDataFrame(pa.table(dict(zip([name for name, _ in columns], arrays, strict=True))))


def moment(micros: int) -> datetime:
    """Return the UTC time of microseconds since 1970. Spark itself collects naive local times."""
    return EPOCH + timedelta(microseconds=micros)


def micros(at: datetime) -> int:
    """Return the microseconds since 1970 of a time."""
    return (at - EPOCH) // timedelta(microseconds=1)


def all_of(conditions: Iterable[Column]) -> Column:
    """Return whether all conditions are true; true for none."""
    return reduce(and_, conditions, F.lit(True))


def any_of(conditions: Iterable[Column]) -> Column:
    """Return whether any condition is true; false for none."""
    return reduce(or_, conditions, F.lit(False))


def batches_sql(batches: Collection[Batch]) -> str:
    """Return SQL that is true for the rows of these batches."""
    return " OR ".join(f"(p_extracted_at = {literal(at)} AND extraction_seq = {int(seq)})" for at, seq in sorted(batches))


def select_batches(rows: DataFrame, batches: Collection[Batch]) -> DataFrame:
    """Return the rows of these extractions, with partition pruning: one predicate per distinct sequence number."""
    by_seq: dict[int, list[datetime]] = {}
    for batch in batches:
        by_seq.setdefault(batch[1], []).append(start_of(batch))
    moments = {seq: ", ".join(literal(start) for start in sorted(starts)) for seq, starts in sorted(by_seq.items())}
    return rows.where(any_of(F.expr(f"p_extracted_at IN ({m})") & (F.col("extraction_seq") == s) for s, m in moments.items()))


def batches_of(rows: DataFrame) -> list[Batch]:
    """Return the batches of these rows, sorted. Collects a row each."""
    distinct = rows.select(F.unix_micros("p_extracted_at").alias("window"), "extraction_seq").distinct().collect()
    return sorted((moment(row["window"]), row["extraction_seq"]) for row in distinct)
