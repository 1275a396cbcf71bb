"""Bring lost logs back from what the tables' commits keep: the decisions, their marks, and the extractions of bronze.

Belongs here: what can be restored, and appending it. Does not: what cannot (docs/evidence.md), or mending tables (mend).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakehouse_assets.checks.sql.text import literal
from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.evidence.comparison import (
    find_executed,
    find_missing_numbers,
    find_orphaned_profiles,
    find_unknown_decisions,
)
from lakehouse_assets.errors import EvidenceError
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import commit_metadata, delta, logs
from lakehouse_assets.storage.delta_files import TableFiles, forget_lost_files
from lakehouse_assets.storage.evidence import OUR_STEPS, measure_evidence
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.version_marks import log_abandoned, mark_version

ALL = 1_000_000


@dataclass(frozen=True)
class Restored:
    """Restored entries. ``gaps``: numbers of decisions that no commit has. ``forgotten``: decisions of the baseline alone."""

    decisions: int
    extractions: int
    gaps: list[int]
    forgotten: int = 0
    given_up: int = 0


@dataclass(frozen=True)
class AcceptedLoss:
    """Who gives up what no commit keeps, and why."""

    by: str
    because: str


def restore_logs(run: Run, accept: AcceptedLoss | None = None) -> Restored:
    """Write back what `ops/decisions` and `ops/extractions` lack of a table. No JVM.

    Raises EvidenceError if a log's own Delta log cannot be read, or if it lacks data files of which not every entry can be
    written back: nothing is changed then, so that a backup still helps. With ``accept``, entries that no commit contains are
    given up, which is put on record; the windows of these decisions are judged again.
    """
    with table_lock(run.settings, run.table):
        for log in ("decisions", "extractions"):
            _forget_lost_files(run, log, accept)
        decisions = _restore_decisions(run)
        log_now = logs.decisions(run.settings, run.table)
        extractions = _restore_extractions(run, log_now)
        forgotten = _forget_orphans(run, {decision.decision_id for decision in log_now})
        given_up = _give_up(run, accept) if accept else 0
        return Restored(decisions, extractions, find_missing_numbers(log_now), forgotten, given_up)


def _give_up(run: Run, accept: AcceptedLoss) -> int:
    """Put decisions on record as lost that no commit keeps. Their quarantined rows go: bronze has them, and their windows are
    judged again. Silver is folded anew, whole, by the next run that publishes.
    """
    table = run.table
    ids = find_unknown_decisions(*measure_evidence(run.settings, table, drift=run.spec.drift is not None))
    if not ids:
        return 0
    log_abandoned(run.settings, table, ids, run_id=run.run_id, by=accept.by, because=accept.because, at=run.clock())
    if delta.exists(path := run.path("quarantine")):
        _delete_decisions(path, ids)
    if delta.exists(path := run.path("silver")):
        delta.open_table(path).alter.set_table_properties({delta.MEANING: "none"}, raise_if_not_exists=False)
    run.step(f"{len(ids)}_decisions_given_up")
    return len(ids)


def _delete_decisions(path: str, ids: Collection[str]) -> None:
    delta.open_table(path).delete(f"decision_id IN ({', '.join(map(literal, sorted(ids)))})")


def _forget_orphans(run: Run, ids: Collection[str]) -> int:
    """Remove profiles whose decision the log lacks: the baseline is newer than the lake. Their windows are judged again."""
    files = TableFiles(run.path("baseline"))
    if files.state.version is None or files.state.absent:
        return 0
    orphans = find_orphaned_profiles([key[0] for key in files.column_counts(["decision_id"])], ids)
    if orphans:
        _delete_decisions(files.path, orphans)
        run.step(f"profiles_of_{len(orphans)}_unknown_decisions_removed")
    return len(orphans)


def _forget_lost_files(run: Run, log: str, accept: AcceptedLoss | None) -> None:
    """Forget a log's lost data files if commits contain every entry of them, of each table: all are forgotten at once."""
    path = run.settings.path("ops", log)
    with table_lock(run.settings, f"ops_{log}"):
        files = TableFiles(path)
        if files.state.unreadable:
            raise EvidenceError(f"ops/{log}: its Delta log cannot be read; move {path} away, and do this again for each table")
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
            forget_lost_files(files)


