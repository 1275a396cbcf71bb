"""Evidence that was compared before: whether what has changed since brings a finding, by the windows that it belongs to.

Belongs here: which windows have changed, and comparing those alone. Does not: the comparison itself (comparison), or keeping
what was compared (pipeline/evidence).

A table with 100,000 windows is compared several times in a run that adds one window: in full that takes seconds each time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decision_log import count_alike
from lakehouse_assets.decisions.evidence.comparison import (
    compare_evidence,
    find_double_entries,
    find_orphaned_profiles,
    find_unknown_decisions,
)
from lakehouse_assets.decisions.evidence.findings import Inventory, LoggedEvidence

Evidence = tuple[LoggedEvidence, Inventory]


def is_still_whole(table: str, before: Evidence, now: Evidence) -> bool:
    """Whether `compare_evidence` finds nothing in ``now``, of which it found nothing ``before``. False also where only a full
    comparison can tell. Entries of the logs that have not changed must be the same objects in both.
    """
    record, inventory = now
    if any(state.unreadable or state.absent for state in inventory.tables.values()) or any(find_double_entries(table, record)):
        return False
    ids = ledger.ids_of(record.decisions)
    ids = ids | set(record.given_up) if record.given_up else ids
    if find_unknown_decisions(record, inventory) or find_orphaned_profiles(inventory.profiles, ids):
        return False
    if any(decision.decision_id in inventory.in_silver for decision in ledger.lost_marks(record.decisions)):
        return False
    return not compare_evidence(table, *_keep_changed(before, now))


def _keep_changed(before: Evidence, now: Evidence) -> Evidence:
    """Return what is ``now`` of the windows that have changed. What belongs to no window stays whole."""
    (old, old_inventory), (new, inventory) = before, now
    ids = {
        *_find_other_keys(old_inventory, inventory, "quarantine"),
        *_find_other_keys(old_inventory, inventory, "profiles"),
        *_find_others(old.teaching, new.teaching),
        *(set(old.unmeasured) ^ set(new.unmeasured)),
        *inventory.doubled,
    }
    decisions = _find_other_entries(old, new, "decisions")
    decisions += [decision for decision in new.decisions if decision.decision_id in ids] if ids else []
    starts = {
        *(decision.p_extracted_at for decision in decisions),
        *(record.p_extracted_at for record in _find_other_entries(old, new, "extractions")),
        *(start for start, _ in _find_other_keys(old_inventory, inventory, "bronze")),
        *(start for start, _ in {*old_inventory.unrecorded, *inventory.unrecorded}),
        *(set(old_inventory.positions) - set(inventory.positions)),
    }
    by_window = ledger.of_windows(new.decisions, {start for start in starts if start is not None})
    of_windows = sorted((d for own in by_window.values() for d in own), key=lambda d: d.number)
    ids |= {decision.decision_id for decision in (*decisions, *of_windows)}
    record = replace(
        new,
        extractions=[each for each in new.extractions if each.p_extracted_at in starts],
        decisions=of_windows,
        teaching=[name for name in new.teaching if name in ids],
    )
    return record, replace(
        inventory,
        bronze={batch: rows for batch, rows in inventory.bronze.items() if batch[0] in starts},
        quarantine=_keep_keys(inventory.quarantine, ids),
        profiles=_keep_keys(inventory.profiles, {*ids, *new.seeds}),
        named=(),
        in_silver=(),
    )


def _find_others(before: Sequence[str], now: Sequence[str]) -> set[str]:
    """Return what one of the two has, and the other has not."""
    alike = count_alike(before, now)
    return set(before[alike:]) ^ set(now[alike:])


def _find_other_entries(old: LoggedEvidence, new: LoggedEvidence, log: Literal["decisions", "extractions"]) -> list[Any]:
    """Return the entries of a log that one of the two has, and the other has not: by their identity."""
    before, now = getattr(old, log), getattr(new, log)
    ids_before, ids_now = [*map(id, before)], [*map(id, now)]
    alike = count_alike(ids_before, ids_now)
    lost, added = set(ids_before[alike:]) - set(ids_now[alike:]), set(ids_now[alike:]) - set(ids_before[alike:])
    return [*(each for each in before[alike:] if id(each) in lost), *(each for each in now[alike:] if id(each) in added)]


def _find_other_keys(old: Inventory, new: Inventory, counts: Literal["bronze", "quarantine", "profiles"]) -> set[Any]:
    """Return the keys whose numbers differ, or that only one of the two has."""
    before, now = getattr(old, counts), getattr(new, counts)
    if before is now:
        return set()
    return {*(key for key, rows in now.items() if before.get(key) != rows), *(key for key in before if key not in now)}


def _keep_keys(numbers: Mapping[str, int], keys: Collection[Any]) -> dict[str, int]:
    return {key: numbers[key] for key in keys if key in numbers}
