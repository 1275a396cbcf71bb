"""The rows of `ops/extractions` and `ops/decisions`: their columns, and records ↔ rows.

Belongs here: a log's rows; a new column is a field of `Decision` and in `DECISIONS`. Does not: reading or appending them
(logs), or a decision's meaning.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Counts, Decision, ExtractionRecord, Reason
from lakehouse_assets.decisions.verdict import verdict_with
from lakehouse_assets.storage.log_table import LogTable, log_schema

EXTRACTIONS = LogTable(
    "extractions",
    log_schema(
        "table text!, p_extracted_at moment!, extraction_seq int!, fingerprint text!, rows long!, columns texts!,"
        " bronze_version long!, run_id text!, extracted_at moment!, lacking texts, types text, respelled text, control text,"
        " position text, reading text"
    ),
)
DECISIONS = LogTable(
    "decisions",
    log_schema(
        "table text!, event text!, p_extracted_at moment, extraction_seq int, number long, decision_id text, kind text,"
        " verdict text, ruleset_hash text, ruleset text, run_id text, by text, because text, superseded_by text, inputs text,"
        " evolved text, rows_in long, rows_published long, rows_superseded long, rows_quarantined long, rows_discarded long,"
        " reasons reasons, drift_p_value double, bronze_version long, baseline_version long, silver_version long,"
        " silver_rows long, teaches flag, waived texts, checks text, drift text, profiles text, decided_at moment,"
        " applied_at moment, operation text",
        reasons=pa.list_(pa.struct({f: pa.int64() if f == "rows" else pa.string() for f in Reason.__dataclass_fields__})),
    ),
)


def extraction_row(record: ExtractionRecord) -> dict[str, Any]:
    """Return the row of an extraction."""
    return {
        **asdict(record), "columns": list(record.columns), "lacking": list(record.lacking),
        "types": json.dumps(record.types), "respelled": json.dumps(record.respelled),
        "control": record.control.as_text() if record.control else None,
    }  # fmt: skip


def extractions_from_rows(rows: Iterable[Mapping[str, Any]]) -> list[ExtractionRecord]:
    """Return extractions from rows of one table, by window and number; of a rewritten one its newest record."""
    latest: dict[Batch, ExtractionRecord] = {}
    # Not by bronze's version: bronze may have been rebuilt, or an older copy restored. `record_extractions` handles a clock
    # that was set back.
    for row in sorted(rows, key=lambda r: (r["extracted_at"], r["bronze_version"])):
        lists = {name: tuple(row[name]) for name in ("columns", "lacking")}
        mappings = {name: _parsed(row[name]) for name in ("types", "respelled")}
        control = ControlTotals.from_text(row["control"]) if row["control"] else None
        record = ExtractionRecord(**{**row, **lists, **mappings, "control": control})
        latest[record.batch] = record
    return sorted(latest.values(), key=lambda r: r.batch)


def entry(table: str, event: str, **columns: Any) -> dict[str, Any]:
    """Return a row of `ops/decisions` with these columns, all others NULL."""
    return {**dict.fromkeys(DECISIONS.schema.names), "table": table, "event": event, **columns}


def decision_row(decision: Decision) -> dict[str, Any]:
    """Return the row of a decision."""
    row = entry(decision.table, "superseded" if decision.superseded_by else "decided")
    row |= {name: getattr(decision, name) for name in row.keys() & Decision.__dataclass_fields__.keys()}
    return row | {
        **asdict(decision.counts),
        "decision_id": decision.decision_id,
        "reasons": [asdict(reason) for reason in decision.reasons],
        "waived": list(decision.waived),
        "inputs": json.dumps(_inputs_of(decision), sort_keys=True),
        "evolved": json.dumps(decision.evolved, sort_keys=True),
        "checks": json.dumps(decision.checks),
        "drift": json.dumps(decision.drift) if decision.drift is not None else None,
        "profiles": json.dumps(decision.profiles),
    }


def _inputs_of(decision: Decision) -> dict[str, Any]:
    """What a decision was made from. A column of its own could not be read from the logs of earlier versions."""
    inputs = {"versions": decision.inputs, "recomputed": decision.recomputed}
    more = {"order_span": decision.order_span, "tables": decision.input_tables}
    return inputs | {name: value for name, value in more.items() if value}


def decisions_from_rows(rows: Iterable[Mapping[str, Any]]) -> list[Decision]:
    """Return decisions from rows of the log, in decision order, with their marks and deferred checks."""
    marks: dict[tuple[str, str], Mapping[str, Any]] = {}
    deferred: dict[tuple[str, str], Mapping[str, Any]] = {}
    decided: list[Mapping[str, Any]] = []
    copies: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["event"] == "applied":
            marks[row["table"], row["decision_id"]] = row
        elif row["event"] == "checked":
            deferred[row["table"], row["decision_id"]] = row
        elif row["event"] in ("decided", "superseded"):
            # If the reply to a commit was lost, the commit was repeated: the same row is one decision.
            same = copies.setdefault((row["table"], row["event"], row["decision_id"], row["superseded_by"]), [])
            if not any(dict(row) == dict(other) for other in same):
                same.append(row)
                decided.append(row)
    decided.sort(key=lambda r: (r["table"], r["number"], r["superseded_by"] is not None))
    return [
        _decision(
            row,
            marks.get((row["table"], row["superseded_by"] or row["decision_id"]), {}),
            deferred.get((row["table"], row["decision_id"]), {}),
        )
        for row in decided
    ]


def evidence_from_rows(row: Mapping[str, Any], deferred: Mapping[str, Any]) -> dict[str, Any]:
    """Return checks, drift and profiles of a decision from its row and that of its deferred checks."""
    return {
        "checks": (*_listed(row.get("checks")), *_listed(deferred.get("checks"))),
        "drift": json.loads(row["drift"]) if row.get("drift") else None,
        "profiles": tuple(_listed(row.get("profiles"))),
    }


def _listed(text: str | None) -> list[Any]:
    return json.loads(text) if text else []


@lru_cache(256)
def _parsed(text: str) -> dict[str, Any]:
    """A value that records share, as they share the text."""
    return json.loads(text)


def _decision(row: Mapping[str, Any], mark: Mapping[str, Any], deferred: Mapping[str, Any]) -> Decision:
    inputs, later_reasons = _parsed(row["inputs"]), deferred.get("reasons") or []
    decoded = {
        "verdict": verdict_with(row["verdict"], bool(later_reasons)),
        "counts": Counts(**{name: row[name] for name in Counts.__dataclass_fields__}),
        "reasons": tuple(Reason(**reason) for reason in [*row["reasons"], *later_reasons]),
        "waived": tuple(row["waived"]),
        "inputs": inputs["versions"],
        "recomputed": None if inputs["recomputed"] is None else tuple(inputs["recomputed"]),
        "order_span": inputs.get("order_span"),
        "input_tables": inputs.get("tables", {}),
        "evolved": _parsed(row["evolved"]),
        "silver_version": mark.get("silver_version"),
        "applied_at": mark.get("applied_at"),
    } | evidence_from_rows(row, deferred)
    return Decision(**{name: row[name] for name in Decision.__dataclass_fields__ if name in row} | decoded)


def mark_row(decision: Decision, version: int | None, at: datetime, rows_now: int | None = None) -> dict[str, Any]:
    """Return the row of a decision's mark, as `mark_applied` appends it."""
    mark = {"silver_version": version, "silver_rows": rows_now, "applied_at": at}
    return entry(decision.table, "applied", decision_id=decision.decision_id, **mark)
