"""Numbers of a batch into a judgement, and what a judgement does to its batch.

Belongs here: figures between bounds, counts of failing rows, and what a failure quarantines. Does not: which effect a check
requests (base), or overrides (decisions).
"""

from math import isinf, isnan
from typing import Any, Literal

from lakehouse_assets.checks.base import Check, Judgement
from lakehouse_assets.checks.families import RowCheck

# Two sums of the same fractions, added in another order, differ by a smaller share.
ROUNDING = 1e-9


def judge_bounds(what: str, value: Any, low: float | None, high: float | None) -> Judgement:
    """Return a failure outside the bounds. NULL and NaN fail, and so do infinities, which one bound alone would accept."""
    problem = ""
    if value is None or (isinstance(value, float) and isnan(value)):
        problem = f"{what} has no value"
    elif isinf(value):
        problem = f"{what} is infinite"
    elif low is not None and value < low:
        problem = f"{what} is {value:.10g}, promised at least {low:.10g}"
    elif high is not None and value > high:
        problem = f"{what} is {value:.10g}, promised at most {high:.10g}"
    return Judgement.of({"value": value, "min": low, "max": high}, problem)


def judge_rows(check: RowCheck, rows: int, failed: int) -> Judgement:
    """Judge a row check by two counts. With a `threshold`, failing rows up to it are tolerated as a batch.

    ``rows``: those of `where` if it `counts_where`, else all.
    """
    share = 1.0 if not rows else (rows - failed) / rows
    observed = {"rows": rows, "failed": failed, "share_passed": round(share, 6), "threshold": check.threshold}
    tolerated = check.threshold is not None and share >= check.threshold
    if not failed or (tolerated and (not check.blocking or check.effect == "quarantine_batch")):
        return Judgement("passed", observed, "", failed)
    text = f"{failed} of {rows} rows: not {check.message()}"
    if check.threshold is not None and not tolerated:
        text += f" (passed {share:.2%}, promised {check.threshold:.2%})"
    return Judgement("failed", observed, text, failed)


def consequence(check: Check, judgement: Judgement) -> Literal["none", "rows", "batch", "report"]:
    """Return what a judgement does to its batch. An error is never a pass: in a blocking check it quarantines the batch."""
    if judgement.status in ("passed", "skipped"):
        return "none"
    if not check.blocking:
        return "report"
    if judgement.status == "error" or check.effect == "quarantine_batch":
        return "batch"
    # From the counts: the share is rounded for people.
    rows, failed = judgement.observed.get("rows") or 0, judgement.observed.get("failed", 0)
    return "batch" if check.threshold is not None and rows > 0 and (rows - failed) / rows < check.threshold else "rows"
