"""A table's partitions in Dagster, and the windows that share one: an hour of `1min`, `5min` or a stream, a day of `15min`.

Belongs here: partitions of a calendar, from windows to partitions and back. Does not: what a partition shows.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

import dagster as dg

from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import KEY_FORMATS, Window, window_start
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.table_windows import table_windows


def partitions_of(extraction: ExtractionSpec) -> dg.TimeWindowPartitionsDefinition:
    """Return the partitions in UTC, with the keys of `contracts.windows`. The hour or day that several windows share has a
    partition from its beginning on, since its windows arrive before it ends.
    """
    cadence = extraction.partition_cadence
    weekday = (extraction.start.weekday() + 1) % 7
    crons = {"hourly": "0 * * * *", "daily": "0 0 * * *", "weekly": f"0 0 * * {weekday}", "monthly": "0 0 1 * *"}
    start = extraction.start if not extraction.shares_partitions else window_start(extraction.start, cadence)
    return dg.TimeWindowPartitionsDefinition(
        start=start.strftime(KEY_FORMATS[cadence]),
        end=extraction.end.strftime(KEY_FORMATS[cadence]) if extraction.end else None,
        fmt=KEY_FORMATS[cadence],
        cron_schedule=crons[cadence],
        timezone="UTC",
        end_offset=1 if extraction.shares_partitions else 0,
    )


def partition_key(extraction: ExtractionSpec, window: Window) -> str:
    """Return the partition that a window belongs to. The only place that says so."""
    return extraction.partition(window).key


def windows_by_partition(extraction: ExtractionSpec, windows: Iterable[Window]) -> dict[str, list[Window]]:
    """Return windows by the key of their partition, oldest first."""
    by_key: dict[str, list[Window]] = {}
    for window in sorted(windows):
        by_key.setdefault(partition_key(extraction, window), []).append(window)
    return by_key


def windows_of_partitions(settings: Settings, spec: TableSpec, keys: Collection[str], now: datetime) -> list[Window]:
    """Return the windows in these partitions that have ended by ``now``, oldest first."""
    if not spec.extraction.shares_partitions:
        return sorted(spec.extraction.window(key) for key in keys)
    chosen = set(keys)
    return [w for w in table_windows(settings, spec, now) if partition_key(spec.extraction, w) in chosen]
