"""Contracts against reality in the UI: `schema_matches_contract`, the diff, a schema's history, and what fails a step.

Belongs here: what layers say of a schema → Dagster. Does not: comparing (decisions), or reading tables (layers).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.schema import HOLDING
from lakehouse_assets.decisions.schema_gate import differences_of, rejected
from lakehouse_assets.layers.reality import SchemaVersion, history_of, reality_of, table_differences
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs

CHECK = "schema_matches_contract"
SHOWN, VERSIONS = 200, 50
HEADER = ("where", "column", "promised", "arrived", "outcome", "what to do", "read by")
Readers = Mapping[str, Sequence[str]]


def diff_table(rows: Iterable[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """A diff, side by side."""
    schema = dg.TableSchema([dg.TableColumn(name, "string") for name in HEADER])
    records = [dg.TableRecord({name: str(row.get(name, "")) for name in HEADER}) for row in list(rows)[:SHOWN]]
    return dg.MetadataValue.table(records, schema)


def _row(where: str, difference: Mapping[str, Any]) -> dict[str, str]:
    return {
        "where": where, "column": difference["path"], "promised": difference["promised"], "arrived": difference["arrived"],
        "outcome": difference["outcome"], "what to do": difference["advice"], "read by": ", ".join(difference["used_by"]),
    }  # fmt: skip


def held_diff(decisions: Mapping[str, Decision]) -> list[dict[str, str]]:
    """Every difference that these decisions speak of, by window key."""
    return [_row(window, each) for window, decision in decisions.items() for each in differences_of(decision)]


def refused_windows(spec: TableSpec, settings: Settings, standing: Mapping[Window, Decision]) -> dict[str, Decision]:
    """Of these windows, those that are held by a schema that the contract rejects, by their keys."""
    if all(decision.accepted for decision in standing.values()):
        return {}
    ids = {decision.decision_id: window.key for window, decision in standing.items()}
    known = logs.decisions(settings, spec.name, evidence=False, checks=True)
    return {ids[d.decision_id]: d for d in known if d.decision_id in ids and d.superseded_by is None and rejected(d)}


def schema_failure(name: str, refused: Mapping[str, Decision]) -> dg.Failure:
    """What fails a step whose contract says `reject`. The batches are held, and can be released."""
    rows = held_diff(refused)
    lines = [f"{r['where']}  {r['column']}: promised {r['promised'] or '-'}, arrived {r['arrived'] or '-'}; {r['what to do']}"
             for r in rows[:20]]  # fmt: skip
    more = [f"… and {len(rows) - 20} more"] if len(rows) > 20 else []
    text = f"{name}: schema rejected in {', '.join(refused)}; the rows are in quarantine"
    return dg.Failure("\n".join([text, *lines, *more]), metadata={"diff": diff_table(rows)}, allow_retries=False)


def history_table(versions: Sequence[SchemaVersion]) -> dg.TableMetadataValue:
    """The table's schema versions, newest first."""
    names = ("version", "at", "operation", "changes")
    records = [
        dg.TableRecord(
            {"version": v.version, "at": f"{v.at:%Y-%m-%d %H:%M:%S}", "operation": v.operation, "changes": v.changes}
        )
        for v in reversed(versions)
    ]
    schema = dg.TableSchema([dg.TableColumn(name, "int" if name == "version" else "string") for name in names])
    return dg.MetadataValue.table(records, schema)


def silver_schema_check(settings: Settings, spec: TableSpec, readers: Readers) -> dg.AssetChecksDefinition:
    """Whether silver has the promised columns, and what arrived last fits them. It starts no JVM."""

    @dg.asset_check(
        asset=f"silver_{spec.name}",
        name=CHECK,
        description=f"Silver has the promised columns, and so has what arrived last: `lakehouse schema diff {spec.name}`.",
    )
    def schema_matches_contract() -> dg.AssetCheckResult:
        return silver_schema_result(settings, spec, readers)

    return schema_matches_contract


def silver_schema_result(settings: Settings, spec: TableSpec, readers: Readers) -> dg.AssetCheckResult:
    """What that check says now."""
    reality = reality_of(settings, spec, readers)
    where = f"{reality.last.p_extracted_at:%Y-%m-%d %H:%M}" if reality.last else ""
    rows = [_row("silver", {**d.as_dict(), "outcome": "differs"}) for d in table_differences(reality, readers)]
    rows += [_row(where, d.as_dict()) for d in reality.arrived]
    wrong = [d.path for d in reality.arrived if d.outcome in HOLDING]
    said = [] if reality.matches else ["silver is made by another contract: the next batch, or a migration, changes it"]
    said += [f"what arrived last ({where}) differs in {', '.join(wrong[:10])}"] if wrong else []
    metadata: dict[str, Any] = {"columns": len(reality.promised), "added_by_batches": len(reality.spec.evolved_columns)}
    if rows:
        metadata["diff"] = diff_table(rows)
    metadata |= _history(settings.path("silver", spec.name))
    return _result(said or ["silver and what arrived last are as promised"], not said, metadata)


def gold_schema_check(settings: Settings, gold: GoldSpec) -> dg.AssetChecksDefinition:
    """Whether the last derivation fitted the table that stands. It starts no JVM."""

    @dg.asset_check(
        asset=f"gold_{gold.name}", name=CHECK, description="What the SQL yields has the columns and types that the table has."
    )
    def schema_matches_contract() -> dg.AssetCheckResult:
        known = logs.decisions(settings, f"gold_{gold.name}", evidence=False, checks=True)
        last = max((d for d in known if d.recomputed != ()), key=lambda d: d.number, default=None)
        rows = held_diff({"gold": last}) if last else []
        wrong = [row["column"] for row in rows if row["outcome"] in HOLDING]
        metadata: dict[str, Any] = {"diff": diff_table(rows)} if rows else {}
        metadata |= _history(settings.path("gold", gold.name))
        said = f"the SQL yields other columns than the table has: {', '.join(wrong[:10])}" if wrong else "as the table has it"
        return _result([said], not wrong, metadata)

    return schema_matches_contract


def _history(path: str) -> dict[str, Any]:
    return {"schema_versions": history_table(history_of(path, VERSIONS))} if delta.exists(path) else {}


def _result(said: Sequence[str], passed: bool, metadata: Mapping[str, Any]) -> dg.AssetCheckResult:
    severity = dg.AssetCheckSeverity.WARN
    return dg.AssetCheckResult(passed=passed, severity=severity, description="; ".join(said), metadata=metadata)
