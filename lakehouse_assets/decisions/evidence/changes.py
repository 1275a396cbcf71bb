"""Evidence that was compared before: whether what has changed since brings a finding, by the windows that it belongs to.

Belongs here: which windows have changed, and comparing those alone. Does not: the comparison itself (comparison), or keeping
what was compared (pipeline/evidence).

A table with 100,000 windows is compared several times in a run that adds one window: in full that takes seconds each time.
"""

from dataclasses import replace

from lakehouse_assets.decisions import ledger, log_parts
from lakehouse_assets.decisions.evidence.comparison import (
    compare_evidence,
    find_double_entries,
    find_orphaned_profiles,
    find_unknown_decisions,
)
from lakehouse_assets.decisions.evidence.findings import Inventory, LoggedEvidence
from lakehouse_assets.decisions.extraction_log import extraction_log_of
from lakehouse_assets.decisions.growing_map import find_changed_keys, find_new_keys, select_keys

Evidence = tuple[LoggedEvidence, Inventory]


def is_still_whole(table: str, before: Evidence, now: Evidence) -> bool:
    """Whether `compare_evidence` finds nothing in ``now``, of which it found nothing ``before``. False also where only a full
    comparison can decide. Entries of the logs that have not changed must be the same objects in both.
    """
    record, inventory = now
    if any(state.unreadable or state.absent for state in inventory.tables.values()) or any(find_double_entries(table, record)):
        return False
    before_record, before_inventory = before
    if log_parts.lost_ids(before_record.decisions, record.decisions) or {*before_record.given_up} - {*record.given_up}:
        return False  # anything may name what is lost
    quarantine = find_changed_keys(before_inventory.quarantine, inventory.quarantine)
    if find_unknown_decisions(record, replace(inventory, quarantine=select_keys(inventory.quarantine, quarantine))):
        return False
    profiles = find_new_keys(before_inventory.profiles, inventory.profiles)
    if find_orphaned_profiles(profiles, ledger.ids_of(record.decisions)) - {*record.given_up}:
        return False
    if any(decision.decision_id in inventory.in_silver for decision in ledger.lost_marks(record.decisions)):
        return False
    return not compare_evidence(table, *_keep_changed(before, now))


def _keep_changed(before: Evidence, now: Evidence) -> Evidence:
    """Return what is ``now`` of the windows that have changed. What belongs to no window stays whole."""
    (old, old_inventory), (new, inventory) = before, now
    bronze = find_changed_keys(old_inventory.bronze, inventory.bronze)
    ids = {
        *find_changed_keys(old_inventory.quarantine, inventory.quarantine),
        *find_changed_keys(old_inventory.profiles, inventory.profiles),
        *find_changed_keys(old.teaching, new.teaching),
        *(set(old.unmeasured) ^ set(new.unmeasured)),
        *inventory.doubled,
    }
    extractions, extractions_before = (extraction_log_of(each.extractions) for each in (new, old))
    starts = {
        *log_parts.windows_of_ids(new.decisions, ids),
        *log_parts.changed_windows(old.decisions, new.decisions),
        *find_changed_keys(extractions_before.by_window, extractions.by_window),
        *(start for start, _ in bronze),
        *(start for start, _ in {*old_inventory.unrecorded, *inventory.unrecorded}),
        *(
            start
            for start in find_changed_keys(old_inventory.positions, inventory.positions)
            if start not in inventory.positions
        ),
    }
    starts.discard(None)
    by_window = ledger.of_windows(new.decisions, starts)
    of_windows = sorted((d for own in by_window.values() for d in own), key=lambda d: d.number)
    ids |= {decision.decision_id for decision in of_windows}
    records = extractions.of_windows(starts)
    # With that, also rows in bronze that an extraction left which is not on record.
    last = max((record.extraction_seq for record in records), default=0)
    batches = {*bronze, *((start, seq) for start in starts for seq in range(1, last + 1))}
    record = replace(
        new, extractions=records, decisions=of_windows, teaching=[name for name in sorted(ids) if name in new.teaching]
    )
    return record, replace(
        inventory,
        bronze=select_keys(inventory.bronze, batches),
        quarantine=select_keys(inventory.quarantine, ids),
        profiles=select_keys(inventory.profiles, {*ids, *new.seeds}),
        positions=[each.p_extracted_at for each in records if each.p_extracted_at in inventory.positions],
        named=(),
        in_silver=(),
    )
