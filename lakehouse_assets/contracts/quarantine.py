"""The columns of a table's quarantine: its own, and bronze's.

Belongs here: their names. Does not: the rows (pipeline/silver_write), or reading them (queries/quarantine).
"""

# What quarantine says of a row, besides bronze's columns.
OWN_COLUMNS = ("decision_id", "outcome", "reasons", "batch_reasons")
_PREFIX = "_source_"  # no column of a source begins so in bronze


def stored_name(column: str) -> str:
    """Return the name in quarantine of a column of bronze: another one if the source has a column that is named as one of ours.

    >>> stored_name("value"), stored_name("Outcome")
    ('value', '_source_Outcome')
    """
    return f"{_PREFIX}{column}" if column.lower() in OWN_COLUMNS else column


def bronze_name(stored: str) -> str:
    """Return the column of bronze with this `stored_name`."""
    column = stored.removeprefix(_PREFIX)
    return column if stored_name(column) == stored else stored