def _lost(settings: Settings, log: str, table: str) -> list[str]:
    files = TableFiles(settings.path("ops", log), table)
    decision_files = TableFiles(settings.path("ops", "decisions"), table)
    in_files = logs.decisions_from_rows(decision_files.entries(logs.DECISIONS.schema, table, {"checks", "drift", "profiles"}))
    decisions = [*in_files, *_read_commits(settings, table).decisions.values()]
    if log == "decisions":
        last = max((row.get("max.number") or 0 for row in files.absent), default=0)
        gaps = find_missing_numbers(decisions, last)
        return [f"{table}: no commit keeps decisions {', '.join(map(str, gaps[:5]))}{', …' * (len(gaps) > 5)}"] if gaps else []
    bronze = TableFiles(settings.path("bronze", table))
    if bronze.state.unreadable or bronze.absent:
        return [f"{table}: bronze is damaged as well"]
    recorded = {r.batch for r in logs.extractions_from_rows(files.entries(logs.EXTRACTIONS.schema, table))}
    required = {batch for batch, (rows, _) in bronze.extractions().items() if rows} | {d.batch for d in decisions}
    missing = sorted(batch for batch in required - recorded - _fingerprints(bronze).keys() if batch[0] is not None)
    text = f"{table}: no commit of bronze keeps the fingerprint of"
    return [f"{text} {start_of(batch):%Y-%m-%d %H:%M} #{batch[1]}" for batch in missing[:5]]


def _fingerprints(bronze: TableFiles) -> dict[Batch, str]:
    """Return the newest fingerprint of each extraction by bronze's commits."""
    fingerprints: dict[Batch, str] = {}
    for entry in bronze.history(ALL):
        fingerprints = {**commit_metadata.decode_fingerprints(entry.get("userMetadata")), **fingerprints}
    return fingerprints


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
    committed = _read_commits(run.settings, run.table)
    logged = {d.decision_id: d for d in logs.decisions(run.settings, run.table)}
    missing = [d for name, d in committed.decisions.items() if name not in logged]
    missing.sort(key=lambda d: (d.number, d.superseded_by is not None))
    if missing:
        logs.restore_decisions(run.settings, missing)
    # The next run completes a decision that the log had without a mark.
    every = [*logged.values(), *missing]
    for decision in find_executed(missing, every, committed.applied, snapshot=run.spec.extraction.mode == "snapshot"):
        version, moment = committed.applied.get(decision.decision_id, (None, decision.decided_at))
        logs.mark_applied(run.settings, [decision], version, moment)
    if committed.last is not None and missing:
        mark_version(run.settings, run.table, run.run_id, run.clock(), committed.last[0], None)
    return len(missing)


def _restore_extractions(run: Run, decisions: Sequence[Decision]) -> int:
    """Restore extractions that are decided or in bronze and not on record, without types, spellings and control totals."""
    bronze = TableFiles(run.path("bronze"))
    records = logs.extractions(run.settings, run.table)
    rows = {batch: count for batch, (count, _) in bronze.extractions().items()}
    newest = {start: r.extraction_seq for start, r in ledger.latest_extractions(records).items()}
    decided = {d.batch: d for d in decisions if d.p_extracted_at is not None}
    in_bronze = {b for b in rows if b in decided or b[1] <= newest.get(start_of(b), 0)}
    missing = sorted(({*decided} | in_bronze) - {r.batch for r in records})
    if not missing:
        return 0
    fingerprints, column_lists = _fingerprints(bronze), _column_lists(run, missing)
    restored = []
    for batch in missing:
        lists = column_lists.get(batch, [])
        columns = tuple(dict.fromkeys(name for names in lists for name in names))
        restored.append(
            ExtractionRecord(
                table=run.table,
                p_extracted_at=start_of(batch),
                extraction_seq=batch[1],
                fingerprint=fingerprints.get(batch, ""),
                rows=decided[batch].counts.rows_in if batch in decided else rows.get(batch, 0),
                columns=columns,
                bronze_version=bronze.state.version or 0,
                run_id=run.run_id,
                extracted_at=run.clock(),
                lacking=tuple(sorted(name for name in columns if not all(name in names for names in lists if names))),
            )
        )
    logs.record_extractions(run.settings, restored)
    return len(restored)


def _column_lists(run: Run, batches: Sequence[Batch]) -> dict[Batch, list[tuple[str, ...]]]:
    """Return of each batch the lists of columns that its files had, by its rows in bronze."""
    path = run.path("bronze")
    if not delta.exists(path) or TableFiles(path).state.absent:
        return {}
    wanted = [("p_extracted_at", "in", sorted({start_of(batch) for batch in batches}))]
    rows: list[dict[str, Any]] = delta.read_arrow(path, ["p_extracted_at", "extraction_seq", "_columns"], wanted).to_pylist()
    lists: dict[Batch, dict[tuple[str, ...], None]] = {}
    for row in rows:
        lists.setdefault((row["p_extracted_at"], row["extraction_seq"]), {})[tuple(row["_columns"] or ())] = None
    return {batch: list(names) for batch, names in lists.items()}
