"""A table's extraction calendar as a Dagster partitions definition.

Belongs here: the two ways of naming a window, kept equal. Does not: which windows are materialized.
"""

import dagster as dg

from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.contracts.windows import KEY_FORMATS


def partitions_of(extraction: ExtractionSpec) -> dg.TimeWindowPartitionsDefinition:
    """Windows as partitions, keyed as `contracts.windows` keys them, in UTC."""
    weekday = (extraction.start.weekday() + 1) % 7
    crons = {"hourly": "0 * * * *", "daily": "0 0 * * *", "weekly": f"0 0 * * {weekday}", "monthly": "0 0 1 * *"}
    form = KEY_FORMATS[extraction.cadence]
    return dg.TimeWindowPartitionsDefinition(
        start=extraction.start.strftime(form),
        end=extraction.end.strftime(form) if extraction.end else None,
        fmt=form,
        cron_schedule=crons[extraction.cadence],
        timezone="UTC",
    )
