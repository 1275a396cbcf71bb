"""The extents of a batch's key, from the footers of the files in which its rows are staged: no query.

Belongs here: reading footers, and when they have what a query would give. Does not: what extents are for (merge_bounds).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyarrow import ArrowException, parquet
from pyspark.sql import DataFrame

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.pipeline.merge_bounds import COMPARABLE, Extent
from lakehouse_assets.storage.footers import find_bounds, has_julian_days, path_of, read_footer

EPOCH = datetime.fromtimestamp(0, UTC)
MICROSECOND = timedelta(microseconds=1)


def stored_extents(staged: DataFrame, decisions: Sequence[Decision], kinds: Mapping[str, str]) -> list[Extent] | None:
    """Return the extents of all staged rows. None where they are not known, or are not those of these decisions' clean rows.
    Rows of other batches, or those in quarantine, may lie far from all others. ``kinds``: the columns, each with its type.
    """
    counts = [decision.counts for decision in decisions]
    if not {*kinds.values()} <= {*COMPARABLE} or any(each.rows_quarantined or each.rows_discarded for each in counts):
        return None
    with suppress(ArrowException, OSError, ValueError, OverflowError):
        footers = [read_footer(path_of(file)) for file in staged.inputFiles()]
        if any(map(has_julian_days, footers)):
            return None
        if sum(footer.num_rows for footer in footers) == sum(each.rows_in for each in counts):
            extents = [_extent(name, kind, footers) for name, kind in kinds.items()]
            return [extent for extent in extents if extent] if all(extents) else None
    return None


def _extent(name: str, kind: str, footers: Sequence[parquet.FileMetaData]) -> Extent | None:
    """Return the extent of a column; None if a part of a file has no statistics of it."""
    bounds = find_bounds(footers, name)
    if bounds is None or not bounds.are_complete:
        return None
    ends = (None, None) if bounds.ends is None else (_text(bounds.ends[0], kind), _text(bounds.ends[1], kind))
    return Extent(name, kind, *ends, bounds.nulls > 0)


def _text(value: Any, kind: str) -> str:
    """Return the value's text as `merge_bounds` has it. Raises ValueError for a value of another type."""
    if kind == "timestamp" and isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return str((moment - EPOCH) // MICROSECOND)
    if kind == "date" and isinstance(value, date):
        return value.isoformat()
    expected = str if kind == "string" else int
    if kind in ("timestamp", "date") or not isinstance(value, expected):
        raise ValueError(f"{value!r} is no {kind}")
    return str(value)
