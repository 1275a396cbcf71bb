"""Few rows into an existing Delta table by `deltalake`: hundredths of a second, where Spark's writer takes half a second.

Belongs here: which tables and rows may be written so, and the commit. Does not: other rows (delta_writes, layout).
"""

import json
from collections.abc import Collection
from typing import Any, Literal

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame

from lakehouse_assets.object_store import is_url
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.opened_tables import open_to_change
from lakehouse_assets.storage.table_options import table_options

# What the driver holds: rows up to which a frame is collected.
MOST_ROWS = 10_000
# What `deltalake` does as Spark does. Constraints and generated columns are SQL, which each of them reads by its own rules.
FEATURES = frozenset({"appendOnly", "invariants", "changeDataFeed"})
# Decimals that a double has without rounding.
EXACT_DIGITS = 15
# The writer versions that stand for features: 3 has constraints, 4 generated columns, 5 other names in files.
PLAIN_VERSION, NAMED_FEATURES = 2, 7


def write_few(
    frame: DataFrame, path: str, rows: int | None, mode: Literal["append", "overwrite"], user_metadata: str | None
) -> bool:
    """Write the frame's rows in one commit, and return whether that was done; if not, nothing was. ``rows``: how many there are
    at most; None: unknown. Raises LeaseLostError, or CommitFailedError, if the table's lease was taken over.
    """
    if rows is None or rows > MOST_ROWS or _is_left_to_spark(path) or not delta.exists(path):
        return False
    table = open_to_change(path)
    if not takes_columns(table, mode, frame.schema.jsonValue()["fields"]):
        return False
    collected = frame.toArrow()
    if not all(_has_true_bounds(column) for column in collected.columns):
        return False
    properties = guards.commit_properties(path, user_metadata)
    options = table_options(path)
    write_deltalake(table, collected, mode=mode, storage_options=options, commit_properties=properties)
    return True


def _is_left_to_spark(path: str) -> bool:
    """Whether the table is on a store and under a lease. There the answer to a commit may be lost: Spark's log store finds out
    that it succeeded, and `deltalake` reports a takeover, so that the run has to be repeated.
    """
    return is_url(path) and guards.number_of(path) is not None


def takes_columns(table: DeltaTable, mode: Literal["append", "overwrite"], columns: Any) -> bool:
    """Whether a table is plain, and a write of these columns, as `StructType.jsonValue` has them, leaves the table's as they
    are.
    """
    return is_plain(table) and leaves_columns(mode, columns, json.loads(table.schema().to_json())["fields"])


def _has_true_bounds(column: pa.ChunkedArray) -> bool:
    """Whether the least and largest value that `deltalake` notes are Spark's. It leaves NaN out, which Spark has as the largest
    number, and rounds decimals: Spark would skip files that have the rows.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        return all(map(_has_true_bounds, column.flatten()))
    if pa.types.is_decimal(kind):
        return kind.precision <= EXACT_DIGITS
    return not has_nan(column)


def has_nan(column: pa.ChunkedArray) -> bool:
    """Whether the column has a NaN: the largest number to Spark, which statistics of other programs leave out."""
    return pa.types.is_floating(column.type) and any(column.is_nan().to_pylist())


def is_plain(table: DeltaTable) -> bool:
    """Whether the table has one folder, and nothing that the two writers may read otherwise."""
    protocol, metadata = table.protocol(), table.metadata()
    is_known = protocol.min_writer_version <= PLAIN_VERSION
    if protocol.min_writer_version == NAMED_FEATURES:
        is_known = set(protocol.writer_features or ()) <= FEATURES
    constrained = any(name.startswith("delta.constraints.") for name in metadata.configuration)
    return (
        protocol.min_reader_version == 1
        and is_known
        and not constrained
        and not metadata.partition_columns
        and _has_plain_columns(table)
    )


def _has_plain_columns(table: DeltaTable) -> bool:
    """Whether nothing but comments is said of the columns: not a text's most characters, or how a value is made."""
    fields = json.loads(table.schema().to_json())["fields"]
    return all((field.get("metadata") or {}).keys() <= {"comment"} for field in fields)


def leaves_columns(mode: str, ours: Any, theirs: Any) -> bool:
    """Whether a write of these columns leaves the table's as they are, comments included: those an overwrite sets anew."""
    unsaid = {"nullable", "containsNull", "valueContainsNull"}
    if mode == "append":
        unsaid.add("metadata")
    return _without(unsaid, ours) == _without(unsaid, theirs)


def _without(unsaid: Collection[str], kind: Any) -> Any:
    """Return JSON of a type without these keys. Delta stores missing values in each column, whatever a frame says."""
    if isinstance(kind, list):
        return [_without(unsaid, each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    return {key: _without(unsaid, value) for key, value in kind.items() if key not in unsaid}
