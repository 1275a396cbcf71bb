"""`windows:` of a guard: windows by a column of time, in place of the table's versions.

Belongs here: the keys, and the calendar of such windows. Does not: which windows a version touched (guards/window_scan).
"""

from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import Field

from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.windows import Cadence, as_utc, window_start

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
