"""A table's evidence on disk and on record: from Delta's logs and file statistics, without a JVM.

Belongs here: counting. Does not: comparing the counts (decisions/evidence), or acting on a finding (pipeline).
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.evidence.findings import Change, Inventory, Layer, LoggedEvidence, TableState
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import commit_metadata
from lakehouse_assets.storage.baseline import BaselineEvent, baseline_events
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets.storage.logs import DECISIONS, EXTRACTIONS, decisions_from_rows, extractions_from_rows
from lakehouse_assets.storage.source_positions import measure_positions
from lakehouse_assets.storage.version_marks import Mark, abandoned_decisions, find_last_mark

# How many of the newest commits of silver and quarantine are read for the decisions that they name.
COMMITS_READ = 20
OUR_STEPS = frozenset({"silver", "rebuild"})
# They leave the rows as they are.
ROWLESS_OPERATIONS = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "ADD COLUMNS", "CHANGE COLUMN"})


def measure_evidence(settings: Settings, table: str, *, drift: bool) -> tuple[LoggedEvidence, Inventory]:
    """Return what is on record of a table, and what is on disk, damage included. ``drift``: whether it has a baseline."""
    files = {layer: TableFiles(settings.path(layer, table)) for layer in ("bronze", "silver", "quarantine", "baseline")}
    files |= {f"ops/{log}": TableFiles(settings.path("ops", log), table) for log in ("decisions", "extractions", "baselines")}
    tables: dict[Layer, TableState] = {layer: table_files.state for layer, table_files in files.items()}  # type: ignore[misc]
    if any(tables[log].absent or tables[log].unreadable for log in ("ops/decisions", "ops/extractions")):
        return LoggedEvidence(), Inventory(tables)
    entries = files["ops/decisions"].entries(DECISIONS.schema, table, {"checks", "drift", "profiles"})
    extracted = files["ops/extractions"].entries(EXTRACTIONS.schema, table)
    tables["ops/positions"], positions = measure_positions(settings, table, extracted)
    decisions, mark = decisions_from_rows(entries), find_last_mark(entries)
    record, inventory = LoggedEvidence(decisions=decisions), Inventory()
    if drift:
        record, inventory = _measure_baseline(settings, table, decisions, files["baseline"], files["ops/baselines"])
    record = replace(
        record,
        extractions=extractions_from_rows(extracted),
        recorded_twice=find_double_records(extracted),
        given_up=abandoned_decisions(entries),
        silver=(mark.version, mark.rows) if mark else None,
    )
    since = (tables["silver"].version or 0) - mark.version if mark else 0
    silver = files["silver"].history(max(COMMITS_READ, since))
    quarantine = files["quarantine"].history(COMMITS_READ)
    bronze = files["bronze"].extractions()
    inventory = replace(
        inventory,
        tables=tables,
        bronze={batch: rows for batch, (rows, _) in bronze.items()},
        written={batch: at for batch, (_, at) in bronze.items()},
        positions=positions,
        in_silver={name for entry in silver for name in commit_metadata.decode_step(entry.get("userMetadata"))[1]},
        quarantine={key[0]: rows for key, rows in files["quarantine"].column_counts(["decision_id"]).items()},
        changes=_changes(silver, mark, tables["silver"]),
        named=[name for entry in (*silver, *quarantine) for name in commit_metadata.decode_step(entry.get("userMetadata"))[1]],
    )
    return record, inventory


def measure_baseline_evidence(
    settings: Settings, table: str, decisions: Sequence[Decision]
) -> tuple[LoggedEvidence, Inventory]:
    """Return the same of the baseline alone. ``decisions``: the table's decisions."""
    baseline, log = TableFiles(settings.path("baseline", table)), TableFiles(settings.path("ops", "baselines"), table)
    return _measure_baseline(settings, table, decisions, baseline, log)


