"""Check results of a partition that several windows share: failed if the check fails in one of them.

Belongs here: from results by window to one by partition, and which windows are looked at. Does not: a window's result
(window_checks).
"""

from collections.abc import Sequence

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.orchestration.assets.partition_metadata import by_need, needs_look
from lakehouse_assets.reports.markdown import table

# The decisions of a partition whose recorded checks are read: first those that are not plainly published, then the newest.
MOST_LOOKED_AT = 300
MOST_LISTED = 50
WindowResult = tuple[Window, dg.AssetCheckResult | str]


def looked_at(decisions: Sequence[Decision]) -> list[Decision]:
    """Return at most `MOST_LOOKED_AT` of one partition's decisions."""
    return by_need(decisions)[:MOST_LOOKED_AT]


def count_unseen(decisions: Sequence[Decision]) -> int:
    """Return how many of one partition's decisions, in which some check did not pass, are too many to be looked at."""
    return sum(needs_look(decision) for decision in by_need(decisions)[MOST_LOOKED_AT:])


def partition_result(
    partition: str, results: Sequence[WindowResult], windows: int, unseen: int = 0
) -> dg.AssetCheckResult | str:
    """Return one check's result in a partition: failed if it fails in one window, with that of the newest such window; else
    passed if it passed in one; else why it did not look. ``results``: of the windows that were looked at, of all ``windows``.
    ``unseen``: as `count_unseen`; with one of those, it has not passed.
    """
    judged = [(window, result) for window, result in sorted(results, key=lambda each: each[0]) if not isinstance(result, str)]
    if not judged:
        reasons = dict.fromkeys(result for _, result in results if isinstance(result, str))
        return "; ".join(reasons) or "nothing arrived"
    failed = [(window, result) for window, result in judged if not result.passed]
    counts = {"windows": windows, "windows_looked_at": len(results), "windows_failed": len(failed)}
    if not failed and unseen:
        return f"{unseen} windows in which a check did not pass were too many to look at: `lakehouse verdicts` lists them"
    if not failed:
        newest = judged[-1][1]
        text = f"{partition}: passed in {len(judged)} window(s)"
        return newest._replace(description=text, metadata={**newest.metadata, **counts})
    newest = failed[-1][1]
    rows = [(window.key, result.description or "") for window, result in reversed(failed[-MOST_LISTED:])]
    listed = dg.MetadataValue.md(table(("window", "result"), rows))
    severity = next((r.severity for _, r in failed if r.severity == dg.AssetCheckSeverity.ERROR), newest.severity)
    return newest._replace(
        severity=severity,
        description=f"{partition}: failed in {len(failed)} of {windows} window(s); {newest.description}",
        metadata={**newest.metadata, **counts, "failed_windows": listed},
    )
