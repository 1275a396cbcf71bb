"""Lakes of made-up decisions for the pages: logs only, and quarantined rows where a test needs them. No JVM.

Belongs here: writing such a lake. Does not: what pages show of it.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse_assets.contracts.decision import Counts, Decision, ExtractionRecord
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.logbook import outcome

START = datetime(2024, 1, 1, tzinfo=UTC)
NOW = datetime(2024, 12, 1, tzinfo=UTC)


def ruleset(table: str = "readings", **changes: Any) -> str:
    """The rules of a daily table: a key, a value with bounds, a name, and one drift feature by station."""
    rules = {
        "name": table,
        "source": {"kind": "files", "path": f"{table}/{{window:%Y-%m-%d}}.csv", "format": "csv"},
        "extraction": {"cadence": "daily", "start": "2024-01-01", "mode": "upsert"},
        "key": ["id"],
        "last_modified": "id",
        "columns": {"id": {"type": "string"}, "value": {"type": "double"}, "name": {"type": "string"}},
        "checks": [{"check": "not_empty"}, {"check": "in_range", "column": "value", "min": 0, "max": 10}],
        "drift": {"features": [{"name": "value", "by": "id"}], "hold_at": 0.01, "warn_at": 0.05},
    }
    return json.dumps({**rules, **changes})


def feature(name: str = "value", stratum: str | None = "a", p_value: float = 0.5, **changes: Any) -> dict[str, Any]:
    """One feature's result as the log keeps it."""
    fields = {
        "feature": name, "stratum": stratum, "rows": 24, "ks": 0.1, "tail": 0.2, "statistics": {"ks": 0.1, "tail": 0.2},
        "effects": {"ks": 0.2}, "score": 0.5, "statistic": "tail", "p_value": p_value, "windows": 99, "naive_p_value": 0.3,
        "corrected": 1.0, "silent": False, "quantiles": [1.0, 2.0, 3.0, 4.0, 5.0],
        "baseline_quantiles": [1.0, 2.0, 2.5, 4.0, 5.0],
        "median_shift": 0.5, "missing": 0.01, "baseline_missing": 0.02, "unit": "kPa", "changed": [], "new": [], "vanished": [],
        "correlations": [], "effect": 0.2,
    }  # fmt: skip
    return {**fields, **changes}


def drift(results: Sequence[dict[str, Any]], message: str = "", p_value: float = 0.5) -> dict[str, Any]:
    """A drift verdict as the log keeps it."""
    worst = min(results, key=lambda r: r["p_value"], default=None)
    return {
        "status": "calibrated", "action": "hold" if message else "pass", "message": message, "p_value": p_value, "score": 1.0,
        "windows_known": 99, "learns": True, "windows_until_warn": 0, "windows_until_hold": 0, "results": list(results),
        "worst": worst,
    }  # fmt: skip


def day(number: int) -> datetime:
    """The start of the window of this number; the first is 1."""
    return START + timedelta(days=number - 1)


def passed(number: int, table: str = "readings", rules: str | None = None, **changes: Any) -> Decision:
    """A published window."""
    fields = {
        "p_extracted_at": day(number), "verdict": "published", "counts": Counts(24, 24, 0, 0, 0), "reasons": (),
        "ruleset": rules or ruleset(table), "checks": (outcome("not_empty", kind="not_empty"), outcome("in_range_value")),
        "drift": drift([feature()]), "drift_p_value": 0.5,
    }  # fmt: skip
    return logbook.decided(number, table, **{**fields, **changes})


def quarantined(number: int, table: str = "readings", message: str = "value is 3 kPa higher at a", **changes: Any) -> Decision:
    """A window that drift quarantined."""
    bad = outcome("drift", kind="drift", status="failed", effect="batch", message=message)
    fields = {
        "verdict": "quarantined", "counts": Counts(24, 0, 0, 24, 0), "checks": (outcome("in_range_value"), bad),
        "drift_p_value": 0.004,
        "drift": drift([feature(p_value=0.004), feature(stratum="b")], message, 0.004),
    }  # fmt: skip
    return passed(number, table, **{**fields, **changes})


def extraction(number: int, table: str = "readings", **changes: Any) -> ExtractionRecord:
    """The extraction of a window."""
    columns = ("id", "value", "name")
    fields = {
        "extraction_seq": 1,
        "fingerprint": "f",
        "rows": 24,
        "columns": columns,
        "bronze_version": number,
        "run_id": "run",
    }
    return ExtractionRecord(table, day(number), extracted_at=day(number) + timedelta(days=1), **{**fields, **changes})


def quarantine_rows(
    settings: Settings, decision: Decision, rows: Sequence[dict[str, str]], reasons: Sequence[dict] = ()
) -> None:
    """Write rows of a decision into the quarantine of its table, as the gate does."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    reason = pa.struct([(name, pa.string()) for name in ("check", "column", "severity", "value", "message")])
    schema = pa.schema(
        [("decision_id", pa.string()), ("outcome", pa.string()), ("p_extracted_at", pa.timestamp("us", tz="UTC")),
         ("extraction_seq", pa.int32()), ("_content_hash", pa.string()), ("reasons", pa.list_(reason)),
         ("batch_reasons", pa.list_(pa.string())), ("_source_file", pa.string()), ("_columns", pa.list_(pa.string())),
         ("_corrupt_record", pa.string()), *[(name, pa.string()) for name in names]]
    )  # fmt: skip
    own = {
        "decision_id": decision.decision_id, "outcome": "quarantined", "p_extracted_at": decision.p_extracted_at,
        "extraction_seq": 1,
        "_content_hash": "h", "reasons": list(reasons),
        "batch_reasons": [] if reasons else ["drift: " + (decision.drift or {})["message"]],
        "_source_file": f"{decision.table}/day.csv", "_columns": names, "_corrupt_record": None,
    }  # fmt: skip
    table = pa.Table.from_pylist([{**own, **row} for row in rows], schema)
    delta.append_arrow(table, settings.path("quarantine", decision.table), partition_by=["p_extracted_at"])


def quarantine_gold_rows(settings: Settings, decision: Decision, rows: Sequence[Any]) -> None:
    """Write rows of a decision on a gold table into its quarantine, as the gate does."""
    reason = pa.struct([(name, pa.string()) for name in ("check", "message")])
    schema = pa.schema([("decision_id", pa.string()), ("reasons", pa.list_(reason)), ("row", pa.string())])
    why = [{"check": "in_range_value", "message": "value out of range"}]
    values = [{"decision_id": decision.decision_id, "reasons": why, "row": json.dumps(row)} for row in rows]
    delta.append_arrow(pa.Table.from_pylist(values, schema), settings.path("quarantine", decision.table))


def write(settings: Settings, decisions: Sequence[Decision], *, applied: bool = True) -> None:
    """Log decisions, and their extractions."""
    logs.record_extractions(settings, [extraction(d.number, d.table) for d in decisions if d.p_extracted_at])
    logbook.write(settings, decisions, applied=applied)


def page(settings: Settings, path: str) -> str:
    """The text of a page."""
    return (settings.site / path).read_text(encoding="utf-8")


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, but the manifest, the lock and the overview with its time."""
    left_out = ("manifest.json", ".pages.lock")
    files = [
        file for file in folder.rglob("*") if file.is_file() and file.name not in left_out and file != folder / "index.html"
    ]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}
