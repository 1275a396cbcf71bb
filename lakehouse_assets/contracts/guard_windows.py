"""`windows:` of a guard: windows by a column of time, in place of the table's versions.

Belongs here: the keys, and the calendar of such windows. Does not: which windows a version touched (guards/window_scan).
"""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field

from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.windows import Cadence, as_utc

# Spark's types of a column that windows can be cut by.
TIMES = ("date", "timestamp", "timestamp_ntz")


class GuardWindows(StrictModel):
    """Windows by a column of time. The batch of a window is the rows of the newest version whose column lies in it. A version
    that changes rows of a window has that window judged again, as its next extraction.
    """

    column: Annotated[str, Field(min_length=1)]
    """The column of time, declared in `columns` as timestamp, timestamp_ntz (read as UTC) or date."""
    cadence: Cadence
    """The length of a window. Weeks begin on Monday."""
    start: date | None = None
    """The day from which windows are judged. Rows before it belong to no window. By default all."""
    outside: Literal["report", "quarantine"] = "report"
    """Rows that belong to no window: without a time, before `start`, or of a window that has not begun. `report`: a warning
    with their number. `quarantine`: `table_windows` fails until they are gone or released."""

    @property
    def first(self) -> datetime | None:
        """The start of the first window; None without one."""
        return None if self.start is None else window_start(as_utc(self.start), self.cadence)


def window_start(moment: datetime, cadence: Cadence) -> datetime:
    """Return the start of the window that a moment lies in.

    >>> window_start(datetime(2024, 5, 2, 7, 30, tzinfo=UTC), "weekly").isoformat()
    '2024-04-29T00:00:00+00:00'
    """
    hour = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if cadence == "hourly":
        return hour
    day = hour.replace(hour=0)
    if cadence == "weekly":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if cadence == "monthly" else day
