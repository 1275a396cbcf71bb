"""A source that has its present rows only: which window is read as a snapshot, and its rows.

Belongs here: what all such sources share. Does not: reading one (jdbc, table).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.sources.base import MOMENT, hash_parts, small_frame


def snapshot_fingerprints(windows: Iterable[Window], recorded: Mapping[datetime, str], location: str) -> dict[Window, str]:
    """Return the recorded fingerprints, and one for the newest of these windows if none as new was read. An older window that
    was missed does not arrive. Nobody can know what the table was, and its present rows would precede those of its time.

    >>> a, b, c = (Window(datetime(2024, 1, d), datetime(2024, 1, d + 1), str(d)) for d in (1, 2, 3))
    >>> [window.key for window in snapshot_fingerprints([a, b], {}, "stock")]
    ['2']
    >>> [window.key for window in snapshot_fingerprints([a, b, c], {b.start: "x"}, "stock")]
    ['2', '3']
    >>> snapshot_fingerprints([a], {b.start: "x"}, "stock")
    {}
    """
    windows = sorted(windows)
    prints = {window: recorded[window.start] for window in windows if window.start in recorded}
    if windows and all(windows[-1].start > start for start in recorded):
        prints[windows[-1]] = hash_parts(location, "snapshot", windows[-1].key)
    return prints


def snapshot_rows(spark: SparkSession, rows: DataFrame, windows: Sequence[Window]) -> DataFrame:
    """Return all rows for each of these windows, after the window's start."""
    starts = small_frame(spark, {"p_extracted_at": MOMENT}, [(window.start,) for window in windows])
    return F.broadcast(starts).crossJoin(rows)
