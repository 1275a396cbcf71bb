"""The context of a table's checks: the key, a window's bounds as SQL, and the view that SQL checks read.

Belongs here: contract → `CheckContext`. Does not: any check.
"""

from dataclasses import replace
from datetime import datetime

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.checks.sql.text import literal
from lakehouse_assets.contracts.table_contract import TableContract

STEP = {"1min": "INTERVAL 1 MINUTE", "5min": "INTERVAL 5 MINUTE", "15min": "INTERVAL 15 MINUTE"}
STEP |= {"moment": "INTERVAL '0.001' SECOND"}
STEP |= {"hourly": "INTERVAL 1 HOUR", "daily": "INTERVAL 1 DAY", "weekly": "INTERVAL 7 DAY", "monthly": "INTERVAL 1 MONTH"}


def check_context(spec: TableContract) -> CheckContext:
    """Return the context of all batches at once: the bounds of a window follow from each row."""
    return CheckContext(
        key=spec.key,
        window_start_sql="p_extracted_at",
        window_end_sql=f"(p_extracted_at + {STEP[spec.extraction.window_cadence]})",
        batch_view="batch",
        last_modified=spec.last_modified,
    )


def window_context(spec: TableContract, start: datetime, control: ControlTotals | None = None) -> CheckContext:
    """Return the context of one window, with its bounds as literals: a window to be judged may have no rows."""
    window = spec.extraction.window_at(start)
    bounds = {"window_start_sql": literal(window.start), "window_end_sql": literal(window.end)}
    return replace(check_context(spec), **bounds, control=control)


def gold_context(key: tuple[str, ...], at: datetime | None = None) -> CheckContext:
    """Return the context of a gold table's batch. ``at``: the time of the decision; without it, each row's own."""
    bound = "p_extracted_at" if at is None else literal(at)
    return CheckContext(key=key, window_start_sql=bound, window_end_sql=bound, batch_view="batch")
