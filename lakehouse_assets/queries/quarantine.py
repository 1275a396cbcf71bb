"""Quarantined rows for a person, without a JVM: a bounded sample of a window.

Belongs here: reading quarantined rows. Does not: acting on them (operations/release).
"""

import json
from collections.abc import Collection, Mapping, Sequence, Set
from datetime import datetime
from typing import Any

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold_rules import personal_columns, silver_schemas
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.contracts.quarantine import bronze_name
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.personal import MASKED, has_no_header, row_is_misplaced
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs

MOST_WINDOWS, SHOWN, MOST_ROWS = 20, 5, 10_000
# Columns of a quarantined row that no source has written.
SHOWN_COLUMNS = ("outcome", "extraction_seq", "_source_file")
BOOKKEEPING = (*SHOWN_COLUMNS, "decision_id", "_columns", "_content_hash", "p_extracted_at")


def quarantine_sample(settings: Settings, spec: TableSpec, start: datetime, limit: int) -> list[dict[str, Any]]:
    """Return at most ``limit`` quarantined rows of a window, with their reasons. Values of `pii` columns are masked; a row of
    such a table whose values may be in wrong columns shows none.
    """
    quarantined = [d for d in ledger.quarantined_decisions(logs.decisions(settings, spec.name)) if d.p_extracted_at == start]
    path = settings.path("quarantine", spec.name)
    rows: list[dict[str, Any]] = []
    for decision in quarantined:
        sample = delta.head_arrow(path, limit - len(rows), filters=[("decision_id", "=", decision.decision_id)])
        rows += presentable_rows(sample.to_pylist(), spec)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in names} for row in rows]


def presentable_rows(sample: Sequence[dict[str, Any]], spec: TableSpec) -> list[dict[str, Any]]:
    """Return rows of `quarantine/<table>` as a person may see them: `reasons` as text, then values that are not NULL."""
    rows = []
    for row in sample:
        reasons_of_row = row.pop("reasons") or []
        reasons = _reason_text(reasons_of_row, row.pop("batch_reasons"))
        values = _presentable(row, spec, _misplaced(reasons_of_row, spec))
        rows.append({"reasons": reasons, **{k: v for k, v in values.items() if v is not None}})
    return rows


def _presentable(row: Mapping[str, Any], spec: TableSpec, misplaced: bool) -> dict[str, Any]:
    """Return a quarantined row of bronze as a person may see it. ``misplaced``: its values may be in wrong columns."""
    arrived = [name.lower() for name in row.get("_columns") or ()]
    own_columns = {name: row[name] for name in SHOWN_COLUMNS if name in row}
    values = {name: value for name, value in row.items() if name not in BOOKKEEPING}
    if not spec.pii_columns:
        return {**own_columns, **values}
    # In whatever letter case the source wrote them.
    personal = [name for name in spec.pii_columns if name in spec.columns]
    hidden_by_name = {name: {safe_name(source).lower() for source in spec.source_columns(name)} for name in personal}
    hidden = {source for sources in hidden_by_name.values() for source in sources}
    declared = {safe_name(source).lower() for source in spec.declared.all_source_columns}
    if has_no_header(arrived, declared):
        return {**own_columns, "row": MASKED}  # its names may be values
    # A column that nobody declared, where a personal one is missing, may be that one by another name.
    names = {name: bronze_name(name).lower() for name in values}
    visible = {*names.values()} if all(sources & {*arrived} for sources in hidden_by_name.values()) else declared
    visible = set() if misplaced else visible - hidden - {"_corrupt_record"}
    masked_values = {name: value if names[name] in visible else MASKED for name, value in values.items() if value is not None}
    return {**own_columns, **masked_values}


def _misplaced(reasons: Sequence[Mapping[str, Any]], spec: TableSpec) -> bool:
    return row_is_misplaced(((reason["check"], reason["column"]) for reason in reasons), spec.pii_columns)


def gold_quarantine_sample(settings: Settings, name: str, specs: Sequence[TableSpec], limit: int) -> list[dict[str, Any]]:
    """Return at most ``limit`` rows that the last decision on a gold table quarantined, with their reasons. Values of columns
    that derive from `pii` columns by the decision's own SQL are masked. ``specs``: the project's tables.
    """
    decisions = logs.decisions(settings, name)
    last = max(decisions, key=lambda d: d.number, default=None)
    if last is None:
        return []
    # A `*` of the recorded SQL may have brought along a column that no contract has now: nobody knows whether it was personal.
    is_strict = any(spec.pii_columns for spec in specs)
    return decision_sample(settings, last, *_columns_of_gold(last, specs), limit, only_declared=is_strict)


