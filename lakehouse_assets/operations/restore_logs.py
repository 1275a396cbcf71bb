"""Restore a table's lost entries of `ops/`: decisions and marks from commits; then extractions and positions.

Belongs here: what can be restored, and appending it. Does not: what cannot (docs/evidence.md), or mending tables (mend).
"""

from collections.abc import Collection, Set
from dataclasses import dataclass
from datetime import UTC, datetime

from lakehouse_assets.checks.sql.text import literal
from lakehouse_assets.contracts.batch import start_of
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.evidence.comparison import (
    find_executed,
    find_missing_numbers,
    find_orphaned_profiles,
    find_unknown_decisions,
)
from lakehouse_assets.errors import EvidenceError
from lakehouse_assets.operations.restore_extractions import ALL, read_fingerprints, restore_extractions, restore_positions
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import commit_metadata, delta, log_rows, logs
from lakehouse_assets.storage.delta_files import TableFiles, forget_lost_files
from lakehouse_assets.storage.evidence import OUR_STEPS, measure_evidence
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.opened_tables import open_to_change
from lakehouse_assets.storage.version_marks import find_last_mark, log_abandoned, read_last_mark, version_row

RESTORED_LOGS = ("decisions", "extractions", "positions")
RESTORING = ("lost_files_forgotten", "decisions_restored", "extractions_restored", "positions_restored", "orphans_removed")
# With an accepted loss, these steps follow.
GIVING_UP = ("silver_marked", "loss_logged", "lost_rows_removed")


@dataclass(frozen=True)
class Restored:
    """Restored entries. ``gaps``: numbers of decisions that no commit has. ``forgotten``: decisions of the baseline alone."""

    decisions: int
    extractions: int
    gaps: list[int]
    forgotten: int = 0
    given_up: int = 0
    positions: int = 0


@dataclass(frozen=True)
class AcceptedLoss:
    """Who gives up what no commit keeps, and why."""

    by: str
    because: str


def restore_logs(run: Run, accept: AcceptedLoss | None = None) -> Restored:
    """Write back what the logs under `ops/` lack of a table. No JVM. Killed at any step and repeated, it ends the same.

    Raises EvidenceError if a log's own Delta log cannot be read, or if it lacks data files of which not every entry can be
    written back. Nothing is changed then, so that a backup still helps. With ``accept``, entries that no commit contains are
    given up, which is put on record; the windows of these decisions are judged again.
    """
    with table_lock(run.settings, run.table):
        for log in RESTORED_LOGS:
            _forget_lost_files(run, log, accept)
        run.step("lost_files_forgotten")
        decisions = _restore_decisions(run)
        run.step("decisions_restored")
        log_now = logs.decisions(run.settings, run.table)
        extractions = restore_extractions(run, log_now)
        run.step("extractions_restored")
        positions = restore_positions(run)
        run.step("positions_restored")
        forgotten = _forget_orphans(run, {decision.decision_id for decision in log_now})
        run.step("orphans_removed")
        given_up = _give_up(run, accept) if accept else 0
        return Restored(decisions, extractions, find_missing_numbers(log_now), forgotten, given_up, positions)


def _give_up(run: Run, accept: AcceptedLoss) -> int:
    """Put decisions on record as lost that no commit keeps. Their quarantined rows go: bronze has them, and their windows are
    judged again. Silver is folded anew, whole, by the next run that publishes.

    Until the record nothing is lost; after it, only rows remain to be removed, by this call or by a repeated one.
    """
    table = run.table
    record, inventory = measure_evidence(run.settings, table, drift=run.spec.drift is not None)
    ids = find_unknown_decisions(record, inventory)
    if ids:
        if delta.exists(path := run.path("silver")):
            open_to_change(path).alter.set_table_properties(
                {delta.MEANING: "none"}, raise_if_not_exists=False, commit_properties=guards.commit_properties(path)
            )
        run.step("silver_marked")
        log_abandoned(run.settings, table, ids, run_id=run.run_id, by=accept.by, because=accept.because, at=run.clock())
    run.step("loss_logged")
    # A window that was judged again since may have a decision of the same number, and so of the same id.
    rows_of = inventory.quarantine.keys() & {*ids, *record.given_up} - {d.decision_id for d in record.decisions}
    if rows_of:
        _delete_decisions(run.path("quarantine"), rows_of)
    run.step("lost_rows_removed")
    return len(ids | rows_of)


def _delete_decisions(path: str, ids: Collection[str]) -> None:
    condition = f"decision_id IN ({', '.join(map(literal, sorted(ids)))})"
    open_to_change(path).delete(condition, commit_properties=guards.commit_properties(path))


def _forget_orphans(run: Run, ids: Set[str]) -> int:
    """Remove profiles whose decision the log lacks: the baseline is newer than the lake. Their windows are judged again."""
    files = TableFiles(run.path("baseline"))
    if files.state.version is None or files.state.absent:
        return 0
    orphans = find_orphaned_profiles([key[0] for key in files.column_counts(["decision_id"])], ids)
    if orphans:
        _delete_decisions(files.path, orphans)
    return len(orphans)


