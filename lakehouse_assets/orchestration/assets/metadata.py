"""Metadata of assets in the UI: schemas with units, lineage, a window's verdict, markdown tables.

Belongs here: values → Dagster's metadata and events. Does not: partitions, check results (checks), or plots (reports).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.orchestration.asset_keys import input_key
from lakehouse_assets.orchestration.partition_results import newest_materialization
from lakehouse_assets.reports.drift import describe_status, feature_table
from lakehouse_assets.reports.markdown import escape, table


def last_observed(outcomes: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what the last failed outcome observed; of passed ones, the last that observed something."""
    bad = [outcome for outcome in outcomes if outcome["status"] in ("failed", "error")]
    return next((outcome["observed"] for outcome in reversed(bad or outcomes) if outcome["observed"]), {})


def _column(
    name: str, kind: str, description: str | None, unit: str | None = None, tags: Mapping[str, str] | None = None
) -> dg.TableColumn:
    text = " ".join(part for part in (description, f"[{unit}]" if unit else None) if part)
    return dg.TableColumn(name, kind, text or None, tags={**({"unit": unit} if unit else {}), **(tags or {})})


def silver_schema(spec: TableContract) -> dg.TableSchema:
    """Return silver's declared columns with their units, then those that say where a row comes from."""
    published = spec.published_columns.items()
    columns = [_column(n, c.type, c.description, c.unit, {"pii": "true"} if c.pii else None) for n, c in published]
    columns += [
        _column("p_extracted_at", "timestamp", "start of the extraction window that the row came with, UTC"),
        _column("extraction_seq", "int", "which extraction of that window"),
        _column("_content_hash", "string", "MD5 of the bronze row's columns"),
    ]
    return dg.TableSchema(columns)


def bronze_schema(spec: TableSpec) -> dg.TableSchema:
    """Return bronze's columns: all strings, as they came."""
    columns = [
        _column("p_extracted_at", "timestamp", "start of the extraction window, UTC"),
        _column("extraction_seq", "int", "1, then 2 if the window is extracted again, …"),
        _column("_content_hash", "string", "MD5 of the row's columns"),
        _column("_source_file", "string", "where the row came from"),
        _column("_columns", "array<string>", "the batch's own columns"),
        _column("_corrupt_record", "string", "the record as it was, where it could not be read"),
    ]
    columns += [_column(source, "string", f"becomes {name}") for name in spec.columns for source in spec.source_columns(name)]
    return dg.TableSchema(columns)


def gold_schema(gold: GoldSpec, query: GoldQuery) -> dg.TableSchema:
    """Return the SELECT's columns, with their types as far as the SQL determines them, and the declared units."""
    return dg.TableSchema([_column(name, kind, None, gold.units.get(name)) for name, kind in query.types.items()])


def gold_lineage(gold: GoldSpec, query: GoldQuery) -> dg.TableColumnLineage:
    """Return the input columns that each column derives from."""
    return dg.TableColumnLineage(
        {
            name: [
                dg.TableColumnDep(asset_key=input_key(gold, source), column_name=column) for source, column in sorted(origins)
            ]
            for name, origins in query.lineage.items()
        }
    )


def extraction_metadata(record: ExtractionRecord | None) -> dict[str, Any]:
    """Return the metadata of a window's bronze partition."""
    if record is None:
        return {"arrived": False, "dagster/partition_row_count": 0}
    return {
        "arrived": True,
        "dagster/partition_row_count": record.rows,
        "extraction_seq": record.extraction_seq,
        "fingerprint": record.fingerprint,
        "bronze_version": record.bronze_version,
    }


def decision_metadata(decision: Decision | None) -> dict[str, Any]:
    """Return the metadata of a window's silver partition: the verdict, the counts of law 2, the reasons."""
    if decision is None:
        return {"verdict": "nothing arrived", "dagster/partition_row_count": 0}
    metadata: dict[str, Any] = {
        "verdict": decision.verdict,
        "dagster/partition_row_count": decision.counts.rows_published,
        **asdict(decision.counts),
        "extraction_seq": decision.extraction_seq,
        "decision_id": decision.decision_id,
        "ruleset_hash": decision.ruleset_hash,
    }
    drift = {"baseline_version": decision.baseline_version, "drift_p_value": decision.drift_p_value}
    metadata |= {name: value for name, value in drift.items() if value is not None}
    if decision.reasons:
        rows = [(r.check, r.severity, r.effect, r.rows, r.message) for r in decision.reasons]
        metadata["reasons"] = dg.MetadataValue.md(table(("check", "severity", "effect", "rows", "message"), rows))
    return metadata


def drift_metadata(drift: Mapping[str, Any]) -> dict[str, Any]:
    """Return the drift check's metadata of one window: its status and what that means, since when, and every feature."""
    metadata: dict[str, Any] = {"status": drift["status"], "believe": describe_status(drift), "says": drift["message"]}
    if drift.get("since"):
        metadata["since"] = str(drift["since"])
    if drift.get("results"):
        metadata["features"] = dg.MetadataValue.md(feature_table(drift))
    return metadata


def evaluation(
    instance: dg.DagsterInstance, asset: dg.AssetKey, check: str, result: dg.AssetCheckResult
) -> dg.AssetCheckEvaluation:
    """Return a check's result as an event, which a sensor or another asset's run can report. It is one of the asset's newest
    materialization: without that, the UI shows "Not Evaluated" if both have the same second.
    """
    values = {name: getattr(result, name) for name in ("passed", "metadata", "severity", "description")}
    target = newest_materialization(instance, asset)
    return dg.AssetCheckEvaluation(asset_key=asset, check_name=check, target_materialization_data=target, **values)


def samples_markdown(values: Sequence[str]) -> dg.MetadataValue:
    """Return a list of failing values, escaped."""
    return dg.MetadataValue.md("\n".join(f"- {escape(value)}" for value in values))


def asset_labels(spec: TableSpec, layer: str) -> dict[str, Any]:
    """Return group, owners and tags of a table's asset."""
    return {
        "group_name": spec.group or spec.name,
        "owners": list(spec.owners) or None,
        "tags": {**spec.tags, "layer": layer, "table": spec.name},
    }
