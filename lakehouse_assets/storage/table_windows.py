"""A table's windows up to a moment: the calendar's, or those of a stream, which are on record.

Belongs here: that choice. Does not: the calendar (contracts), or which windows have arrived (sources).
"""

from datetime import datetime

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.source_positions import read_positions


def table_windows(settings: Settings, spec: TableSpec, now: datetime) -> list[Window]:
    """Return the windows that have ended by ``now`` (UTC), oldest first. No JVM."""
    extraction = spec.extraction
    if extraction.stream is None:
        return extraction.windows(now)
    recorded = [extraction.window_at(start) for start in sorted(read_positions(settings, spec.name))]
    return [window for window in recorded if window.end <= now]