def _forget_lost_files(run: Run, log: str, accept: AcceptedLoss | None) -> None:
    """Forget a log's lost data files if commits contain every entry of them, of each table: all are forgotten at once."""
    path = run.settings.path("ops", log)
    with table_lock(run.settings, f"ops_{log}"):
        files = TableFiles(path)
        if files.state.unreadable:
            raise EvidenceError(f"ops/{log}: its Delta log is unreadable; move {path} away, then run this again for each table")
        tables = {row["partition.table"] for row in files.absent}
        # Gold is derived and judged anew.
        troubles = [
            text for table in sorted(tables) if not table.startswith("gold_") for text in _lost(run.settings, log, table)
        ]
        if troubles and accept is None:
            accepting = f'lakehouse verify --table {run.table} --restore-logs --accept-loss --because "…"'
            raise EvidenceError(
                f"ops/{log} lacks {len(files.absent)} data file(s), and not every entry of them can be written back:"
                f" {'; '.join(troubles)}. Nothing was changed."
                f" Mend: put ops/{log} back from a backup; or give them up: `{accepting}`"
            )
        if tables:
            forget_lost_files(files, guards.log_transactions(run.settings, [run.table], required=run.settings.is_leased))


def _lost(settings: Settings, log: str, table: str) -> list[str]:
    if log == "positions":
        return []  # the extractions contain those of every window that was read
    files = TableFiles(settings.path("ops", log), table)
    decision_files = TableFiles(settings.path("ops", "decisions"), table)
    rows_in_files = decision_files.entries(log_rows.DECISIONS.schema, table, {"checks", "drift", "profiles"})
    in_files = log_rows.decisions_from_rows(rows_in_files)
    decisions = [*in_files, *_read_commits(settings, table).decisions.values()]
    if log == "decisions":
        last = max((row.get("max.number") or 0 for row in files.absent), default=0)
        gaps = find_missing_numbers(decisions, last)
        return [f"{table}: no commit keeps decisions {', '.join(map(str, gaps[:5]))}{', …' * (len(gaps) > 5)}"] if gaps else []
    bronze = TableFiles(settings.path("bronze", table))
    if bronze.state.unreadable or bronze.absent:
        return [f"{table}: bronze is damaged as well"]
    recorded = {r.batch for r in log_rows.extractions_from_rows(files.entries(log_rows.EXTRACTIONS.schema, table))}
    required = {batch for batch, (rows, _) in bronze.extractions().items() if rows} | {d.batch for d in decisions}
    missing = sorted(batch for batch in required - recorded - read_fingerprints(bronze).keys() if batch[0] is not None)
    text = f"{table}: no commit of bronze keeps the fingerprint of"
    return [f"{text} {start_of(batch):%Y-%m-%d %H:%M} #{batch[1]}" for batch in missing[:5]]


@dataclass(frozen=True)
class CommittedDecisions:
    """A table's decisions by its commits; the version and time of silver that applied each first; silver's last commit."""

    decisions: dict[str, Decision]
    applied: dict[str, tuple[int, datetime]]
    last: tuple[int, datetime] | None


def _read_commits(settings: Settings, table: str) -> CommittedDecisions:
    decisions: dict[str, Decision] = {}
    applied: dict[str, tuple[int, datetime]] = {}
    last: tuple[int, datetime] | None = None
    for layer in ("quarantine", "silver"):
        for entry in TableFiles(settings.path(layer, table)).history(ALL):
            text = entry.get("userMetadata")
            decisions |= {d.decision_id: d for d in commit_metadata.decode_decisions(text, table)}
            step, names = commit_metadata.decode_step(text)
            if layer == "silver" and step in OUR_STEPS:
                at = (entry["version"], datetime.fromtimestamp(entry["timestamp"] / 1000, UTC))
                last = max(last or at, at)
                applied |= {name: min(applied.get(name, at), at) for name in names}
    return CommittedDecisions(decisions, applied, last)


def _restore_decisions(run: Run) -> int:
    """Restore lost decisions and lost marks, in one commit. Returns the number of decisions."""
    committed = _read_commits(run.settings, run.table)
    logged = {d.decision_id: d for d in logs.decisions(run.settings, run.table)}
    missing = [d for name, d in committed.decisions.items() if name not in logged]
    missing.sort(key=lambda d: (d.number, d.superseded_by is not None))
    every = [*logged.values(), *missing]
    candidates = [*missing, *(d for d in ledger.lost_marks(every) if d.decision_id in logged)]
    # The next run completes any other decision without a mark: silver may be older than its decisions.
    executed = find_executed(candidates, every, committed.applied, snapshot=run.spec.extraction.mode == "snapshot")
    if not missing and not executed:
        return 0
    marks = [log_rows.mark_row(d, *committed.applied.get(d.decision_id, (None, d.decided_at))) for d in executed]
    if committed.last is not None:
        earlier = [mark for mark in (read_last_mark(run.settings, run.table), find_last_mark(marks)) if mark]
        marks.append(version_row(run.table, run.run_id, run.clock(), committed.last[0], None, earlier))
    logs.restore_entries(run.settings, missing, marks)
    return len(missing)
