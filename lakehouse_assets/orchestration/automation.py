"""The named conditions by which tables heal and gold follows.

Belongs here: when Dagster asks for a materialization, and the failure modes that shaped it. Does not: what one does.
"""

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg

from lakehouse_assets.contracts.extraction import ExtractionSpec

RETRY_CRON = "0 */6 * * *"
_STEP = {"hourly": timedelta(hours=1), "daily": timedelta(days=1), "weekly": timedelta(days=7), "monthly": timedelta(days=31)}


def heal_windows(extraction: ExtractionSpec, looked_into: Sequence[str] = ()) -> dg.AutomationCondition:
    """A window that has arrived and is missing, or whose source (or bronze) changed, is materialized once.

    Failure modes it avoids: `on_missing` and `eager` look at the latest window only, so a gap stays; bare `missing`
    asks again for a failed window at every tick. Here one that failed is left to the sensor `retry_failed`, until its source
    changes, and so is one that was asked for and came to no run. A window that has not arrived has a missing dependency and
    is never asked for.

    ``looked_into``: other tables that checks read (foreign keys). They go first where they have something to do and have
    not failed at it; that they changed, or lack windows, is no reason to judge anything again, or to wait.
    """
    ac = dg.AutomationCondition
    others = dg.AssetSelection.assets(*(f"silver_{table}" for table in looked_into))
    own = {"any_deps_updated": ac.any_deps_updated(), "any_deps_missing": ac.any_deps_missing()}
    if looked_into:
        own = {name: condition.ignore(others) for name, condition in own.items()}
    done = ac.newly_requested() | ac.newly_updated()
    arrived = ((ac.newly_missing() | ac.initial_evaluation()) & ~ac.execution_failed()) | own["any_deps_updated"]
    wanted = (ac.missing() & arrived.since(done)) | own["any_deps_updated"].since(done)
    condition = wanted & ~ac.in_progress() & ~own["any_deps_missing"] & ~ac.any_deps_in_progress()
    for table in looked_into:
        bronze, silver = (dg.AssetSelection.assets(f"{layer}_{table}") for layer in ("bronze", "silver"))
        # `will_be_requested` says nothing of assets with other windows: what they are about to do is told from their state.
        todo = ac.missing() & ~ac.execution_failed()
        arrived = todo & ~ac.any_deps_missing()
        ahead = todo & (~ac.any_deps_missing().allow(bronze) | ac.any_deps_match(arrived).allow(bronze))
        condition = condition & ~ac.any_deps_match(ahead).allow(silver)
    if extraction.lookback is not None:
        condition = ac.in_latest_time_window(extraction.lookback * _STEP[extraction.cadence]) & condition
    return condition.with_label("heal_windows")


def gold_follows() -> dg.AutomationCondition:
    """Gold is rewritten after its inputs or its SQL changed, once they are at rest, and again every six hours after a failure.

    It must not wait for windows that never arrive: a missing partition of an input does not hold it back; an input that has
    none at all does, since the SELECT could not be run.
    """
    ac = dg.AutomationCondition
    done = ac.newly_requested() | ac.newly_updated()
    changed = (ac.any_deps_updated() | ac.code_version_changed()).since(done)
    retry = ac.execution_failed() & ac.cron_tick_passed(RETRY_CRON).since(done)
    begun = ac.all_deps_match(~ac.missing())
    return ((changed | retry) & begun & ~ac.in_progress() & ~ac.any_deps_in_progress()).with_label("gold_follows")
