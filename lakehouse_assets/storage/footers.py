"""Figures of a column from the footers of Parquet files: its extremes, and how many values are NULL.

Belongs here: reading footers. Does not: what the extremes are for (pipeline/stored_extents, adopted_files).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyarrow import parquet

from lakehouse_assets.storage.file_systems import open_filesystem

# In the footer of a file whose days before 1582, or moments, are of the Julian calendar.
LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


@dataclass(frozen=True)
class ColumnBounds:
    """``ends``: the least and the greatest value; None for no value but NULL. ``are_complete``: False if a part with values has
    no extremes.
    """

    nulls: int
    ends: tuple[Any, Any] | None
    are_complete: bool


def path_of(file: str) -> str:
    """Return the path of a file as Spark names it; an address in an object store stays one."""
    return unquote(file).removeprefix("file://")


def read_footer(file: str) -> parquet.FileMetaData:
    """Return a file's footer. Raises ArrowException or OSError if it cannot be read."""
    filesystem, path = open_filesystem(file)
    return parquet.read_metadata(path, filesystem=filesystem)


def find_bounds(footers: Sequence[parquet.FileMetaData], name: str) -> ColumnBounds | None:
    """Return the bounds of a column that is not nested; None if a part of a file does not count its NULLs, or a leaf of a
    nested column may be meant.
    """
    least, greatest, nulls, are_complete = [], [], 0, True
    for footer in footers:
        leaves = [index for index in range(footer.num_columns) if footer.schema.column(index).path == name]
        if len(leaves) != 1:
            return None
        for number in range(footer.num_row_groups):
            column = footer.row_group(number).column(leaves[0])
            statistics = column.statistics
            if statistics is None or not statistics.has_null_count:
                return None
            nulls += statistics.null_count
            if statistics.null_count == column.num_values:
                continue
            ends = _ends_of(statistics)
            if ends is not None:
                least.append(ends[0])
                greatest.append(ends[1])
            are_complete = are_complete and ends is not None
    return ColumnBounds(nulls, (min(least), max(greatest)) if least else None, are_complete)


def _ends_of(statistics: parquet.Statistics) -> tuple[Any, Any] | None:
    try:
        return (statistics.min, statistics.max) if statistics.has_min_max else None
    except (ValueError, OverflowError):  # bytes that are no text, years that Python does not have
        return None


def has_julian_days(footer: parquet.FileMetaData) -> bool:
    """Whether days before 1582 are other ones than pyarrow takes them for: Spark writes such files on request."""
    return any(name in (footer.metadata or {}) for name in LEGACY)


def has_int96(footer: parquet.FileMetaData) -> bool:
    """Whether a file has moments as Spark writes them by default: far ones are beyond what other programs make of them."""
    return any(footer.schema.column(index).physical_type == "INT96" for index in range(footer.num_columns))
