"""Between frames and the driver: small frames of its values, and moments.

Belongs here: helpers that do not know what the rows mean. Does not: any measurement.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

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
