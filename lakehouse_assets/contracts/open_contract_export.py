"""A table's contract → a contract of the Open Data Contract Standard (https://bitol.io/open-data-contract-standard).

Belongs here: the export. Does not: which of the two has which words (open_contract).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from open_data_contract_standard.model import OpenDataContractStandard

from lakehouse_assets.contracts.open_contract import (
    API_VERSION,
    CARRIED,
    CARRIED_OF_COLUMN,
    PERSONAL,
    PREFIX,
    logical_type,
    quality_of,
)
from lakehouse_assets.contracts.table import TableSpec


def export_contract(spec: TableSpec, version: str = "1.0.0") -> tuple[str, list[str]]:
    """Return a table's contract as YAML of ODCS 3.1, and the keys that the standard does not have. These are in its custom
    properties. ``version``: of the contract.
    """
    declared = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    carried = {key: declared[key] for key in CARRIED if declared.get(key)}
    checks = declared.get("checks", ())
    columns = {name: {"type": column} if isinstance(column, str) else column for name, column in declared["columns"].items()}
    key = declared.get("key", ())
    properties = [_property(name, column, key, checks) for name, column in columns.items()]
    of_table = [check for check in checks if _column_of(check) not in columns]
    table = {
        "name": spec.name, "physicalName": f"silver_{spec.name}", "logicalType": "object", "physicalType": "table",
        "description": spec.description or None, "properties": properties,
        "quality": [quality_of(check) for check in of_table] or None,
    }  # fmt: skip
    contract = {
        "version": version, "apiVersion": API_VERSION, "kind": "DataContract", "id": spec.name, "name": spec.name,
        "status": "active", "description": {"purpose": spec.description} if spec.description else None,
        "tags": [f"{name}:{value}" if value else name for name, value in spec.tags.items()] or None,
        "team": {"members": [{"username": owner} for owner in spec.owners]} if spec.owners else None,
        "schema": [table],
        "customProperties": [{"property": PREFIX + key, "value": value} for key, value in carried.items()] or None,
    }  # fmt: skip
    return OpenDataContractStandard.model_validate(contract).to_yaml(), list(carried)


def _column_of(check: Mapping[str, Any]) -> str | None:
    """Return the one column that a check is about, if any."""
    if check["check"] == "unique" and len(check["columns"]) == 1:
        return check["columns"][0]
    return check.get("column")


def _property(name: str, column: Mapping[str, Any], key: Sequence[str], checks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    own = [check for check in checks if _column_of(check) == name]
    carried = {part: column[part] for part in CARRIED_OF_COLUMN if column.get(part) is not None}
    return {
        "name": name, "logicalType": logical_type(column["type"]), "physicalType": column["type"],
        "description": column.get("description"),
        "required": True if name in key or {"check": "not_null", "column": name} in own else None,
        "primaryKey": True if name in key else None, "primaryKeyPosition": key.index(name) + 1 if name in key else None,
        "classification": PERSONAL if column.get("pii") else None,
        "customProperties": [{"property": PREFIX + part, "value": value} for part, value in carried.items()] or None,
        "quality": [quality_of(check) for check in own] or None,
    }  # fmt: skip
