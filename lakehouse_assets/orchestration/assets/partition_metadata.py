"""What a partition of several windows shows: how many windows with which verdict, their rows, and those that need a look.

Belongs here: the windows of one partition as one partition's metadata. Does not: one window's metadata (metadata), or check
results (partition_checks).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.decision import Counts, Decision, ExtractionRecord
from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.reports.markdown import link, table

# Windows in a table: the newest, and those that are not plainly published.
NEWEST, MOST_LISTED = 20, 50


def bronze_partition(windows: Sequence[Window], records: Mapping[Window, ExtractionRecord]) -> dict[str, Any]:
    """Return the metadata of bronze. ``windows``: of this partition."""
    arrived = [records[window] for window in windows if window in records]
    return {
        "arrived": bool(arrived),
        "windows": len(windows),
        "windows_arrived": len(arrived),
        "dagster/partition_row_count": sum(record.rows for record in arrived),
    }


def silver_partition(
    extraction: ExtractionSpec,
    windows: Sequence[Window],
    decisions: Mapping[datetime, Decision],
    page_of: Callable[[Decision], str | None] = lambda _: None,
) -> dict[str, Any]:
    """Return the metadata of silver. ``windows``: of this partition. ``decisions``: the current ones, by window start.
    ``page_of``: returns the address of a window's page, which its row in a table then links to.
    """
    decided = [decisions[window.start] for window in windows if window.start in decisions]
    verdicts = Counter(decision.verdict for decision in decided)
    counts = {field.name: sum(getattr(decision.counts, field.name) for decision in decided) for field in fields(Counts)}
    metadata: dict[str, Any] = {
        "verdicts": ", ".join(f"{number} {verdict}" for verdict, number in sorted(verdicts.items())) or "nothing arrived",
        "windows": len(decided),
        "dagster/partition_row_count": counts["rows_published"],
        **counts,
    }
    if special := [decision for decision in by_need(decided) if decision.verdict != "published"]:
        metadata["not_plainly_published"] = _listing(extraction, special[:MOST_LISTED], page_of)
    metadata["newest_windows"] = _listing(extraction, decided[: -NEWEST - 1 : -1], page_of)
    return metadata


def by_need(decisions: Sequence[Decision]) -> list[Decision]:
    """Return decisions of one partition in the order in which a person needs them. First come those that are not accepted,
    then those in which some check did not pass. The others follow, the newest first. ``decisions``: oldest first.
    """
    newest_first = decisions[::-1]
    return sorted(newest_first, key=lambda decision: (decision.accepted, not needs_look(decision)))


def needs_look(decision: Decision) -> bool:
    """Whether some check of its batch did not pass."""
    return decision.verdict != "published" or bool(decision.reasons)


def _listing(
    extraction: ExtractionSpec, decisions: Sequence[Decision], page_of: Callable[[Decision], str | None]
) -> dg.MetadataValue:
    header = ("window", "verdict", "rows in", "published", "superseded", "quarantined", "discarded", "why")
    rows = []
    for decision in decisions:
        if decision.p_extracted_at is not None:
            key = extraction.window_at(decision.p_extracted_at).key
            why = "; ".join(dict.fromkeys(f"{reason.check}: {reason.message}" for reason in decision.reasons))
            url = page_of(decision)
            rows.append((link(key, url) if url else key, decision.verdict, *asdict(decision.counts).values(), why))
    return dg.MetadataValue.md(table(header, rows))