def _measure_baseline(
    settings: Settings, table: str, decisions: Sequence[Decision], baseline: TableFiles, log: TableFiles
) -> tuple[LoggedEvidence, Inventory]:
    events = [] if log.state.absent or log.state.unreadable else baseline_events(settings, table)
    # Windows by decision or seed.
    counted = Counter(key[0] for key in baseline.column_counts(["decision_id", "p_extracted_at"]))
    profiles = {name: count for name, count in counted.items() if name is not None}
    joining = required_profiles(decisions, events)
    record = LoggedEvidence(
        decisions=decisions,
        teaching=joining,
        unmeasured=find_unmeasured(settings, table, [decision_id for decision_id in joining if decision_id not in profiles]),
        seeds=_count_seeds(events),
        last_event=max((event.at for event in events), default=None),
    )
    tables: dict[Layer, TableState] = {"baseline": baseline.state, "ops/baselines": log.state}
    return record, Inventory(tables=tables, profiles=profiles, last_event=_last_event(baseline.history(COMMITS_READ)))


def required_profiles(decisions: Sequence[Decision], events: Sequence[BaselineEvent]) -> list[str]:
    """Return ids of applied decisions whose profiles the baseline must hold: those that join it, since the last reset."""
    since = max((event.after for event in events if event.kind == "reset"), default=-1)
    last = max((decision.number for decision in decisions), default=0)
    by_id, numbers = {d.decision_id: d for d in decisions}, ledger.taught_at(decisions, last)
    return [
        decision_id
        for decision_id in ledger.teaching(decisions, last)
        if by_id[decision_id].applied_at is not None and numbers.get(by_id[decision_id].batch, 0) > since
    ]


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


def find_double_records(rows: Sequence[dict[str, Any]]) -> set[Batch]:
    """Return extractions that two runs recorded with the same fingerprint, one right after the other.

    With another fingerprint between them, the source was changed and restored before the window was judged.
    """
    batches: set[Batch] = set()
    last: dict[Batch, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda r: r["extracted_at"]):
        batch = (row["p_extracted_at"], row["extraction_seq"])
        earlier = last.get(batch)
        if earlier and earlier["fingerprint"] == row["fingerprint"] and earlier["run_id"] != row["run_id"]:
            batches.add(batch)
        last[batch] = row
    return batches


def _changes(history: Sequence[dict[str, Any]], mark: Mark | None, silver: TableState) -> list[Change] | None:
    """Return silver's commits since the recorded version, oldest first; None if one is no longer in the log."""
    if mark is None or silver.version is None:
        return []
    newer = sorted((e for e in history if (e.get("version") or 0) > mark.version), key=lambda e: e["version"])
    if len(newer) < silver.version - mark.version:
        return None
    return [_change(entry) for entry in newer]


def _change(entry: dict[str, Any]) -> Change:
    operation, metrics = entry.get("operation", "unknown"), entry.get("operationMetrics") or {}
    mode = (entry.get("operationParameters") or {}).get("mode")
    ours = commit_metadata.decode_step(entry.get("userMetadata"))[0] in OUR_STEPS

    def number(name: str) -> int | None:
        return int(metrics[name]) if str(metrics.get(name, "")).isdigit() else None

    rows: int | None = None
    if operation in ROWLESS_OPERATIONS:
        rows = 0
    elif operation == "WRITE":
        rows = number("numOutputRows")
    elif operation == "MERGE":
        inserted, deleted = number("numTargetRowsInserted"), number("numTargetRowsDeleted")
        rows = None if inserted is None or deleted is None else inserted - deleted
    return Change(entry["version"], operation, ours, rows, whole=operation == "WRITE" and mode == "Overwrite")


def _last_event(history: Sequence[dict[str, Any]]) -> datetime | None:
    texts = (commit_metadata.decode_last_event(entry.get("userMetadata")) for entry in history)
    newest = next((text for text in texts if text is not None), "")
    return datetime.fromisoformat(newest) if newest else None
