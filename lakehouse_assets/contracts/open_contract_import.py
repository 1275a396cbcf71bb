"""A contract of the Open Data Contract Standard 3 → the draft of a table's YAML, and what of it has no counterpart.

Belongs here: the import and its errors. Does not: which of the two has which words (open_contract), or writing the file (cli).
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from open_data_contract_standard.model import OpenDataContractStandard, SchemaObject, SchemaProperty
from pydantic import BaseModel, ValidationError

from lakehouse_assets.contracts.document import read_documents
from lakehouse_assets.contracts.mistakes import join_keys, mistakes_in
from lakehouse_assets.contracts.open_contract import CARRIED, CARRIED_OF_COLUMN, PERSONAL, PREFIX, check_of, column_type
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError

# Parts of a contract and of its table, and of a column, that are read, or say nothing about the data.
READ = {"version", "kind", "apiVersion", "id", "name", "status", "tags", "description", "team", "schema", "customProperties"}
READ_OF_TABLE = {
    "id", "name", "physicalName", "physicalType", "logicalType", "description", "businessName", "properties", "quality",
    "customProperties",
}  # fmt: skip
READ_OF_COLUMN = {
    "id", "name", "physicalType", "logicalType", "description", "businessName", "primaryKey", "primaryKeyPosition", "required",
    "unique", "classification", "customProperties", "quality", "properties", "items",
}  # fmt: skip
# A contract names neither; the draft says so, and loads.
PLACEHOLDERS = ("source", "extraction")


def import_contract(file: Path, table: str | None = None) -> tuple[str, str, list[str]]:
    """Return a table's name, its YAML (`type` and `attributes`), and advice: what had no counterpart and what is a placeholder.

    ``table``: which object of the contract's schema; None if it has one. Raises ConfigError for a file that is no contract of
    ODCS 3, has unknown fields, or gives a table that would not load.
    """
    try:
        return _import(file, table)
    except RecursionError:
        raise ConfigError(f"{file}: its types or values are nested too deep") from None


def _import(file: Path, table: str | None) -> tuple[str, str, list[str]]:
    contract = _read(file)
    chosen = _choose(file, contract, table)
    name = chosen.name or ""
    advice = [f"{part}: no counterpart" for part in sorted(_set_parts(contract) - READ)]
    advice += [f"schema.{name}.{part}: no counterpart" for part in sorted(_set_parts(chosen) - READ_OF_TABLE)]
    columns, key, checks = _columns(file, chosen, advice)
    attributes: dict[str, Any] = {"name": name}
    described = chosen.description or (contract.description.purpose if contract.description else None)
    attributes |= {"description": described} if described else {}
    attributes |= _owners(contract, advice) | _tags(contract)
    carried = _carried(contract.customProperties, "", CARRIED, advice)
    for part in PLACEHOLDERS:
        if part not in carried:
            advice.append(f"{part}: the contract does not say it, so this one is a placeholder: change it")
        attributes[part] = carried.pop(part) if part in carried else _placeholder(part, name, bool(key))
    attributes |= {"key": key} if key else {}
    attributes |= {"columns": columns, "checks": checks} if checks else {"columns": columns}
    attributes |= carried
    spec = _load(file, attributes)
    if gold := [each.sql for each in spec.gold if each.sql.endswith(".sql")]:
        advice.append(f"gold: put {', '.join(gold)} beside the table's YAML: a contract has no files")
    body = yaml.safe_dump(attributes, sort_keys=False, allow_unicode=True, default_flow_style=None, width=math.inf)
    indented = "".join(f"  {line}" if line.strip() else line for line in body.splitlines(keepends=True))
    return name, f"type: lakehouse_assets.LakehouseTable\nattributes:\n{indented}", advice


def _read(file: Path) -> OpenDataContractStandard:
    try:
        documents = read_documents(file)
    except OSError as error:
        raise ConfigError(f"{file}: it cannot be read: {error.strerror}") from None
    if len(documents) > 1:
        raise ConfigError(f"{file}: it has {len(documents)} documents; a contract is a file of its own")
    data = documents[0].data if documents else None
    if not isinstance(data, Mapping) or data.get("kind") != "DataContract":
        raise ConfigError(f"{file}: kind: a contract of the Open Data Contract Standard says `kind: DataContract`")
    if not str(data.get("apiVersion", "")).startswith("v3."):
        raise ConfigError(f"{file}: apiVersion: {data.get('apiVersion')!r}; versions v3.x are read")
    try:
        contract = OpenDataContractStandard.model_validate(data)
    except ValidationError as error:
        reasons = "; ".join(f"{join_keys(keys)}: {text}" for keys, text in mistakes_in(error))
        raise ConfigError(f"{file}: {reasons}") from None
    if unknown := list(_unknown_fields(data, contract.model_dump(by_alias=True, exclude_unset=True), ())):
        raise ConfigError(f"{file}: {', '.join(unknown)}: the standard ({contract.apiVersion}) has no such field")
    return contract


def _unknown_fields(data: Any, read: Any, keys: tuple[str | int, ...]) -> Iterator[str]:
    """Yield fields that the standard's model has passed over."""
    if isinstance(data, Mapping) and isinstance(read, Mapping):
        for key, value in data.items():
            if key not in read:
                yield join_keys((*keys, key))
            else:
                yield from _unknown_fields(value, read[key], (*keys, key))
    elif isinstance(data, list) and isinstance(read, list):
        for index, (value, other) in enumerate(zip(data, read, strict=True)):
            yield from _unknown_fields(value, other, (*keys, index))


