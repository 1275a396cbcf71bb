"""A table's evidence on disk and on record: from Delta's logs and file statistics, without a JVM.

Belongs here: counting. Does not: comparing the counts (decisions/evidence), or acting on a finding (pipeline).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger, log_parts
from lakehouse_assets.decisions.evidence.findings import Change, Inventory, Layer, LoggedEvidence, TableState
from lakehouse_assets.decisions.extraction_log import extraction_log_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import commit_metadata
from lakehouse_assets.storage.baseline import BaselineEvent, baseline_events
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets.storage.kept_missing import kept_missing
from lakehouse_assets.storage.leases import FENCE
from lakehouse_assets.storage.log_rows import DECISIONS
from lakehouse_assets.storage.logs import view_decisions, view_extractions
from lakehouse_assets.storage.source_positions import measure_positions
from lakehouse_assets.storage.version_marks import Mark, abandoned_decisions, find_last_mark, read_last_mark

# How many of the newest commits of silver and quarantine are read for the decisions that they name.
COMMITS_READ = 20
# The same of bronze, for the commits of extractions that are being recorded.
EXTRACTIONS_READ = 100
# One row of the baseline: a feature of a window, in a stratum.
PROFILE_IDENTITY = ("decision_id", "p_extracted_at", "feature", "stratum")
OUR_STEPS = frozenset({"silver", "rebuild"})
# They leave the rows as they are. Of any other program's commit its file says whether rows changed.
ROWLESS_OPERATIONS = frozenset(
    {"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "ADD COLUMNS", "CHANGE COLUMN", FENCE}
)


def measure_evidence(settings: Settings, table: str, *, drift: bool) -> tuple[LoggedEvidence, Inventory]:
    """Return what is on record of a table, and what is on disk, damage included. ``drift``: whether it has a baseline."""
    files = {layer: TableFiles(settings.path(layer, table)) for layer in ("bronze", "silver", "quarantine", "baseline")}
    files |= {f"ops/{log}": TableFiles(settings.path("ops", log), table) for log in ("decisions", "extractions", "baselines")}
    tables: dict[Layer, TableState] = {layer: table_files.state for layer, table_files in files.items()}  # type: ignore[misc]
    if any(tables[log].absent or tables[log].unreadable for log in ("ops/decisions", "ops/extractions")):
        return LoggedEvidence(), Inventory(tables)
    extractions, doubled = view_extractions(settings, table, lambda fold: (fold.records, set(fold.doubled)))
    decisions, marks = view_decisions(settings, table, lambda fold: (fold.decisions, fold.marks))
    tables["ops/positions"], positions = measure_positions(settings, table, extractions)
    mark = find_last_mark(marks)
    record, inventory = LoggedEvidence(decisions=decisions), Inventory()
    if drift:
        record, inventory, _ = _measure_baseline(settings, table, decisions, files["baseline"], files["ops/baselines"])
    record = replace(
        record,
        extractions=extractions,
        recorded_twice=doubled,
        given_up=abandoned_decisions(marks),
        silver=(mark.version, mark.rows) if mark else None,
    )
    silver = _read_history(files["silver"], mark)
    quarantine = files["quarantine"].history(COMMITS_READ)
    bronze = files["bronze"].rows_by_extraction()
    inventory = replace(
        inventory,
        tables=tables,
        bronze=bronze,
        unrecorded=_find_unrecorded(files["bronze"], bronze, record),
        positions=positions,
        in_silver={name for entry in silver for name in commit_metadata.decode_step(entry.get("userMetadata"))[1]},
        quarantine=files["quarantine"].rows_by_decision(),
        changes=_changes(files["silver"], silver, mark),
        named=[name for entry in (*silver, *quarantine) for name in commit_metadata.decode_step(entry.get("userMetadata"))[1]],
    )
    return record, inventory


def measure_silver_evidence(settings: Settings, table: str) -> tuple[LoggedEvidence, Inventory]:
    """Return the same of silver alone: its last mark, and its commits since."""
    mark, files = read_last_mark(settings, table), TableFiles(settings.path("silver", table))
    changes = _changes(files, _read_history(files, mark), mark)
    silver = (mark.version, mark.rows) if mark else None
    return LoggedEvidence(silver=silver), Inventory({"silver": files.state}, changes=changes)


def measure_baseline_evidence(
    settings: Settings, table: str, decisions: Sequence[Decision]
) -> tuple[LoggedEvidence, Inventory]:
    """Return the same of the baseline alone. ``decisions``: the table's decisions. Where no file is damaged, the record has of
    those that join only those whose profiles are not there once.
    """
    baseline, log = TableFiles(settings.path("baseline", table)), TableFiles(settings.path("ops", "baselines"), table)
    record, inventory, joining = _measure_baseline(settings, table, decisions, baseline, log)
    if any(state.absent or state.unreadable for state in (log.state, baseline.state)):
        return record, inventory
    missing = kept_missing(baseline.path, joining, inventory.profiles)
    suspects = {name: joining[name] for name in sorted({*missing, *inventory.doubled}) if name in joining}
    return replace(record, teaching=[*suspects], decisions=[*suspects.values()]), inventory


def _measure_baseline(
    settings: Settings, table: str, decisions: Sequence[Decision], baseline: TableFiles, log: TableFiles
) -> tuple[LoggedEvidence, Inventory, Mapping[str, Decision]]:
    """The last of the three: the decisions whose profiles must be there, by id."""
    events = [] if log.state.absent or log.state.unreadable else baseline_events(settings, table)
    # Windows by decision or seed.
    profiles = baseline.windows_by_source()
    joining = required_profiles(decisions, events)
    record = LoggedEvidence(
        decisions=decisions,
        teaching=joining,
        unmeasured=find_unmeasured(settings, table, kept_missing(baseline.path, joining, profiles)),
        seeds=_count_seeds(events),
        last_event=max((event.at for event in events), default=None),
    )
    tables: dict[Layer, TableState] = {"baseline": baseline.state, "ops/baselines": log.state}
    doubled = {name for name in baseline.find_doubled(PROFILE_IDENTITY) if name is not None}
    last_event = _last_event(baseline.history(COMMITS_READ))
    return record, Inventory(tables=tables, profiles=profiles, doubled=doubled, last_event=last_event), joining


def required_profiles(decisions: Sequence[Decision], events: Sequence[BaselineEvent]) -> Mapping[str, Decision]:
    """Return applied decisions whose profiles the baseline must hold, by id: those that join it, since the last reset."""
    since = max((event.after for event in events if event.kind == "reset"), default=-1)
    if since < 0 and (profiled := log_parts.profiled_decisions(decisions)) is not None:
        return profiled
    joined, origins = ledger.joined_decisions(decisions, ledger.last_number(decisions))
    if origins or since >= 0:
        joined = [d for d in joined if origins.get(d.batch, d).number > since]
    return {d.decision_id: d for d in joined if d.applied_at is not None}


def _count_seeds(events: Sequence[BaselineEvent]) -> dict[str, int]:
    resets = [index for index, event in enumerate(events) if event.kind == "reset"]
    current = events[resets[-1] + 1 :] if resets else events
    return {event.seed_id: int(event.extra.get("windows", 0)) for event in current if event.kind == "seed"}


def find_unmeasured(settings: Settings, table: str, missing: Collection[str]) -> set[str]:
    """Return those of the decisions without profiles that had nothing to measure, by the log."""
    if not missing:
        return set()
    wanted = [("table", "=", table), ("event", "=", "decided"), ("decision_id", "in", sorted(missing)), ("profiles", "=", "[]")]
    return {row["decision_id"] for row in DECISIONS.read(settings, ["decision_id"], wanted)}


def count_extracted_rows(path: str, batches: Collection[Batch]) -> dict[Batch, tuple[int, int]]:
    """Return rows and bronze version of each extraction as its own commit left them, whatever other programs have committed
    since. Of one without a commit among the newest (``EXTRACTIONS_READ``), as it is now.
    """
    files, versions = TableFiles(path), dict[Batch, int]()
    # Nearly always the newest commit has all of them.
    for limit in (1, EXTRACTIONS_READ):
        for entry in files.history(limit):
            for batch in commit_metadata.decode_fingerprints(entry.get("userMetadata")):
                versions.setdefault(batch, entry["version"])
        if versions.keys() >= set(batches):
            break
    newest = files.state.version or 0
    commits = {batch: versions.get(batch, newest) for batch in batches}
    starts = [start_of(batch) for batch in batches]
    counted = {v: (files if v == newest else TableFiles(path, version=v)).extractions(starts) for v in {*commits.values()}}
    return {batch: (counted[v][batch][0] if batch in counted[v] else 0, v) for batch, v in commits.items()}


def committed_fingerprints(path: str, batches: Collection[Batch]) -> dict[Batch, tuple[str, str | None]]:
    """Return the fingerprint of what bronze has of each extraction, and the keys that it was read by (None: not stored). They
    are those of its newest commits (``EXTRACTIONS_READ``).
    """
    newest: dict[Batch, tuple[str, str | None]] = {}
    for entry in TableFiles(path).history(EXTRACTIONS_READ):
        text = entry.get("userMetadata")
        prints, reading = commit_metadata.decode_fingerprints(text), commit_metadata.decode_reading(text)
        newest = {**{batch: (print_, reading) for batch, print_ in prints.items()}, **newest}
    return {batch: newest[batch] for batch in batches if batch in newest}


def _find_unrecorded(bronze: TableFiles, batches: Mapping[Batch, int], record: LoggedEvidence) -> set[Batch]:
    """Return undecided extractions with other rows than on record that bronze has a newer commit of."""
    extractions = extraction_log_of(record.extractions).by_batch
    undecided = kept_missing(bronze.path, extractions, ledger.current_decisions(record.decisions))
    others = [e for e in map(extractions.__getitem__, undecided) if batches.get(e.batch, 0) != e.rows]
    recorded = {extraction.batch: extraction.bronze_version for extraction in others}
    committed = [
        (batch, commit["version"])
        for commit in (bronze.history(EXTRACTIONS_READ) if recorded else [])
        for batch in commit_metadata.decode_fingerprints(commit.get("userMetadata"))
    ]
    return {batch for batch, version in committed if batch in recorded and version > recorded[batch]}


def _read_history(silver: TableFiles, mark: Mark | None) -> list[dict[str, Any]]:
    """Return silver's commits since the mark, and at least its newest ones; newest first."""
    return silver.history(max(COMMITS_READ, (silver.state.version or 0) - _marked_version(mark)))


