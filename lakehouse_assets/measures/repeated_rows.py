"""Rows that share values with another row of their batch: what a check of uniqueness reads, instead of all rows.

Belongs here: finding them by hashes that the driver sorts. Does not: the key's own duplicates (duplicates), or the check.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import WINDOW
from lakehouse_assets.measures.duplicates import MOST_HASHES, find_repeated_keys
from lakehouse_assets.measures.frames import all_of, local_frame

# Of fewer rows, the check's own query takes no longer. Of more repeated values it reads all rows.
LEAST_ROWS, MOST_REPEATED = 100_000, 10_000
# Types of which equal values have equal hashes, as grouping compares them.
HASHED = (T.NumericType, T.StringType, T.BooleanType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType)


def select_repeated(rows: DataFrame, columns: Sequence[str], count: int) -> DataFrame | None:
    """Return the rows that may share all of these columns with another row of their window, and all that do; None if there is
    none. ``count``: the rows. Collects at most 10 million hashes of 8 bytes.

    Grouping so many different values shuffles all of them in Spark; for the driver to sort hashes takes a third of the time.
    """
    types = [rows.schema[name].dataType for name in columns if name in rows.columns]
    if not LEAST_ROWS <= count <= MOST_HASHES or len(types) < len(columns) or not all(map(_is_hashed, types)):
        return rows
    names = [F.col(identifier(name)) for name in columns]
    present = rows.where(all_of(name.isNotNull() for name in names))
    key = F.xxhash64(F.col(WINDOW), *names)
    again = find_repeated_keys(present, key, MOST_REPEATED + 1, count)
    if not again:
        return None
    if len(again) > MOST_REPEATED:
        return rows
    name = "_again" + "_" * max(map(len, rows.columns))  # longer than any other
    hashes = local_frame(rows.sparkSession, [(name, pa.int64())], [(each,) for each in again])
    return present.join(F.broadcast(hashes), key == F.col(name), "left_semi")


def _is_hashed(kind: T.DataType) -> bool:
    """A collation may take different texts for equal ones."""
    return isinstance(kind, HASHED) and (not isinstance(kind, T.StringType) or kind.simpleString() == "string")
