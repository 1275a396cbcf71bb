"""Which data files of a Delta table may have rows of a window: by its partition, or by the bounds of its values.

Belongs here: that choice, from the rows of a table's log. Does not: reading the files (delta_reads, delta_files).

Bronze is partitioned by window. That of a stream is not: its windows are seconds, and a folder each would be too many.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from lakehouse_assets.contracts.batch import WINDOW
from lakehouse_assets.storage import delta

PARTITION, LEAST, MOST = f"partition.{WINDOW}", f"min.{WINDOW}", f"max.{WINDOW}"

# Spark's bounds of moments are cut off at it.
RESOLUTION = timedelta(milliseconds=1)


def window_bounds(file: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """Return the first and the last window that a file may have, in UTC; None: unknown. ``file``: its row of the log."""
    least = file.get(PARTITION) or file.get(LEAST)
    most = file.get(PARTITION) or file.get(MOST)
    return None if least is None or most is None else (delta.utc(least), delta.utc(most))


def may_have(file: Mapping[str, Any], starts: Collection[datetime]) -> bool:
    """Whether a file may have rows of one of these windows. ``file``: its row of the log; ``starts``: in UTC."""
    if (bounds := window_bounds(file)) is None:
        return True
    if file.get(PARTITION) is not None:
        return bounds[0] in starts
    return any(bounds[0] <= start <= bounds[1] + RESOLUTION for start in starts)


def select_files(files: pa.Table, starts: Collection[datetime]) -> list[bool]:
    """Return for each file of a table's log whether it may have rows of one of these windows."""
    wanted = {delta.utc(start) for start in starts}
    names = [name for name in (PARTITION, LEAST, MOST) if name in files.column_names]
    return [may_have(row, wanted) for row in files.select(names).to_pylist()] if names else [True] * files.num_rows
