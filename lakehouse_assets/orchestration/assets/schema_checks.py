"""Schemas in the UI: the check `schema_matches_contract`, the diff, a schema's history, and the failure of a step.

Belongs here: a schema's status → Dagster. Does not: comparing schemas (decisions), or reading tables (queries).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.schema.comparison import QUARANTINING
from lakehouse_assets.decisions.schema.gate import differences_of, is_rejected
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.step_boundary import masked_check
from lakehouse_assets.queries.schema_history import read_schema_history
from lakehouse_assets.queries.schema_status import read_schema_status, table_differences
from lakehouse_assets.reports.markdown import escape_controls
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs

CHECK = "schema_matches_contract"
SHOWN, VERSIONS = 200, 50
HEADER = ("where", "column", "promised", "arrived", "outcome", "what to do", "read by")
Readers = Mapping[str, Sequence[str]]


def diff_table(rows: Iterable[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Return a diff, side by side."""
    return _table(HEADER, ({name: str(row.get(name, "")) for name in HEADER} for row in islice(rows, SHOWN)))


def _table(header: Sequence[str], rows: Iterable[dict[str, Any]]) -> dg.TableMetadataValue:
    schema = dg.TableSchema([dg.TableColumn(name, "int" if name == "version" else "string") for name in header])
    shown = [{name: escape_controls(cell) if isinstance(cell, str) else cell for name, cell in row.items()} for row in rows]
    return dg.MetadataValue.table([dg.TableRecord(row) for row in shown], schema)


def _row(where: str, difference: Mapping[str, Any]) -> dict[str, str]:
    return {
        "where": where, "column": difference["path"], "promised": difference["promised"], "arrived": difference["arrived"],
        "outcome": difference["outcome"], "what to do": difference["advice"], "read by": ", ".join(difference["used_by"]),
    }  # fmt: skip


def schema_differences(decisions: Mapping[str, Decision]) -> list[dict[str, str]]:
    """Return every schema difference that these decisions record, by window key."""
    return [_row(window, each) for window, decision in decisions.items() for each in differences_of(decision)]


def rejected_windows(spec: TableSpec, settings: Settings, current: Mapping[Window, Decision]) -> dict[str, Decision]:
    """Return the windows that are in quarantine because the contract rejects their schema, by their keys."""
    if all(decision.accepted for decision in current.values()):
        return {}
    keys = {decision.decision_id: window.key for window, decision in current.items()}
    decisions = logs.decisions(settings, spec.name, checks=True)
    return {keys[d.decision_id]: d for d in decisions if d.decision_id in keys and d.superseded_by is None and is_rejected(d)}


def schema_failure(name: str, by_window: Mapping[str, Decision]) -> dg.Failure:
    """Return the failure of a step whose contract says `reject`. The batches are in quarantine, and can be released."""
    rows = schema_differences(by_window)
    lines = [f"{r['where']}  {r['column']}: promised {r['promised'] or '-'}, arrived {r['arrived'] or '-'}; {r['what to do']}"
             for r in rows[:20]]  # fmt: skip
    more = [f"… and {len(rows) - 20} more"] if len(rows) > 20 else []
    text = f"{name}: schema rejected in {', '.join(by_window)}; the rows are in quarantine"
    shown = escape_controls("\n".join([text, *lines, *more]))
    return dg.Failure(shown, metadata={"diff": diff_table(rows)}, allow_retries=False)


def silver_schema_check(settings: Settings, spec: TableSpec, readers: Readers) -> dg.AssetChecksDefinition:
    """Return the check whether silver has the declared columns, and the last batch fits them. It starts no JVM."""
    description = f"Silver and the last extraction have the declared columns: `lakehouse schema diff {spec.name}`."
    personal = bool(spec.pii_columns)
    return masked_check(
        asset_key(spec, f"silver_{spec.name}"),
        CHECK,
        description,
        personal,
        lambda: silver_schema_result(settings, spec, readers),
    )


def silver_schema_result(settings: Settings, spec: TableSpec, readers: Readers) -> dg.AssetCheckResult:
    """Return that check's result."""
    status = read_schema_status(settings, spec, readers)
    where = f"{status.last.p_extracted_at:%Y-%m-%d %H:%M}" if status.last else ""
    rows = [_row("silver", {**d.as_dict(), "outcome": "differs"}) for d in table_differences(status, readers)]
    rows += [_row(where, d.as_dict()) for d in status.arrived]
    failing = [d.path for d in status.arrived if d.outcome in QUARANTINING]
    messages = [] if status.matches else ["silver follows another contract: the next batch, or a migration, changes it"]
    messages += [f"the last extraction ({where}) differs in {', '.join(failing[:10])}"] if failing else []
    metadata: dict[str, Any] = {"columns": len(status.promised), "added_by_batches": len(status.spec.evolved_columns)}
    text = "; ".join(messages) or "silver and the last extraction have the declared columns"
    return _result(settings.path("silver", spec.name), text, not messages, rows, metadata)


def gold_schema_check(settings: Settings, gold: GoldSpec, personal: bool) -> dg.AssetChecksDefinition:
    """Return the check whether the last derivation fitted the current table. It starts no JVM."""

    def result() -> dg.AssetCheckResult:
        decisions = logs.decisions(settings, f"gold_{gold.name}", checks=True)
        last = max((d for d in decisions if d.recomputed != ()), key=lambda d: d.number, default=None)
        rows = schema_differences({"gold": last}) if last else []
        failing = [row["column"] for row in rows if row["outcome"] in QUARANTINING]
        text = f"the SQL yields other columns than the table has: {', '.join(failing[:10])}" if failing else (
            "the SQL yields the columns that the table has"
        )  # fmt: skip
        return _result(settings.path("gold", gold.name), text, not failing, rows, {})

    description = "The SQL yields the columns and types that the table has."
    return masked_check(asset_key(gold, f"gold_{gold.name}"), CHECK, description, personal, result)


def _result(
    path: str, text: str, passed: bool, rows: Sequence[Mapping[str, Any]], metadata: dict[str, Any]
) -> dg.AssetCheckResult:
    metadata |= {"diff": diff_table(rows)} if rows else {}
    metadata |= {"schema_versions": _history_table(path)} if delta.exists(path) else {}
    shown = escape_controls(text)
    return dg.AssetCheckResult(passed=passed, severity=dg.AssetCheckSeverity.WARN, description=shown, metadata=metadata)


def _history_table(path: str) -> dg.TableMetadataValue:
    """Return the table's schema versions, newest first."""
    versions = reversed(read_schema_history(path, VERSIONS))
    rows = [asdict(version) | {"at": f"{version.at:%Y-%m-%d %H:%M:%S}"} for version in versions]
    return _table(("version", "at", "operation", "changes"), rows)
