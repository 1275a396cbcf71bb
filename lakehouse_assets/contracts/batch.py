"""A batch: one extraction of one window, and the columns by which bronze and silver name it.

Belongs here: the batch's type and its columns' names. Does not: silver's other columns (silver), or any decision on a batch.
"""

from datetime import datetime

from lakehouse_assets.checks.batch_columns import BATCH_COLUMNS

# (start of the window in UTC, extraction_seq). A gold table has no windows: its batches are (None, number).
Batch = tuple[datetime | None, int]

WINDOW, SEQUENCE = BATCH_COLUMNS
CONTENT_HASH = "_content_hash"
# What bronze adds to the source's columns.
BRONZE_COLUMNS = (WINDOW, SEQUENCE, CONTENT_HASH, "_source_file", "_columns", "_corrupt_record")
# Together these identify a row of bronze, and of silver, up to repetition.
ROW_COLUMNS = (WINDOW, SEQUENCE, CONTENT_HASH)


def start_of(batch: Batch) -> datetime:
    """The start of a silver batch's window. Raises ValueError for a batch of gold, which has no window."""
    start, number = batch
    if start is None:
        raise ValueError(f"batch {number} of a gold table has no window")
    return start
