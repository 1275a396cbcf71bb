"""When a MERGE of the newest rows gives what the fold would give.

Belongs here: the rule. Does not: MERGE or fold (layers).
"""

from collections.abc import Collection, Iterable

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.extraction import ExtractionSpec


def may_merge(extraction: ExtractionSpec, touched: Iterable[Decision], replaced: Collection[str | None]) -> bool:
    """Whether these decisions, each on rows that have all columns, may be merged into silver; otherwise their keys are folded.

    What deletes leaves nothing in silver to compare an older row with. What takes the place of an earlier extraction, and what
    was judged before, has rows in silver that may have to go. ``replaced``: ids of decisions that superseded another.
    """
    if extraction.delete_when or extraction.mode == "snapshot":
        return False
    return not any(decision.decision_id in replaced or decision.kind != "judged" for decision in touched)
