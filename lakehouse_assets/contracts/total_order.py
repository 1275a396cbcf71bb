"""The total order of rows: which of two rows of a key is newer, down to the last tie.

Belongs here: the columns of that order. Does not: comparing rows (pipeline/fold, measures/duplicates).
"""

from lakehouse_assets.contracts.batch import ROW_COLUMNS


def total_order(last_modified: str | None) -> tuple[str | None, ...]:
    """Return the columns that order the rows of a key, oldest row first. None means NULL in every row."""
    return (last_modified, *ROW_COLUMNS)
