"""A table's `maintenance:`: how long what nobody needs any more is kept.

Belongs here: the shape. Does not: what is done with it (layers).
"""

from pydantic import Field

from lakehouse_assets.checks.closed import Closed


class MaintenanceSpec(Closed):
    """What `maintenance_<table>` does once a week. It removes no row of bronze, silver or gold, and nothing that is held."""

    vacuum_days: int = Field(default=30, ge=7)
    """Files that no version of the last so many days needs are deleted. It must be longer than any run, and than the time in
    which gold is to find what changed."""
    quarantine_days: int | None = Field(default=None, ge=1)
    """Rows in quarantine are deleted so many days after they were closed: released, superseded, or given up with their whole
    window. What is held stays, and what was given up of a window that is published. Without it, they are kept as evidence."""
