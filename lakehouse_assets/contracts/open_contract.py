"""What a table's contract and the Open Data Contract Standard (ODCS) 3.1 call the same: types, checks, classifications.

Belongs here: the correspondence, once for both directions. Does not: writing a standard contract (open_contract_export), or
reading one (open_contract_import).
"""

from collections.abc import Mapping
from typing import Any

from lakehouse_assets.contracts.columns import declared_type

API_VERSION = "v3.1.0"
ENGINE = "lakehouse_assets"
# Before the names of properties that only this project knows.
PREFIX = f"{ENGINE}."
# Keys of a table that are carried in custom properties, since the standard has none for them.
CARRIED = (
    "group", "source", "extraction", "last_modified", "surrogate_key", "schema", "supersede", "drift", "properties",
    "constraints", "gold", "alerts", "maintenance",
)  # fmt: skip
CARRIED_OF_COLUMN = ("from", "expr", "format", "unit")
PERSONAL = "personal"
# Keys of checks that the standard's metrics may have, too.
PLAIN = {"check", "column", "columns", "severity", "values", "pattern", "min", "max"}
HARMLESS = ("warning", "info")  # severities that the standard's rules have, too; any other one is critical
LOGICAL = {
    "string": "string", "binary": "string", "boolean": "boolean", "tinyint": "integer", "smallint": "integer",
    "int": "integer", "bigint": "integer", "float": "number", "double": "number", "decimal": "number", "date": "date",
    "timestamp": "timestamp", "timestamp_ntz": "timestamp", "struct": "object", "array": "array", "map": "object",
}  # fmt: skip
DECLARED = {
    "string": "string", "integer": "bigint", "number": "double", "boolean": "boolean", "date": "date", "timestamp": "timestamp",
}  # fmt: skip


def logical_type(kind: str) -> str:
    """Return the standard's type of a declared one.

    >>> logical_type("decimal(12,2)"), logical_type("array<string>")
    ('number', 'array')
    """
    return LOGICAL[kind.partition("(")[0].partition("<")[0].strip()]


def column_type(physical: str | None, logical: str | None) -> str | None:
    """Return the declared type of a standard property: its physical type where Spark has it, else its logical one; None for
    neither.

    >>> column_type("VARCHAR(20)", "string"), column_type("DECIMAL(12, 2)", "number"), column_type(None, "time")
    ('string', 'decimal(12,2)', None)
    """
    if physical:
        try:
            return declared_type(physical)
        except ValueError:
            pass
    return DECLARED.get(logical or "")


def quality_of(check: Mapping[str, Any]) -> dict[str, Any]:
    """Return the standard's quality rule of a check as the YAML declares it. It is a metric of the standard's library where
    that has the same meaning, else one of this engine.
    """
    severity = check.get("severity")
    rule: dict[str, Any] = {"severity": severity if severity in HARMLESS else "error"}
    rule |= {"name": check["name"]} if "name" in check else {}
    if check.keys() <= PLAIN and (metric := _metric(check)):
        return {"type": "library", **metric, **rule}
    return {"type": "custom", "engine": ENGINE, "implementation": dict(check), **rule}


def _metric(check: Mapping[str, Any]) -> dict[str, Any]:
    none = {"mustBe": 0}
    match check["check"]:
        case "not_null":
            return {"metric": "nullValues", **none}
        case "unique":
            several = {"arguments": {"properties": list(check["columns"])}} if len(check["columns"]) > 1 else {}
            return {"metric": "duplicateValues", **several, **none}
        case "in_set" if check.keys() <= {"check", "column", "severity", "values"}:
            return {"metric": "invalidValues", "arguments": {"validValues": list(check["values"])}, **none}
        case "matches" if check.keys() <= {"check", "column", "severity", "pattern"}:
            return {"metric": "invalidValues", "arguments": {"pattern": check["pattern"]}, **none}
        case "row_count" if check.get("min") is not None and check.get("max") is not None:
            return {"metric": "rowCount", "mustBeBetween": [check["min"], check["max"]]}
        case "row_count" if check.get("min") is not None:
            return {"metric": "rowCount", "mustBeGreaterOrEqualTo": check["min"]}
        case "row_count" if check.get("max") is not None:
            return {"metric": "rowCount", "mustBeLessOrEqualTo": check["max"]}
    return {}


def check_of(rule: Mapping[str, Any], column: str | None) -> dict[str, Any] | None:
    """Return the check of a standard quality rule; None where there is no counterpart. ``column``: whose rule it is, if any."""
    if rule.get("type") == "custom" and rule.get("engine") == ENGINE and isinstance(rule.get("implementation"), Mapping):
        return dict(rule["implementation"])
    if rule.get("type", "library") != "library":
        return None
    check = _check(rule.get("metric") or rule.get("rule") or "", rule.get("arguments") or {}, column, rule)
    if check is None:
        return None
    return check | ({"severity": rule["severity"]} if rule.get("severity") in HARMLESS else {})


def _check(metric: str, arguments: Mapping[str, Any], column: str | None, rule: Mapping[str, Any]) -> dict[str, Any] | None:
    if metric == "rowCount" and column is None:
        return _row_count(rule)
    threshold = _threshold(rule)
    if threshold is None:
        return None
    share = {} if threshold == 1 else {"threshold": threshold}
    if metric == "nullValues" and column:
        return {"check": "not_null", "column": column, **share}
    if metric == "missingValues" and column and arguments.get("missingValues", [None]) == [None]:
        return {"check": "not_null", "column": column, **share}
    if metric == "invalidValues" and column and arguments.keys() == {"validValues"}:
        return {"check": "in_set", "column": column, "values": arguments["validValues"], **share}
    if metric == "invalidValues" and column and arguments.keys() == {"pattern"}:
        return {"check": "matches", "column": column, "pattern": arguments["pattern"], **share}
    columns = [column] if column else arguments.get("properties")
    if metric == "duplicateValues" and isinstance(columns, list) and columns:
        return {"check": "unique", "columns": columns, **share}
    return None


def _row_count(rule: Mapping[str, Any]) -> dict[str, Any] | None:
    if rule.get("mustBeBetween"):
        low, high = rule["mustBeBetween"]
    elif rule.get("mustBe") is not None:
        low = high = rule["mustBe"]
    else:
        above, below = rule.get("mustBeGreaterThan"), rule.get("mustBeLessThan")
        low = rule.get("mustBeGreaterOrEqualTo") if above is None else above + 1
        high = rule.get("mustBeLessOrEqualTo") if below is None else below - 1
    bounds = {name: value for name, value in (("min", low), ("max", high)) if value is not None}
    if not bounds or not all(_is_whole(value) for value in bounds.values()):
        return None
    return {"check": "row_count", **{name: int(value) for name, value in bounds.items()}}


def _is_whole(value: Any) -> bool:
    return type(value) is int or (isinstance(value, float) and value.is_integer())


def _threshold(rule: Mapping[str, Any]) -> float | None:
    """Return the least share of rows that must pass; None for a bound that no check has."""
    if rule.get("mustBe") == 0 or rule.get("mustBeLessOrEqualTo") == 0:
        return 1
    at_most = rule.get("mustBeLessOrEqualTo")
    if at_most is not None and rule.get("unit") == "percent" and 0 <= at_most < 100:
        return round(1 - at_most / 100, 10)
    return None
