"""Since when a table has drifted: the unbroken run of windows before one that were off in the same way.

Belongs here: looking back through the decisions. Does not: judging (judge), or the words.
"""

from collections.abc import Sequence
from datetime import datetime

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.compared import FeatureResult
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

# So many windows are looked back at, held ones too: what has lasted longer has been told long ago.
LOOK_BACK = 60


def drifting_since(
    settings: Settings, table: str, made: Sequence[Decision], start: datetime, worst: FeatureResult
) -> datetime | None:
    """The first of the windows right before ``start`` that all drifted, with this feature and stratum the farthest off, to the
    same side.

    ``made``: the table's decisions up to now, with or without their evidence, of which at most `LOOK_BACK` are read. None
    where the window before did not drift so. A later extraction of a window speaks for it.
    """
    latest: dict[datetime, Decision] = {}
    for decision in ledger.standing(made).values():
        window = decision.p_extracted_at
        if window is not None and window < start and decision.superseded_by is None:
            known = latest.get(window)
            if known is None or decision.extraction_seq > known.extraction_seq:
                latest[window] = decision
    before = sorted(latest, reverse=True)[:LOOK_BACK]
    if not before:
        return None
    # Of this run's own decisions the log knows nothing yet.
    there = {d.decision_id for d in latest.values() if d.drift is not None}
    unread = [window for window in before if latest[window].decision_id not in there]
    kept = logs.drift_of(settings, table, unread[-1], unread[0]) if unread else {}
    since = None
    for window in before:
        found = latest[window].drift or kept.get(latest[window].decision_id) or {}
        then = found.get("worst") or {}
        if found.get("action") not in ("warn", "hold") or (then.get("feature"), then.get("stratum")) != worst.key:
            break
        # Lower today is nothing that began with yesterday's higher.
        if (then.get("median_shift") or 0.0) * (worst.median_shift or 0.0) < 0:
            break
        since = window
    return since
