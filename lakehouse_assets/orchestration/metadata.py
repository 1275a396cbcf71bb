"""What the UI shows beside an asset: schemas with units, lineage, a window's verdict, markdown tables.

Belongs here: values → Dagster metadata. Does not: check results (checks), or drawing plots (reports).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.reports.drift import feature_table, status_of
from lakehouse_assets.reports.markdown import escape, table


def _column(
    name: str, kind: str, description: str | None, unit: str | None = None, tags: Mapping[str, str] | None = None
) -> dg.TableColumn:
    text = " ".join(part for part in (description, f"[{unit}]" if unit else None) if part)
    return dg.TableColumn(name, kind, text or None, tags={**({"unit": unit} if unit else {}), **(tags or {})})


def silver_schema(spec: TableSpec) -> dg.TableSchema:
    """Silver's declared columns with their units, then where a row comes from."""
    columns = [_column(n, c.type, c.description, c.unit, {"pii": "true"} if c.pii else None) for n, c in spec.columns.items()]
    columns += [
        _column("p_extracted_at", "timestamp", "start of the extraction window that the row came with, UTC"),
        _column("extraction_seq", "int", "which extraction of that window"),
        _column("_content_hash", "string", "MD5 of the bronze row's columns"),
    ]
    return dg.TableSchema(columns)


def bronze_schema(spec: TableSpec) -> dg.TableSchema:
    """Bronze holds strings, as they came."""
    columns = [
        _column("p_extracted_at", "timestamp", "start of the extraction window, UTC"),
        _column("extraction_seq", "int", "1, then 2 if the window is extracted again, …"),
        _column("_content_hash", "string", "MD5 of the row's columns"),
        _column("_source_file", "string", "where the row came from"),
        _column("_columns", "array<string>", "the batch's own columns"),
        _column("_corrupt_record", "string", "the record as it was, where it could not be read"),
    ]
    columns += [_column(spec.source_column(name), "string", f"becomes {name}") for name in spec.columns]
    return dg.TableSchema(columns)


def gold_schema(gold: GoldSpec, query: GoldQuery) -> dg.TableSchema:
    """The SELECT's columns, with types as far as they follow from the SQL, and the declared units."""
    return dg.TableSchema([_column(name, kind, None, gold.units.get(name)) for name, kind in query.types.items()])


def gold_lineage(query: GoldQuery) -> dg.TableColumnLineage:
    """Which input columns each column comes from."""
    return dg.TableColumnLineage(
        {
            name: [dg.TableColumnDep(asset_key=dg.AssetKey(source), column_name=column) for source, column in sorted(origins)]
            for name, origins in query.lineage.items()
        }
    )


def extraction_metadata(record: ExtractionRecord | None) -> dict[str, Any]:
    """What a window's bronze partition shows."""
    if record is None:
        return {"arrived": False, "dagster/partition_row_count": 0}
    return {
        "arrived": True,
        "dagster/partition_row_count": record.rows,
        "extraction_seq": record.extraction_seq,
        "fingerprint": record.fingerprint,
        "bronze_version": record.bronze_version,
    }


def decision_metadata(decision: Decision | None, rows: int | None = None) -> dict[str, Any]:
    """What a window's silver partition shows: the verdict, the counts of law 2, the reasons."""
    if decision is None:
        return {"verdict": "nothing arrived", "dagster/partition_row_count": 0}
    counts = decision.counts
    shown: dict[str, Any] = {
        "verdict": decision.verdict,
        "dagster/partition_row_count": counts.rows_published if rows is None else rows,
        "rows_in": counts.rows_in,
        "rows_published": counts.rows_published,
        "rows_superseded": counts.rows_superseded,
        "rows_quarantined": counts.rows_quarantined,
        "rows_discarded": counts.rows_discarded,
        "extraction_seq": decision.extraction_seq,
        "decision_id": decision.decision_id,
        "ruleset_hash": decision.ruleset_hash,
    }
    if decision.baseline_version is not None:
        shown["baseline_version"] = decision.baseline_version
    if decision.drift_p_value is not None:
        shown["drift_p_value"] = decision.drift_p_value
    if decision.reasons:
        rows_of = [(r.check, r.severity, r.effect, r.rows, r.message) for r in decision.reasons]
        shown["reasons"] = dg.MetadataValue.md(table(("check", "severity", "effect", "rows", "message"), rows_of))
    return shown


def drift_metadata(drift: Mapping[str, Any]) -> dict[str, Any]:
    """What the drift check shows of one window: how far it can be believed, since when, and every feature."""
    shown: dict[str, Any] = {"status": drift["status"], "believe": status_of(drift), "says": drift["message"]}
    if drift.get("since"):
        shown["since"] = str(drift["since"])
    if drift.get("results"):
        shown["features"] = dg.MetadataValue.md(feature_table(drift))
    return shown


def samples_markdown(values: Sequence[str]) -> dg.MetadataValue:
    """A capped list of failing values, escaped."""
    return dg.MetadataValue.md("\n".join(f"- {escape(value)}" for value in values))