def _columns_of_gold(decision: Decision, specs: Sequence[TableSpec]) -> tuple[Collection[str] | None, Collection[str]]:
    """Return the personal columns of a decision's own SQL by today's contracts, and all of its columns. Without SQL that they
    can read, in a project with personal columns, nobody knows which are personal.
    """
    try:
        rules = json.loads(decision.ruleset)
        reads = {name: table["columns"] for name, table in rules.get("reads", {}).items()}
        query = read_gold(rules["sql"], decision.table, {**silver_schemas(specs), **reads}, is_recorded=True)
    except (LakehouseError, ValueError, TypeError, KeyError, AttributeError):
        return (None if any(spec.pii_columns for spec in specs) else ()), ()
    return personal_columns(query, specs), query.lineage


def decision_sample(
    settings: Settings,
    decision: Decision,
    personal: Collection[str] | None,
    declared: Collection[str],
    limit: int,
    *,
    only_declared: bool = False,
) -> list[dict[str, Any]]:
    """Return at most ``limit`` rows that a decision on a gold table or a guarded version quarantined, with their reasons.

    ``personal``: columns whose values are masked; None: nobody knows which, and all are. ``declared``: columns that a contract
    or the SQL names. Only these are shown with ``only_declared``, and where the rows lack a personal column: another one may be
    that column by another name. A row whose values may be in wrong columns shows none.
    """
    if not decision.counts.rows_quarantined:
        return []
    wanted = [("decision_id", "=", decision.decision_id)]
    sample = delta.head_arrow(settings.path("quarantine", decision.table), limit, filters=wanted).to_pylist()
    cells = [json.loads(row["row"]) for row in sample]
    names = {name.lower() for row in cells for name in row}
    visible = set() if personal is None else _visible_names(names, personal, declared, only_declared)
    rows = []
    for row, values in zip(sample, cells, strict=True):
        checks = [(reason["check"], reason.get("column") or "") for reason in row["reasons"] or ()]
        of_row = set() if row_is_misplaced(checks, personal or ()) else visible
        shown = {name: value if name.lower() in of_row else MASKED for name, value in values.items()}
        rows.append({"reasons": _reason_text(row["reasons"], row.get("batch_reasons")), **shown})
    return rows


def _visible_names(names: Set[str], personal: Collection[str], declared: Collection[str], only_declared: bool) -> Set[str]:
    hidden = {name.lower() for name in personal}
    is_open = hidden <= names and not only_declared
    return (names if is_open else names & {name.lower() for name in declared}) - hidden


def _reason_text(reasons: Sequence[Mapping[str, Any]] | None, of_batch: Sequence[str] | None = None) -> str:
    return "; ".join([*(f"{reason['check']}: {reason['message']}" for reason in reasons or ()), *(of_batch or ())])


def failing_values(settings: Settings, spec: TableSpec, quarantined: Sequence[Decision]) -> dict[str, dict[str, list[str]]]:
    """Return, by decision id, at most five failing values by check among quarantined rows. Values of `pii` columns are masked,
    also if the column was marked later.

    Reads 10,000 rows at most, of the 20 windows quarantined last: of each of them as many.
    """
    newest = sorted((d for d in quarantined if d.p_extracted_at), key=lambda d: d.number, reverse=True)[:MOST_WINDOWS]
    path, by_decision = settings.path("quarantine", spec.name), {}
    for decision in newest:
        wanted = [("decision_id", "=", decision.decision_id)]
        rows = delta.head_arrow(path, MOST_ROWS // len(newest), ["reasons"], wanted).to_pylist()
        by_decision[decision.decision_id] = _values_by_check([row["reasons"] or [] for row in rows], spec)
    return by_decision


def _values_by_check(rows: Sequence[Sequence[Mapping[str, Any]]], spec: TableSpec) -> dict[str, list[str]]:
    by_check: dict[str, list[str]] = {}
    for reasons in rows:
        misplaced = _misplaced(reasons, spec)
        for reason in reasons:
            values, value = by_check.setdefault(reason["check"], []), reason["value"]
            if value is not None and misplaced:
                value = MASKED
            if value is not None and len(values) < SHOWN and value not in values:
                values.append(value)
    return {check: values for check, values in by_check.items() if values}
