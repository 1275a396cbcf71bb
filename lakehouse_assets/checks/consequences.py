"""Counts of failing rows into a judgement, and what a judgement does to its batch.

Belongs here: thresholds, and who holds what. Does not: which effect a check asks for (base), or overrides (decisions).
"""

from collections.abc import Mapping
from typing import Any, Literal

from lakehouse_assets.checks.base import Check, Judgement, RowCheck


def judge_rows(check: RowCheck, rows: int, failed: int) -> Judgement:
    """A row check's judgement from two counts. With a `threshold`, failing rows up to it are tolerated as a batch.

    ``rows``: those that it looks at where it `counts_where`, else all.
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
    """What a judgement does to its batch. An error is never a pass: in a blocking check it holds the whole batch."""
    if judgement.status in ("passed", "skipped"):
        return "none"
    if not check.blocking:
        return "report"
    if judgement.status == "error" or check.effect == "quarantine_batch":
        return "batch"
    return "batch" if _below(check, judgement.observed) else "rows"


def _below(check: Check, observed: Mapping[str, Any]) -> bool:
    """From the counts, not from the rounded share that people are shown."""
    rows = observed.get("rows") or 0
    return check.threshold is not None and rows > 0 and (rows - observed.get("failed", 0)) / rows < check.threshold
