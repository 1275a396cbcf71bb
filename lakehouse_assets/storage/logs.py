"""The logs `ops/extractions` and `ops/decisions`: their columns, records ↔ rows, reading and appending.

Belongs here: a log's rows; a new column is a field of `Decision` and in `DECISIONS`. Does not: a decision's meaning.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

import pyarrow as pa

from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Counts, Decision, ExtractionRecord, Reason
from lakehouse_assets.decisions.outcome import Outcome
from lakehouse_assets.decisions.verdict import reasons_of, verdict_with
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.decision_claims import claim_numbers
from lakehouse_assets.storage.folded_log import Rows, read_folded
from lakehouse_assets.storage.log_folds import DecisionFold, ExtractionFold
from lakehouse_assets.storage.log_table import LogTable, log_schema

View = TypeVar("View")

EXTRACTIONS = LogTable(
    "extractions",
    log_schema(
        "table text!, p_extracted_at moment!, extraction_seq int!, fingerprint text!, rows long!, columns texts!,"
        " bronze_version long!, run_id text!, extracted_at moment!, lacking texts, types text, respelled text, control text,"
        " position text"
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
    return inputs | ({"order_span": decision.order_span} if decision.order_span else {})


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
        "evolved": _parsed(row["evolved"]),
        "silver_version": mark.get("silver_version"),
        "applied_at": mark.get("applied_at"),
    } | evidence_from_rows(row, deferred)
    return Decision(**{name: row[name] for name in Decision.__dataclass_fields__ if name in row} | decoded)


def extractions(settings: Settings, table: str) -> list[ExtractionRecord]:
    """Return every extraction of the table by window and number; of a rewritten one its newest record."""
    return view_extractions(settings, table, lambda fold: list(fold.records))


def view_extractions(settings: Settings, table: str, view: Callable[[ExtractionFold], View]) -> View:
    """Return ``view`` of a table's extractions; it must not share their list."""
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


def decisions(settings: Settings, table: str | None = None, *, evidence: bool = False, checks: bool = False) -> list[Decision]:
    """Return every decision in order, applied ones with their mark; a supersession comes after the decision that caused it.

    ``checks``: with every check's result. ``evidence``: with that, profiles and drift.
    """
    left_out = set() if evidence else {"profiles", "drift"}
    if checks or evidence:
        columns = [name for name in DECISIONS.schema.names if name not in left_out]
        return decisions_from_rows(DECISIONS.read(settings, columns, [("table", "=", table)] if table else []))
    tables = [table] if table else DECISIONS.tables(settings)
    return [d for each in tables for d in view_decisions(settings, each, lambda fold: list(fold.decisions))]


def view_decisions(settings: Settings, table: str, view: Callable[[DecisionFold], View]) -> View:
    """Return ``view`` of a table's decisions without evidence; it must not share their list."""
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
    chosen = [("table", "=", table), ("p_extracted_at", ">=", first), ("p_extracted_at", "<=", last), ("event", "=", "decided")]
    rows = DECISIONS.read(settings, ["decision_id", "drift"], chosen)
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


def mark_row(decision: Decision, version: int | None, at: datetime, rows_now: int | None = None) -> dict[str, Any]:
    """Return the row of a decision's mark, as `mark_applied` appends it."""
    mark = {"silver_version": version, "silver_rows": rows_now, "applied_at": at}
    return entry(decision.table, "applied", decision_id=decision.decision_id, **mark)
