"""Looking into quarantine without a JVM: a bounded sample of what is held of a window.

Belongs here: reading held rows for a person. Does not: acting on them (release).
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.gate import MASKED
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs

MOST_WINDOWS, SHOWN, LOOKED_AT = 20, 5, 10_000


def held_sample(settings: Settings, spec: TableSpec, start: datetime, limit: int) -> list[dict[str, Any]]:
    """At most ``limit`` held rows of a window, with their reasons; values of `pii` columns are masked."""
    standing = [d for d in ledger.held(logs.decisions(settings, spec.name, evidence=False)) if d.p_extracted_at == start]
    path = settings.path("quarantine", spec.name)
    rows: list[dict[str, Any]] = []
    # In whatever letter case the source wrote them.
    hidden = {safe_name(spec.source_column(name)).lower() for name in spec.pii_columns}
    for decision in standing:
        found = delta.head_arrow(path, limit - len(rows), filters=[("decision_id", "=", decision.decision_id)])
        for row in found.to_pylist():
            reasons = _told(row.pop("reasons"), row.pop("batch_reasons"))
            for name in ("decision_id", "_columns", "_content_hash", "p_extracted_at"):
                row.pop(name, None)
            if spec.pii_columns and row.get("_corrupt_record"):
                row["_corrupt_record"] = MASKED
            values = {name: MASKED if name.lower() in hidden and value is not None else value for name, value in row.items()}
            rows.append({"reasons": reasons, **{k: v for k, v in values.items() if v is not None}})
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in names} for row in rows]


def held_gold_sample(settings: Settings, name: str, personal: Collection[str], limit: int) -> list[dict[str, Any]]:
    """At most ``limit`` rows that the last decision about a gold table holds, with their reasons. ``personal``: its columns
    that are made of `pii` columns; their values are masked.
    """
    known = logs.decisions(settings, name, evidence=False)
    last = max(known, key=lambda d: d.number, default=None)
    if last is None or not last.counts.rows_quarantined:
        return []
    wanted = [("decision_id", "=", last.decision_id)]
    found = delta.head_arrow(settings.path("quarantine", name), limit, filters=wanted).to_pylist()
    rows = []
    for row in found:
        values = {name: MASKED if name in personal else value for name, value in json.loads(row["row"]).items()}
        rows.append({"reasons": _told(row["reasons"]), **values})
    return rows


def _told(reasons: Sequence[Mapping[str, Any]] | None, of_batch: Sequence[str] | None = None) -> str:
    return "; ".join([*(f"{reason['check']}: {reason['message']}" for reason in reasons or ()), *(of_batch or ())])


def held_values(settings: Settings, spec: TableSpec, held: Sequence[Decision]) -> dict[str, list[str]]:
    """At most five failing values by check among rows that are held. Values of `pii` columns are masked, also where they were
    held before they were marked.

    Looks at 10,000 rows at most, of the 20 windows that were held last.
    """
    found: dict[str, list[str]] = {}
    newest = sorted((d for d in held if d.p_extracted_at), key=lambda d: d.number, reverse=True)[:MOST_WINDOWS]
    if not newest:
        return found
    wanted = [("decision_id", "in", [decision.decision_id for decision in newest])]
    # A record that could not be read may have any column's value.
    personal = {*spec.pii_columns, "_corrupt_record"} if spec.pii_columns else set()
    for row in delta.head_arrow(settings.path("quarantine", spec.name), LOOKED_AT, ["reasons"], wanted).to_pylist():
        for reason in row["reasons"] or []:
            values, value = found.setdefault(reason["check"], []), reason["value"]
            if value is not None and personal & set(reason["column"].split(", ")):
                value = MASKED
            if value is not None and len(values) < SHOWN and value not in values:
                values.append(value)
    return {check: values for check, values in found.items() if values}
