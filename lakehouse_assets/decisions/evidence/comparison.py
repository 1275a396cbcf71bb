"""Counts on record against counts on disk: lost, doubled or older evidence of a table.

Belongs here: the comparison, also of decisions that only commits have. Does not: counting (storage/evidence), or acting on a
finding (pipeline, operations).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence, Set

from lakehouse_assets.contracts.decision import ACCEPTED, Decision
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.evidence import findings
from lakehouse_assets.decisions.evidence.findings import (
    UNNAMED,
    Finding,
    Inventory,
    Kind,
    LoggedEvidence,
    find_damage,
    make_count_finding,
    make_finding,
    state_of,
)
from lakehouse_assets.decisions.evidence.log_entries import compare_entries
from lakehouse_assets.decisions.evidence.silver import compare_silver


def compare_evidence(table: str, record: LoggedEvidence, inventory: Inventory) -> list[Finding]:
    """Return every difference. If a log is damaged, return only that: nothing else can be compared without it."""
    damage = find_damage(table, inventory, "ops/decisions", "ops/extractions")
    logs = [*damage, *_find_lost_entries(table, record, inventory), *compare_entries(table, record, inventory)]
    if logs:
        return logs
    return [
        *find_double_entries(table, record),
        *_compare_rows_in(table, record),
        *_compare_bronze(table, record, inventory),
        *_compare_quarantine(table, record, inventory),
        *compare_silver(table, record, inventory),
        *compare_baseline(table, record, inventory),
    ]


def _find_lost_entries(table: str, record: LoggedEvidence, inventory: Inventory) -> Iterator[Finding]:
    """Yield lost entries. A decision is logged before anything names it, an extraction is recorded before its decision."""
    ids = ledger.ids_of(record.decisions)
    ids = ids | set(record.given_up) if record.given_up else ids
    kind: Kind = "older" if record.decisions else "lost"
    mend = findings.describe_mend(table, "ops/decisions")
    if missing := find_unknown_decisions(record, inventory):
        text = f"{len(missing)} decision(s) that the commits and rows of silver, quarantine or baseline name are not in it"
        text = f"silver/{table} is there, and no decision on it" if UNNAMED in missing else text
        last = f'; what no commit keeps: `lakehouse verify --table {table} --restore-logs --accept-loss --because "…"`'
        yield make_finding(table, "ops/decisions", kind, text, mend=f"{mend}{last}, after which their windows are judged again")
        return
    if orphans := find_orphaned_profiles(inventory.profiles, ids):
        text = f"{len(orphans)} decision(s) that profiles in baseline/{table} name are not in it, nor in commits of silver"
        yield make_finding(table, "ops/decisions", kind, text, mend=f"{mend}, which takes these profiles out of the baseline")
        return
    recorded = {r.batch for r in record.extractions}
    newest = {start: r.extraction_seq for start, r in ledger.latest_extractions(record.extractions).items()}
    decided = {d.batch for d in record.decisions if d.p_extracted_at is not None}
    # Killed before its record, an extraction is the next one of its window.
    logged_batches = {batch for batch in inventory.bronze if batch[1] <= newest.get(batch[0], 0)}  # type: ignore[call-overload]
    for batch in sorted((decided | logged_batches) - recorded, key=str):
        text = "the extraction is decided or in bronze, and not on record"
        yield make_finding(table, "ops/extractions", "older" if record.extractions else "lost", text, batch)


def find_unknown_decisions(record: LoggedEvidence, inventory: Inventory) -> set[str]:
    """Return ids that commits of silver and quarantine, or quarantined rows, name, and that are neither logged nor given up.
    `UNNAMED` alone if nothing names any, and silver is there without a decision: each write of silver is logged before.
    """
    ids = ledger.ids_of(record.decisions)
    unknown = {*inventory.named, *inventory.quarantine} - ids - set(record.given_up)
    unlogged = not ids and not record.given_up and record.silver is None and state_of(inventory, "silver").version is not None
    return unknown or ({UNNAMED} if unlogged else set())


def find_orphaned_profiles(profiles: Iterable[str], decisions: Set[str]) -> set[str]:
    """Return ids of profiles that are no logged decision. Seeds are no decisions."""
    return {name for name in profiles if name not in decisions and not name.startswith("seed-")}


def find_executed(
    missing: Sequence[Decision], every: Sequence[Decision], named: Collection[str], *, snapshot: bool
) -> list[Decision]:
    """Return those of the ``missing`` decisions, or of decisions whose marks are missing, that may be marked as applied.
    ``every``: all decisions of the table, these included.

    A decision that changes silver (published, replaced or withdrawn rows, or an accepted snapshot) was executed once a commit
    of silver names it. The others have nothing left to do.
    """
    replacing = {decision.superseded_by for decision in every if decision.superseded_by}

    def changes_silver(d: Decision) -> bool:
        if d.verdict not in ACCEPTED:
            return d.batch in ledger.accepted_decisions(every, d.number - 1)
        return bool(d.counts.rows_published or snapshot or d.kind != "judged" or d.decision_id in replacing)

    return [d for d in missing if d.superseded_by is None and (d.decision_id in named or not changes_silver(d))]


def find_missing_numbers(decisions: Iterable[Decision], last: int = 0) -> list[int]:
    """Return numbers of decisions that neither a log nor a commit has, up to ``last`` or the greatest one."""
    numbers = {decision.number for decision in decisions}
    return sorted(set(range(1, max([last, *numbers], default=0) + 1)) - numbers)


def find_double_entries(table: str, record: LoggedEvidence) -> Iterator[Finding]:
    """Yield traces of two writers without a common lock."""
    mend = (
        "let one process alone write this lake; then put the table and ops/ back from a backup of before, or remove"
        f" {table} from bronze/, silver/, quarantine/, baseline/ and (table={table}) from each table of ops/, and run again"
    )
    own = [] if ledger.are_single(record.decisions) else [d for d in record.decisions if d.superseded_by is None]
    if min(len({d.decision_id for d in own}), len({d.number for d in own})) < len(own):
        times = Counter(d.decision_id for d in own)
        numbers = Counter(number for number, _ in {(d.number, d.decision_id) for d in own})
        for d in own:
            text = f"decision number {d.number} is there more than once: two processes wrote this lake without a common lock"
            if times[d.decision_id] > 1 or numbers[d.number] > 1:
                yield make_finding(table, "ops/decisions", "doubled", text, d.batch, mend)
    for batch in sorted(record.recorded_twice, key=str):
        text = "the extraction is recorded twice: two processes read the same source content without a common lock"
        yield make_finding(table, "ops/extractions", "doubled", text, batch, mend)


def _compare_rows_in(table: str, record: LoggedEvidence) -> Iterator[Finding]:
    """Yield decisions on another number of rows than their extraction has on record: one of the logs is from another time."""
    rows = {extraction.batch: extraction.rows for extraction in record.extractions}
    mend = "put ops/extractions and ops/decisions back from one backup"
    for batch, decision in ledger.current_decisions(record.decisions).items():
        if batch in rows and rows[batch] != decision.counts.rows_in:
            kind: Kind = "fewer" if rows[batch] < decision.counts.rows_in else "more"
            text = f"{rows[batch]} rows of the extraction are on record, and its decision counted {decision.counts.rows_in}"
            yield make_finding(table, "ops/extractions", kind, text, batch, mend)


def _compare_bronze(table: str, record: LoggedEvidence, inventory: Inventory) -> Iterator[Finding]:
    yield from find_damage(table, inventory, "bronze")
    state = state_of(inventory, "bronze")
    if state.unreadable:
        return
    current = ledger.current_decisions(record.decisions)
    last, why = max((r.bronze_version for r in record.extractions), default=-1), ""
    if state.version is not None and state.version < last:
        why = f"; bronze is at version {state.version} and was at {last}: commits are lost, or an older copy was put back"
    for extraction in record.extractions:
        batch = extraction.batch
        rows, decision = inventory.bronze.get(batch, 0), current.get(batch)
        if rows == extraction.rows or (rows == 0 and decision is not None and _is_replaced(decision)):
            continue
        if decision is None and batch in inventory.unrecorded:
            continue  # killed between its second commit and the record of it: the window is extracted once more
        yield make_count_finding(table, "bronze", state, rows, extraction.rows, why, batch)


def _is_replaced(decision: Decision) -> bool:
    """Whether a later extraction replaced all rows, so that maintenance may remove them."""
    return decision.superseded_by is not None and not decision.counts.rows_published


def _compare_quarantine(table: str, record: LoggedEvidence, inventory: Inventory) -> Iterator[Finding]:
    yield from find_damage(table, inventory, "quarantine")
    state = state_of(inventory, "quarantine")
    if state.unreadable:
        return
    needed = _required_in_quarantine(record.decisions)
    for decision in {d.decision_id: d for d in record.decisions if d.superseded_by is None}.values():
        expected = decision.counts.rows_quarantined + decision.counts.rows_discarded
        rows = inventory.quarantine.get(decision.decision_id, 0)
        may_be_gone = decision.applied_at is None or decision.decision_id not in needed
        if rows != expected and not (rows == 0 and may_be_gone):
            yield make_count_finding(table, "quarantine", state, rows, expected, "", decision.batch, decision.decision_id)


def _required_in_quarantine(decisions: Sequence[Decision]) -> set[str]:
    """Return ids of decisions whose quarantined rows are needed: a person can act on them, or silver leaves them out."""
    last_own = ledger.current_decisions(d for d in decisions if d.superseded_by is None)
    needed = set()
    for batch, decision in ledger.current_decisions(decisions).items():
        own = last_own.get(batch)
        if own and not _is_replaced(decision) and (own.accepted or own.counts.rows_quarantined):
            needed.add(own.decision_id)
    chains = ledger.live_decisions(decisions).chains.values()
    return needed | {link.decision.decision_id for chain in chains for link in chain}


def compare_baseline(table: str, record: LoggedEvidence, inventory: Inventory) -> Iterator[Finding]:
    """Yield missing or doubled profiles of windows that join the baseline, and of seeds."""
    state = state_of(inventory, "baseline")
    if record.teaching or record.seeds:
        yield from find_damage(table, inventory, "baseline")
    by_id = {d.decision_id: d for d in record.decisions}
    if not state.unreadable:
        for decision_id in record.teaching:
            if not inventory.profiles.get(decision_id) and decision_id not in record.unmeasured:
                text = "the window teaches, and its profiles are not there"
                yield make_finding(table, "baseline", "fewer", text, by_id[decision_id].batch)
            elif decision_id in inventory.doubled:
                text = "profiles of the window are there more than once"
                yield make_finding(table, "baseline", "doubled", text, by_id[decision_id].batch)
        for seed, windows in record.seeds.items():
            if inventory.profiles.get(seed, 0) < windows:
                text = f"{inventory.profiles.get(seed, 0)} windows of the seed are there, {windows} are on record"
                yield make_finding(table, "baseline", "fewer", text)
            elif seed in inventory.doubled:
                yield make_finding(table, "baseline", "doubled", "profiles of the seed are there more than once")
    yield from find_damage(table, inventory, "ops/baselines")
    if inventory.last_event and (record.last_event is None or record.last_event < inventory.last_event):
        text = f"a seed, pin or reset of {inventory.last_event:%Y-%m-%d %H:%M:%S} is not in it"
        yield make_finding(table, "ops/baselines", "older" if record.last_event else "lost", text)
