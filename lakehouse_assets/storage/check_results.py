"""`ops/check_results`: each check of each applied decision as a row, passes included; a projection of the decisions' log.

Belongs here: what a row is, and appending those that are missing. Does not: deciding, or anything that reads the table. It can
be deleted at any time: it is made again from the log.
"""

import json
from typing import Any

import pyarrow as pa

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.lock import table_lock

_OF_DECISION = ("run_id", "decided_at", "applied_at")
CHECK_RESULTS = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("decision_id", pa.string(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("p_extracted_at", logs.MOMENT),
        pa.field("extraction_seq", pa.int32(), nullable=False),
        *[pa.field(name, pa.string(), nullable=False) for name in ("check", "kind", "severity", "status", "effect")],
        pa.field("waived", pa.bool_(), nullable=False),
        pa.field("failed_rows", pa.int64(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("observed", pa.string(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("decided_at", logs.MOMENT, nullable=False),
        pa.field("applied_at", logs.MOMENT, nullable=False),
    ]
)
LOCK = "ops_check_results"


def project(settings: Settings, table: str, wait_seconds: float = 60) -> int:
    """Append what the projection of a table lacks, in one commit. Returns how many rows that were.

    A decision is there as a whole or not at all, and is looked for by its id: whatever order decisions were applied in, none is
    missed, and none is there twice. Raises LockedError where another process has been writing for longer than the wait.
    """
    with table_lock(settings, LOCK, wait_seconds):
        there = _projected(settings, table)
        known = logs.decisions(settings, table, evidence=False)
        missing = [d for d in known if d.applied_at and d.superseded_by is None and d.decision_id not in there]
        rows = [row for d in logs.with_evidence(settings, table, missing, ["checks"]) for row in _rows(d)]
        if rows:
            found = pa.Table.from_pylist(rows, CHECK_RESULTS)
            delta.append_arrow(found, settings.path("ops", "check_results"), partition_by=["table"])
        return len(rows)


def lagging(settings: Settings) -> list[str]:
    """Tables with an applied decision whose checks are not projected yet. No lock is taken."""
    path = settings.path("ops", "decisions")
    judged = delta.read_arrow(
        path, ["table", "decision_id"], [("event", "in", ["decided", "checked"]), ("checks", "!=", "[]")]
    ).to_pylist()
    marks = delta.read_arrow(path, ["table", "decision_id"], [("event", "=", "applied")]).to_pylist()
    due = {(row["table"], row["decision_id"]) for row in judged} & {(row["table"], row["decision_id"]) for row in marks}
    place = settings.path("ops", "check_results")
    return sorted({table for table, _ in due - {(r["table"], r["decision_id"]) for r in _ids(place, None)}})


def _projected(settings: Settings, table: str) -> set[str]:
    return {row["decision_id"] for row in _ids(settings.path("ops", "check_results"), [("table", "=", table)])}


def _ids(path: str, filters: Any) -> list[dict[str, Any]]:
    return delta.read_arrow(path, ["table", "decision_id"], filters).to_pylist()


def _rows(decision: Decision) -> list[dict[str, Any]]:
    """A record of supersession has none: nothing was checked for it, and what was checked before stands under its own id."""
    if decision.superseded_by is not None:
        return []
    same = {"table": decision.table, "decision_id": decision.decision_id, "number": decision.number}
    same |= {"p_extracted_at": decision.p_extracted_at, "extraction_seq": decision.extraction_seq}
    same |= {name: getattr(decision, name) for name in _OF_DECISION}
    return [
        {**same, **check, "message": check["message"] or "", "observed": json.dumps(check["observed"], sort_keys=True)}
        for check in decision.checks
    ]