def _choose(file: Path, contract: OpenDataContractStandard, table: str | None) -> SchemaObject:
    tables = contract.schema_ or []
    names = ", ".join(each.name or "?" for each in tables)
    chosen = [each for each in tables if table in (None, each.name)]
    if not tables:
        raise ConfigError(f"{file}: schema: the contract has no table")
    if not chosen:
        raise ConfigError(f"{file}: schema: it has no table {table!r}; there are {names}")
    if len(chosen) > 1:
        raise ConfigError(f"{file}: schema: it has {len(chosen)} tables ({names}); choose one with --table")
    return chosen[0]


def _columns(file: Path, table: SchemaObject, advice: list[str]) -> tuple[dict[str, Any], list[str], list[dict[str, Any]]]:
    columns: dict[str, Any] = {}
    checks: list[dict[str, Any]] = []
    where = f"schema.{table.name}"
    keys = [(each.primaryKeyPosition or math.inf, each.name or "") for each in table.properties or () if each.primaryKey]
    for index, each in enumerate(table.properties or ()):
        name, path = each.name or "", f"{where}.{each.name}"
        if not name:
            raise ConfigError(f"{file}: {where}: property {index} has no name")
        if name in columns:
            raise ConfigError(f"{file}: {path}: two properties have this name")
        advice += [f"{path}.{part}: no counterpart" for part in sorted(_set_parts(each) - READ_OF_COLUMN)]
        kind = column_type(each.physicalType, each.logicalType) or _nested_type(each)
        if kind is None:
            raise ConfigError(f"{file}: {path}: its types {each.physicalType!r} and {each.logicalType!r} are none of Spark's")
        column: dict[str, Any] = {"type": kind}
        column |= {"description": each.description} if each.description else {}
        column |= {"pii": True} if (each.classification or "").lower() in (PERSONAL, "pii") else {}
        if each.classification and not column.get("pii"):
            advice.append(f"{path}.classification: {each.classification}: no counterpart")
        columns[name] = column | _carried(each.customProperties, f"{path}.", CARRIED_OF_COLUMN, advice)
        rules = list(_checks(each.quality, name, path, advice))
        if each.required and not each.primaryKey and not any(rule.get("check") == "not_null" for rule in rules):
            rules.append({"check": "not_null", "column": name})
        if each.unique and not any(rule.get("check") == "unique" for rule in rules):
            rules.append({"check": "unique", "columns": [name]})
        checks += rules
    checks += _checks(table.quality, None, where, advice)
    return columns, [name for _, name in sorted(keys)], checks


def _nested_type(each: SchemaProperty) -> str | None:
    """Return the type of an object or array by its parts; None where one of them is unknown."""
    if each.logicalType == "array" and each.items:
        item = column_type(each.items.physicalType, each.items.logicalType) or _nested_type(each.items)
        return item and f"array<{item}>"
    if each.logicalType != "object" or not each.properties:
        return None
    parts = [(p.name, column_type(p.physicalType, p.logicalType) or _nested_type(p)) for p in each.properties]
    return (
        None
        if any(kind is None or not name for name, kind in parts)
        else f"struct<{', '.join(f'{name}: {kind}' for name, kind in parts)}>"
    )


def _checks(rules: Any, column: str | None, path: str, advice: list[str]) -> Iterator[dict[str, Any]]:
    for index, each in enumerate(rules or ()):
        rule = each.model_dump(exclude_none=True)
        check = check_of(rule, column)
        if check is None:
            what = rule.get("name") or rule.get("description") or rule.get("metric") or rule.get("rule") or rule.get("type")
            advice.append(f"{path}.quality.{index} ({what}): no counterpart; write it as a check")
        else:
            yield check


def _owners(contract: OpenDataContractStandard, advice: list[str]) -> dict[str, Any]:
    team = contract.team
    members = team if isinstance(team, list) else (team.members or [] if team else [])
    names = [member.username or "" for member in members]
    owners = [name for name in names if "@" in name or name.startswith("team:")]
    advice += [f"team: {name or 'a member without username'}: no owner for Dagster" for name in names if name not in owners]
    return {"owners": owners} if owners else {}


def _tags(contract: OpenDataContractStandard) -> dict[str, Any]:
    pairs = [tag.partition(":") for tag in contract.tags or ()]
    return {"tags": {name.strip(): value.strip() for name, _, value in pairs}} if pairs else {}


def _carried(properties: Any, path: str, keys: Collection[str], advice: list[str]) -> dict[str, Any]:
    """Return the values of custom properties that are keys of ours; one without a value counts as absent."""
    own = {}
    for each in properties or ():
        key = (each.property or "").removeprefix(PREFIX)
        if key == each.property or key not in keys:
            advice.append(f"{path}customProperties: {each.property}: no counterpart")
        elif each.value is not None:
            own[key] = each.value
    return own


def _placeholder(part: str, name: str, keyed: bool) -> dict[str, Any]:
    if part == "source":
        return {"kind": "files", "path": f"{name}/{{window:%Y-%m-%d}}.csv", "format": "csv"}
    return {"cadence": "daily", "start": "2024-01-01", "mode": "upsert" if keyed else "append"}


def _set_parts(model: BaseModel) -> set[str]:
    return {key for key, value in model.model_dump(by_alias=True, exclude_none=True).items() if value not in ([], {})}


def _load(file: Path, attributes: Mapping[str, Any]) -> TableSpec:
    try:
        return TableSpec.model_validate(attributes)
    except ValueError as error:
        mistakes: Sequence[Any] = list(mistakes_in(error)) if isinstance(error, ValidationError) else [((), str(error))]
        reasons = "; ".join(f"{join_keys(keys)}: {text}" if keys else text for keys, text in mistakes)
        raise ConfigError(f"{file}: its table would not load: {reasons}") from None
