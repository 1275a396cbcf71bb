"""The append-only logs under `ops/`: extractions and decisions. Read and written without a JVM, in one commit each.

Belongs here: rows ↔ records. Does not: what a decision means (decisions) or when one is made (layers).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.contracts.decision import Counts, Decision, ExtractionRecord, Reason
from lakehouse_assets.decisions.gate import Outcome, reasons_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.lock import table_lock

MOMENT = pa.timestamp("us", tz="UTC")
EXTRACTIONS = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("p_extracted_at", MOMENT, nullable=False),
        pa.field("extraction_seq", pa.int32(), nullable=False),
        pa.field("fingerprint", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("columns", pa.list_(pa.string()), nullable=False),
        pa.field("bronze_version", pa.int64(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("extracted_at", MOMENT, nullable=False),
        pa.field("lacking", pa.list_(pa.string())),
        pa.field("types", pa.string()),
        pa.field("respelled", pa.string()),
        pa.field("control", pa.string()),
    ]
)
_REASON = pa.struct(
    {
        "check": pa.string(),
        "severity": pa.string(),
        "status": pa.string(),
        "effect": pa.string(),
        "rows": pa.int64(),
        "message": pa.string(),
    }
)
_TEXT = (
    "decision_id",
    "kind",
    "verdict",
    "ruleset_hash",
    "ruleset",
    "run_id",
    "by",
    "because",
    "superseded_by",
    "inputs",
    "evolved",
)
DECISIONS = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("p_extracted_at", MOMENT),
        pa.field("extraction_seq", pa.int32()),
        pa.field("number", pa.int64()),
        *[pa.field(name, pa.string()) for name in _TEXT],
        *[pa.field(name, pa.int64()) for name in Counts.__dataclass_fields__],
        pa.field("reasons", pa.list_(_REASON)),
        pa.field("drift_p_value", pa.float64()),
        pa.field("bronze_version", pa.int64()),
        pa.field("baseline_version", pa.int64()),
        pa.field("silver_version", pa.int64()),
        pa.field("teaches", pa.bool_()),
        pa.field("waived", pa.list_(pa.string())),
        pa.field("checks", pa.string()),
        pa.field("drift", pa.string()),
        pa.field("profiles", pa.string()),
        pa.field("decided_at", MOMENT),
        pa.field("applied_at", MOMENT),
    ]
)


def extractions(settings: Settings, table: str) -> list[ExtractionRecord]:
    """Every extraction of the table, in the order they were recorded; a rewritten one stands as it is now."""
    found = delta.read_arrow(settings.path("ops", "extractions"), filters=[("table", "=", table)])
    latest: dict[tuple[datetime, int], ExtractionRecord] = {}
    for row in sorted(found.to_pylist(), key=lambda r: (r["extracted_at"], r["bronze_version"])):
        lists = {name: tuple(row.get(name) or ()) for name in ("columns", "lacking")}
        told = {name: json.loads(row.get(name) or "{}") for name in ("types", "respelled")}
        control = ControlTotals.from_text(row["control"]) if row.get("control") else None
        record = ExtractionRecord(**{**row, **lists, **told, "control": control})
        latest[(record.p_extracted_at, record.extraction_seq)] = record
    return sorted(latest.values(), key=lambda r: (r.p_extracted_at, r.extraction_seq))


def record_extractions(settings: Settings, records: Sequence[ExtractionRecord]) -> None:
    """Append the records of one bronze commit."""
    rows = [
        {
            **asdict(r), "columns": list(r.columns), "lacking": list(r.lacking),
            "types": json.dumps(r.types), "respelled": json.dumps(r.respelled),
            "control": r.control.as_text() if r.control else None,
        }
        for r in records
    ]  # fmt: skip
    _write(settings, "extractions", rows, EXTRACTIONS)


def decisions(
    settings: Settings, table: str | None = None, *, evidence: bool = True, checks: bool | None = None
) -> list[Decision]:
    """Every decision in the order it was made, those applied with their mark; what it superseded comes after it.

    ``evidence``: profiles and drift as well. ``checks``: every check's result (default: as ``evidence``).
    """
    left_out = set() if evidence else {"profiles", "drift"}
    left_out |= set() if (evidence if checks is None else checks) else {"checks"}
    columns = [f.name for f in DECISIONS if f.name not in left_out]
    found = delta.read_arrow(settings.path("ops", "decisions"), columns, [("table", "=", table)] if table else None)
    marks: dict[tuple[str, str], dict[str, Any]] = {}
    later: dict[tuple[str, str], dict[str, Any]] = {}
    decided: list[dict[str, Any]] = []
    for row in found.to_pylist():
        if row["event"] == "applied":
            marks[(row["table"], row["decision_id"])] = row
        elif row["event"] == "checked":
            later[(row["table"], row["decision_id"])] = row
        else:
            decided.append(row)
    decided.sort(key=lambda r: (r["table"], r["number"], r["superseded_by"] is not None))
    return [
        _decision(
            row,
            marks.get((row["table"], row["superseded_by"] or row["decision_id"])),
            later.get((row["table"], row["decision_id"])),
        )
        for row in decided
    ]


def with_evidence(
    settings: Settings, table: str, chosen: Iterable[Decision], kinds: Sequence[str] = ("checks", "drift", "profiles")
) -> list[Decision]:
    """These decisions with what was observed: checks, drift and profiles. Of a long log, little is read for a few of them."""
    chosen = list(chosen)
    wanted = [("table", "=", table), ("decision_id", "in", sorted({d.decision_id for d in chosen})), ("event", "!=", "applied")]
    columns = ["decision_id", "event", *kinds]
    rows = delta.read_arrow(settings.path("ops", "decisions"), columns, wanted).to_pylist() if chosen else []
    by_event = {(row["event"], row["decision_id"]): row for row in rows}
    found = []
    for decision in chosen:
        row = by_event.get(("superseded" if decision.superseded_by else "decided", decision.decision_id), {})
        found.append(replace(decision, **_evidence(row, by_event.get(("checked", decision.decision_id), {}))))
    return found


def _evidence(row: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "checks": tuple(json.loads(row.get("checks") or "[]") + json.loads(later.get("checks") or "[]")),
        "drift": json.loads(row["drift"]) if row.get("drift") else None,
        "profiles": tuple(json.loads(row.get("profiles") or "[]")),
    }


def drift_of(settings: Settings, table: str, first: datetime, last: datetime) -> dict[str, dict[str, Any]]:
    """What decisions on the windows from ``first`` to ``last`` said of drift, by their ids; nothing where they said nothing."""
    chosen = [("table", "=", table), ("p_extracted_at", ">=", first), ("p_extracted_at", "<=", last), ("event", "=", "decided")]
    rows = delta.read_arrow(settings.path("ops", "decisions"), ["decision_id", "drift"], chosen).to_pylist()
    return {row["decision_id"]: json.loads(row["drift"]) for row in rows if row["drift"]}


def _decision(row: dict[str, Any], mark: dict[str, Any] | None, later: dict[str, Any] | None) -> Decision:
    inputs = json.loads(row["inputs"] or "{}")
    more: dict[str, Any] = later or {"reasons": [], "checks": None}
    warned = row["verdict"] == "published" and more["reasons"]
    return Decision(
        table=row["table"],
        p_extracted_at=row["p_extracted_at"],
        extraction_seq=row["extraction_seq"],
        number=row["number"],
        kind=row["kind"],
        verdict="published_with_warnings" if warned else row["verdict"],
        counts=Counts(**{name: row[name] for name in Counts.__dataclass_fields__}),
        reasons=tuple(Reason(**reason) for reason in [*(row["reasons"] or ()), *more["reasons"]]),
        ruleset_hash=row["ruleset_hash"],
        ruleset=row["ruleset"] or "",
        bronze_version=row["bronze_version"],
        baseline_version=row["baseline_version"],
        run_id=row["run_id"],
        decided_at=row["decided_at"],
        drift_p_value=row["drift_p_value"],
        teaches=bool(row["teaches"]),
        waived=tuple(row["waived"] or ()),
        by=row["by"],
        because=row["because"],
        superseded_by=row["superseded_by"],
        inputs=inputs.get("versions", {}),
        recomputed=None if inputs.get("recomputed") is None else tuple(inputs["recomputed"]),
        evolved=json.loads(row.get("evolved") or "{}"),
        **_evidence(row, more),
        silver_version=mark["silver_version"] if mark else None,
        applied_at=mark["applied_at"] if mark else None,
    )


def log_decisions(settings: Settings, made: Sequence[Decision]) -> None:
    """The write-ahead log: one commit for all decisions of a run, before anything is published."""
    rows = []
    for decision in made:
        row: dict[str, Any] = dict.fromkeys(DECISIONS.names)
        plain = {k: v for k, v in asdict(replace(decision, profiles=(), checks=(), drift=None)).items() if k in row}
        row |= plain | asdict(decision.counts)
        row |= {
            "event": "superseded" if decision.superseded_by else "decided",
            "decision_id": decision.decision_id,
            "reasons": [asdict(reason) for reason in decision.reasons],
            "waived": list(decision.waived),
            "inputs": json.dumps({"versions": decision.inputs, "recomputed": decision.recomputed}, sort_keys=True),
            "evolved": json.dumps(decision.evolved, sort_keys=True),
            "checks": json.dumps(decision.checks),
            "drift": json.dumps(decision.drift) if decision.drift is not None else None,
            "profiles": json.dumps(decision.profiles),
        }
        rows.append(row)
    _write(settings, "decisions", rows, DECISIONS)


def log_checked(settings: Settings, later: Sequence[tuple[Decision, Sequence[Outcome]]]) -> None:
    """What checks said that ran after the exchange. Said again (by a recovery), the last one counts."""
    rows = []
    for decision, outcomes in later:
        row: dict[str, Any] = dict.fromkeys(DECISIONS.names)
        row |= {"table": decision.table, "event": "checked", "decision_id": decision.decision_id}
        row |= {"reasons": [asdict(reason) for reason in reasons_of(outcomes)]}
        rows.append(row | {"checks": json.dumps([outcome.as_dict() for outcome in outcomes])})
    _write(settings, "decisions", rows, DECISIONS)


def mark_applied(settings: Settings, made: Sequence[Decision], version: int | None, at: datetime) -> None:
    """The last step: these decisions are wholly in the tables."""
    rows = []
    for decision in made:
        row: dict[str, Any] = dict.fromkeys(DECISIONS.names)
        row |= {"table": decision.table, "event": "applied", "decision_id": decision.decision_id}
        rows.append(row | {"silver_version": version, "applied_at": at})
    _write(settings, "decisions", rows, DECISIONS)


def _write(settings: Settings, log: str, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    with table_lock(settings, f"ops_{log}"):
        delta.append_arrow(pa.Table.from_pylist(rows, schema), settings.path("ops", log), partition_by=["table"])


def now() -> datetime:
    """The clock, for callers that inject it by default."""
    return datetime.now(UTC)
