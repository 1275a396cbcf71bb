"""The logs `ops/extractions` and `ops/decisions`: reading and appending.

Belongs here: what is read of a log, and what one commit adds. Does not: their columns (log_rows), or a decision's meaning.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.decisions import log_parts
from lakehouse_assets.decisions.extraction_log import ExtractionLog
from lakehouse_assets.decisions.outcome import Outcome
from lakehouse_assets.decisions.verdict import reasons_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.decision_claims import claim_numbers
from lakehouse_assets.storage.folded_log import Rows, read_folded
from lakehouse_assets.storage.log_folds import DecisionFold, ExtractionFold
from lakehouse_assets.storage.log_rows import (
    DECISIONS,
    EXTRACTIONS,
    decision_row,
    decisions_from_rows,
    entry,
    evidence_from_rows,
    extraction_row,
    extractions_from_rows,
    mark_row,
)

View = TypeVar("View")


def extractions(settings: Settings, table: str) -> ExtractionLog:
    """Return every extraction of the table by window and number; of a rewritten one its newest record."""
    return view_extractions(settings, table, lambda fold: fold.records)


def view_extractions(settings: Settings, table: str, view: Callable[[ExtractionFold], View]) -> View:
    """Return ``view`` of a table's extractions."""
    return read_folded(EXTRACTIONS.path(settings), table, EXTRACTIONS.schema.names, _fold_extractions, view)


def _fold_extractions(rows: Rows, _: Sequence[str]) -> ExtractionFold:
    return ExtractionFold(extractions_from_rows, rows)


def record_extractions(settings: Settings, records: Sequence[ExtractionRecord]) -> list[ExtractionRecord]:
    """Append the records of one bronze commit, and return them as logged.

    Each record's time is after those of its table's existing records, even if the clock was set back: the newest record of an
    extraction counts.
    """
    with EXTRACTIONS.lock(settings):
        first: dict[str, datetime] = {}
        for table in {record.table for record in records}:
            if last := view_extractions(settings, table, lambda fold: fold.last_at):
                first[table] = last + timedelta(microseconds=1)
        logged = [replace(r, extracted_at=max(r.extracted_at, first.get(r.table, r.extracted_at))) for r in records]
        EXTRACTIONS.append(settings, [extraction_row(record) for record in logged])
    return logged


def decisions(
    settings: Settings, table: str | None = None, *, evidence: bool = False, checks: bool = False
) -> Sequence[Decision]:
    """Return every decision in order, applied ones with their mark; a supersession comes after the decision that caused it.

    ``checks``: with every check's result. ``evidence``: with that, profiles and drift.
    """
    left_out = set() if evidence else {"profiles", "drift"}
    if checks or evidence:
        columns = [name for name in DECISIONS.schema.names if name not in left_out]
        return decisions_from_rows(DECISIONS.read(settings, columns, [("table", "=", table)] if table else []))
    if table:
        return view_decisions(settings, table, lambda fold: fold.decisions)
    return [d for each in DECISIONS.tables(settings) for d in view_decisions(settings, each, lambda fold: fold.decisions)]


def view_decisions(settings: Settings, table: str, view: Callable[[DecisionFold], View]) -> View:
    """Return ``view`` of a table's decisions without evidence."""
    columns = [name for name in DECISIONS.schema.names if name not in {"profiles", "drift", "checks"}]
    return read_folded(DECISIONS.path(settings), table, columns, _fold_decisions, view)


def _fold_decisions(rows: Rows, files: Sequence[str]) -> DecisionFold:
    return DecisionFold(decisions_from_rows, rows, files)


def with_evidence(
    settings: Settings, table: str, chosen: Iterable[Decision], kinds: Sequence[str] = ("checks", "drift", "profiles")
) -> list[Decision]:
    """Return these decisions with checks, drift and profiles. Reads only the files of the log that have them."""
    chosen = list(chosen)
    if not chosen:
        return []
    ids = sorted({d.decision_id for d in chosen})
    wanted = [("table", "=", table), ("decision_id", "in", ids), ("event", "!=", "applied")]
    files = view_decisions(settings, table, lambda fold: fold.files_of(ids))
    rows = DECISIONS.read(settings, ["decision_id", "event", *kinds], wanted, files)
    by_event = {(row["event"], row["decision_id"]): row for row in rows}
    completed = []
    for decision in chosen:
        row = by_event.get(("superseded" if decision.superseded_by else "decided", decision.decision_id), {})
        completed.append(replace(decision, **evidence_from_rows(row, by_event.get(("checked", decision.decision_id), {}))))
    return completed


def read_drift(settings: Settings, table: str, first: datetime, last: datetime) -> dict[str, dict[str, Any]]:
    """Return the drift evidence of decisions on the windows from ``first`` to ``last``, by decision id."""
    ids = [decision.decision_id for decision in log_parts.decided_between(decisions(settings, table), first, last)]
    files = view_decisions(settings, table, lambda fold: fold.files_of(ids))
    chosen = [("table", "=", table), ("p_extracted_at", ">=", first), ("p_extracted_at", "<=", last), ("event", "=", "decided")]
    rows = DECISIONS.read(settings, ["decision_id", "drift"], chosen, files)
    return {row["decision_id"]: json.loads(row["drift"]) for row in rows if row["drift"]}


def log_decisions(settings: Settings, decisions: Sequence[Decision]) -> None:
    """Append all decisions of a run in one commit, before anything is published: the write-ahead log.

    Where several machines write, their numbers are claimed by that commit. Raises RefusedError if a number is taken.
    """
    log, claims = claim_numbers(settings, DECISIONS, decisions)
    DECISIONS.append(settings, [decision_row(decision) for decision in decisions], claims, log)


def restore_entries(settings: Settings, decisions: Sequence[Decision], marks: Sequence[Mapping[str, Any]]) -> None:
    """Append lost decisions and lost marks in one commit: a decision without its mark would be applied again. Profiles of the
    decisions stay NULL for "unknown"; "none" would be `[]`.
    """
    DECISIONS.append(settings, [*(decision_row(decision) | {"profiles": None} for decision in decisions), *marks])


def log_checked(settings: Settings, later: Sequence[tuple[Decision, Sequence[Outcome]]]) -> None:
    """Append the outcomes of deferred checks. If a recovery repeats them, the last ones count."""
    rows = []
    for decision, outcomes in later:
        reasons, checks = [asdict(reason) for reason in reasons_of(outcomes)], [outcome.as_dict() for outcome in outcomes]
        evidence = {"reasons": reasons, "checks": json.dumps(checks)}
        rows.append(entry(decision.table, "checked", decision_id=decision.decision_id, **evidence))
    DECISIONS.append(settings, rows)


def mark_applied(
    settings: Settings, decisions: Sequence[Decision], version: int | None, at: datetime, rows_now: int | None = None
) -> None:
    """Mark decisions whose rows are completely in the tables: the last step. ``rows_now``: rows of that version."""
    DECISIONS.append(settings, [mark_row(decision, version, at, rows_now) for decision in decisions])
