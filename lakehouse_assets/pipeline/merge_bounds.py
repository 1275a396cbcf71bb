"""Which files of silver can have the keys of a batch, so that a MERGE reads no others; or that none can.

Belongs here: rows to merge → conditions on silver, and on its files. Does not: the MERGE (silver_write), or which columns of a
layout may lie so (contracts).

Delta skips files by conditions on the target alone, so `t.key = s.key` skips none. A column of the key, or one that follows
from it, has one value in both rows of a key. So the values of the rows to merge are a condition on the target that excludes no
match.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.contracts.layout import INEXACT
from lakehouse_assets.contracts.table_contract import TableContract

# More partitions than these are given as a range.
MOST = 100
# Of these types, a file's statistics compare as the values do.
COMPARABLE = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "string")
# Spark's statistics cut moments off at it.
RESOLUTION = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Extent:
    """The least and the greatest value of a column among the rows to merge, as texts; None for no value but NULL."""

    name: str
    kind: str
    least: str | None
    greatest: str | None
    has_null: bool


def bounded_columns(rows: DataFrame, spec: TableContract) -> dict[str, str]:
    """Return the columns of the key, and those that follow from it, each with its type."""
    layout = _exact_columns(spec)
    return {name: kind for name, kind in rows.dtypes if name in layout or (name in spec.key and kind in COMPARABLE)}


def extents_of(rows: DataFrame, kinds: Mapping[str, str]) -> list[Extent]:
    """Return the extents of these columns (name → type). One job."""
    cells = [(identifier(name), kind) for name, kind in kinds.items()]
    extremes = [F.expr(_text(f"{end}({cell})", kind)) for cell, kind in cells for end in ("min", "max")]
    nulls = [F.expr(f"count_if({cell} IS NULL) > 0") for cell, _ in cells]
    if not cells:
        return []
    (row,) = rows.agg(*extremes, *nulls).collect()
    return [
        Extent(name, kind, row[2 * index], row[2 * index + 1], bool(row[2 * len(cells) + index]))
        for index, (name, kind) in enumerate(kinds.items())
    ]


def files_near(files: pa.Table, extents: Sequence[Extent], spec: TableContract) -> list[bool]:
    """Return for each of these files of a table whether, by its statistics (`delta.row_counts`), it may have a row of a key
    within these extents.
    """
    near = [True] * files.num_rows
    for extent in extents:
        if extent.name in spec.key:
            near = [*map(and_, near, _near(files, extent))]
    return near


def skipping_extents(files: pa.Table, extents: Sequence[Extent]) -> list[Extent]:
    """Return the extents that spare the MERGE one of these files (`delta.row_counts`), or may do so. Spark makes a new program
    of each bound, for each batch: one that spares nothing costs more than all else that it does.
    """
    return [extent for extent in extents if extent.kind not in COMPARABLE or not all(_near(files, extent))]


def bounds_of(rows: DataFrame, spec: TableContract, extents: Sequence[Extent]) -> list[str]:
    """Return SQL over silver as `t` that is true for each row whose key is among these. One job for a table with partitions. A
    table's history has its conditions, so values of `pii` columns are not among them.
    """
    shown_extents = [extent for extent in extents if extent.name not in spec.pii_columns and extent.least is not None]
    kinds = {name: kind for name, kind in rows.dtypes if name in _exact_columns(spec)}
    listed: dict[str, str] = {}
    if kinds and spec.layout and spec.layout.partition_by:
        texts = [F.expr(_text(identifier(name), kind)).alias(name) for name, kind in kinds.items()]
        partitions = rows.select(*texts).distinct().limit(MOST + 1).collect()
        if 0 < len(partitions) <= MOST:
            listed = {name: _one_of(name, kind, {row[name] for row in partitions}) for name, kind in kinds.items()}
    return [*listed.values(), *(_between(extent) for extent in shown_extents if extent.name not in listed)]


def _exact_columns(spec: TableContract) -> set[str]:
    """Columns of the layout that follow from the key, with one value for equal keys."""
    if spec.layout is None:
        return set()
    inexact = {name for name, column in spec.published_columns.items() if column.type in INEXACT}
    following = {name for name in spec.layout.columns if spec.layout.sources_of(name) <= {*spec.key} - inexact}
    return following - spec.pii_columns - inexact


def _text(value: str, kind: str) -> str:
    """Return SQL of a value's text, which no time zone changes."""
    return f"CAST({f'unix_micros({value})' if kind == 'timestamp' else value} AS STRING)"


def _value(text: str, kind: str) -> str:
    """Return SQL of the value with this text."""
    return f"timestamp_micros({int(text)})" if kind == "timestamp" else f"CAST({literal(text)} AS {kind})"


def _one_of(name: str, kind: str, texts: Collection[str | None]) -> str:
    column, values = f"t.{identifier(name)}", sorted(text for text in texts if text is not None)
    parts = [f"{column} IN ({', '.join(_value(text, kind) for text in values)})"] if values else []
    parts += [f"{column} IS NULL"] if None in texts else []
    return f"({' OR '.join(parts)})"


def _between(extent: Extent) -> str:
    column = f"t.{identifier(extent.name)}"
    least, greatest = _value(extent.least or "", extent.kind), _value(extent.greatest or "", extent.kind)
    bounds = f"{column} >= {least} AND {column} <= {greatest}"
    return f"({bounds} OR {column} IS NULL)" if extent.has_null else f"({bounds})"


def _python_value(kind: str, text: str) -> Any:
    if kind == "timestamp":
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(text))
    if kind == "date":
        return date.fromisoformat(text)
    return text if kind == "string" else int(text)


def _near(files: pa.Table, extent: Extent) -> list[bool]:
    """Return for each file whether it may have a value within the extent."""
    if extent.kind in COMPARABLE and extent.least is not None and extent.greatest is not None:
        with suppress(ValueError, OverflowError):  # years that Python's calendar does not have
            least, greatest = (_python_value(extent.kind, text) for text in (extent.least, extent.greatest))
            return _may_have(files, extent.name, least, greatest)
    return [True] * files.num_rows


def _may_have(files: pa.Table, name: str, least: Any, greatest: Any) -> list[bool]:
    """Return for each file whether a value of the column may lie between these."""
    partition = f"partition.{name}"
    columns = (partition, partition) if partition in files.column_names else (f"min.{name}", f"max.{name}")
    # A field `id` of a struct `user` has statistics by the name of a column `user.id`.
    if "." in name or not {*columns} <= {*files.column_names}:
        return [True] * files.num_rows
    if isinstance(least, datetime):
        least -= RESOLUTION
    lows, highs = (files[column].to_pylist() for column in columns)
    return [low is None or high is None or (low <= greatest and high >= least) for low, high in zip(lows, highs, strict=True)]