def _marked_version(mark: Mark | None) -> int:
    """Return the recorded version; -1 before the first mark: every commit is newer."""
    return mark.version if mark else -1


def _changes(silver: TableFiles, history: Sequence[dict[str, Any]], mark: Mark | None) -> list[Change]:
    """Return silver's commits since the recorded version, oldest first. One entry stands for those no longer in the log."""
    since, version = _marked_version(mark), silver.state.version
    if version is None:
        return []
    newer = sorted((e for e in history if e["version"] > since), key=lambda e: e["version"])
    lost = version - since - len(newer)
    gap = [Change(since + lost, "no longer in the log", True, None)] if lost > 0 else []
    return [*gap, *(_change(silver, entry) for entry in newer)]


def _change(silver: TableFiles, entry: dict[str, Any]) -> Change:
    operation, metrics = entry.get("operation", "unknown"), entry.get("operationMetrics") or {}
    mode = (entry.get("operationParameters") or {}).get("mode")
    ours = commit_metadata.decode_step(entry.get("userMetadata"))[0] in OUR_STEPS

    def number(name: str) -> int | None:
        return int(metrics[name]) if str(metrics.get(name, "")).isdigit() else None

    rows: int | None = None
    if operation in ROWLESS_OPERATIONS or not (ours or silver.changes_rows(entry["version"])):
        return Change(entry["version"], operation, ours, 0)
    if operation == "WRITE":  # Spark's, or `deltalake`'s
        rows = number("numOutputRows") if "numOutputRows" in metrics else number("num_added_rows")
        rows = silver.rows_added(entry["version"]) if not metrics else rows  # files that became the table's own
    elif operation == "MERGE":
        inserted, deleted = number("numTargetRowsInserted"), number("numTargetRowsDeleted")
        rows = None if inserted is None or deleted is None else inserted - deleted
        rows = silver.rows_added(entry["version"]) if not metrics else rows  # few rows (small_merges)
    return Change(entry["version"], operation, ours, rows, replaces_all=operation == "WRITE" and mode == "Overwrite")


def _last_event(history: Sequence[dict[str, Any]]) -> datetime | None:
    texts = (commit_metadata.decode_last_event(entry.get("userMetadata")) for entry in history)
    newest = next((text for text in texts if text is not None), "")
    return datetime.fromisoformat(newest) if newest else None
