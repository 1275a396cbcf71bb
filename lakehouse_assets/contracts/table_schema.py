"""The JSON schema of a table's attributes, for editors and `dg`: every key and kind, as a person may write them.

Belongs here: models → JSON schema, with what `defaults.yaml`, `packs.yaml` and `${NAME}` allow. Does not: rules between keys,
which only the loader knows (table, sharing), or writing files.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from lakehouse_assets.checks.strict_model import TRUTHS
from lakehouse_assets.checks.types import ALIASES, ATOMIC
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.sharing import Defaults, UsedPack
from lakehouse_assets.contracts.table import TableSpec

# A text with a variable is accepted wherever a value is: the loader validates its value.
VARIABLE = r"(^|[^$])\$\{[A-Za-z_][A-Za-z0-9_]*\}"
# Quoted numbers and truths are read, too.
NUMBER = rf"^\s*[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$|{VARIABLE}"
TRUTH = rf"^({'|'.join(TRUTHS)})$|{VARIABLE}"
# A date, alone or with a time. Which days there are, the loader knows.
MOMENT = rf"^\d{{4}}-\d{{2}}-\d{{2}}|^-?\d+(\.\d+)?$|{VARIABLE}"
IS_VARIABLE = {"type": "string", "pattern": VARIABLE}
IS_NULL = {"type": "null"}
KEYWORDS = ("description", "default", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
        "minProperties", "maxProperties", "minLength", "maxLength", "uniqueItems")  # fmt: skip
# The names of types are offered; other spellings, decimals and nested types are the loader's to judge.
TYPE = {"if": {"type": "string", "pattern": rf"[A-Z\s<(]|{VARIABLE}"}, "else": {"enum": sorted({*ATOMIC, *ALIASES})}}
# Keys that choose between models.
TAGS = ("check", "kind")


def table_schema(defaults: Defaults | None = None) -> dict[str, Any]:
    """Return the JSON schema of `attributes`. Keys that ``defaults`` set are not required."""
    return _schema_of(TableSpec, defaults or Defaults())


def guard_schema(defaults: Defaults | None = None) -> dict[str, Any]:
    """Return the JSON schema of a guard's `attributes`. Of ``defaults``, those of checks hold."""
    return _schema_of(GuardSpec, (defaults or Defaults()).model_copy(update={"tables": {}}))


def _schema_of(model: type[BaseModel], defaults: Defaults) -> dict[str, Any]:
    raw = model.model_json_schema(by_alias=True)
    definitions = {name: _converted(each) for name, each in raw.pop("$defs").items()}
    used = UsedPack.model_json_schema(by_alias=True)
    definitions["UsedPack"] = _converted(used)
    pack = {"if": {"type": "object"}, "then": {"$ref": "#/$defs/UsedPack"}, "else": {"type": "string"}}
    packs = {"description": "Packs of `packs.yaml` whose checks the table has, too.", "type": ["array", "null"], "items": pack}
    schema = _converted(raw)
    for owner in (schema, *(definitions[name] for name in ("GoldSpec",) if name in definitions)):
        owner["properties"]["packs"] = packs
    schema["properties"]["columns"]["additionalProperties"] = {
        "if": {"type": "object"}, "then": {"$ref": "#/$defs/Column"}, "else": TYPE,
    }  # fmt: skip
    definitions["Column"]["properties"]["type"] |= TYPE
    # A name alone is the feature of that column, as is a feature without an expression.
    features = definitions["DriftSpec"]["properties"]["features"]
    features["items"] = {"if": {"type": "object"}, "then": features["items"], "else": {"type": "string"}}
    definitions["FeatureSpec"]["properties"]["expr"]["type"] = ["string", "null"]
    _release(schema, definitions, defaults.tables)
    for name, parameters in defaults.checks.items():
        if definition := next((d for d in definitions.values() if _tag_of(d) == name), None):
            definition["required"] = [key for key in definition.get("required", []) if key not in parameters]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "$defs": definitions}


def file_schema(defaults: Defaults | None = None) -> dict[str, Any]:
    """Return the JSON schema of a whole `defs.yaml`, for editors. Other components' attributes are not looked into."""
    attributes, of_guard = table_schema(defaults), guard_schema(defaults)
    definitions = attributes.pop("$defs")
    definitions |= {name: each for name, each in of_guard.pop("$defs").items() if name not in definitions}
    del attributes["$schema"], of_guard["$schema"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A table of the lakehouse (defs.yaml)",
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"type": "string", "default": "lakehouse_assets.LakehouseTable"}},
        "if": _has_type("LakehouseTable"),
        "then": _component("Table"),
        "else": {"if": _has_type("GuardedTable"), "then": _component("Guard")},
        "$defs": {"Table": attributes, "Guard": of_guard, **definitions},
    }


def _has_type(name: str) -> dict[str, Any]:
    return {"properties": {"type": {"pattern": rf"^lakehouse_assets\..*{name}$"}}, "required": ["type"]}


def _component(name: str) -> dict[str, Any]:
    properties = {"type": True, "attributes": {"$ref": f"#/$defs/{name}"}}
    return {"required": ["attributes"], "properties": properties, "additionalProperties": False}


def schema_text(defaults: Defaults | None = None) -> str:
    """Return the text of a `table.schema.json`."""
    return json.dumps(file_schema(defaults), indent=1, ensure_ascii=False) + "\n"


def _release(schema: dict[str, Any], definitions: Mapping[str, Any], default_values: Any) -> None:
    """Take the keys that defaults set out of what is required, at every depth of mappings."""
    if not isinstance(default_values, Mapping):
        return
    if "allOf" in schema:  # kinds: whichever the table has
        schema["required"] = [key for key in schema.get("required", []) if key not in default_values]
        for branch in schema["allOf"]:
            _release(branch["then"], definitions, default_values)
        return
    if reference := schema.get("$ref"):
        _release(definitions[reference.rpartition("/")[2]], definitions, default_values)
        return
    if "required" in schema:
        schema["required"] = [key for key in schema["required"] if key not in default_values]
    for key, value in default_values.items():
        if isinstance(inner := schema.get("properties", {}).get(key), dict):
            _release(inner, definitions, value)


def _tag_of(schema: Mapping[str, Any]) -> Any:
    return schema.get("properties", {}).get("check", {}).get("const")


def _converted(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return pydantic's schema of a value as one that names the wrong key, and accepts variables."""
    own: dict[str, Any] = {name: node[name] for name in KEYWORDS if name in node and node[name] not in (None, "", [], {})}
    if "description" in own:
        own["description"] = " ".join(own["description"].replace("``", "`").split())
    if "discriminator" in node:
        return own | _of_kinds(node["discriminator"])
    if "$ref" in node:
        return own | {"$ref": node["$ref"]}
    if "anyOf" in node:
        # A pattern beside several types is the text's.
        pattern = {"pattern": node["pattern"]} if "pattern" in node else {}
        branches = [each | pattern if each.get("type") == "string" else each for each in node["anyOf"]]
        return own | _of_any([_converted(each) for each in branches])
    if "const" in node or "enum" in node:
        return own | _of_values(node.get("enum", [node.get("const")]))
    kind = node.get("type")
    if kind == "object":
        return own | _of_mapping(node)
    if kind == "array":
        return own | {"type": "array", "items": _converted(node.get("items", {}))}
    if kind in ("integer", "number"):
        return own | {"type": [kind, "string"], "pattern": NUMBER}
    if kind == "boolean":
        return own | {"type": ["boolean", "string"], "pattern": TRUTH}
    if "pattern" in node:
        return own | {"if": IS_VARIABLE, "else": {"type": kind, "pattern": node["pattern"]}}
    if node.get("format") in ("date", "date-time"):
        own["pattern"] = MOMENT
    return own | ({"type": kind} if kind else {})


def _of_mapping(node: Mapping[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if "properties" in node:
        schema["properties"] = {name: _converted(each) for name, each in node["properties"].items()}
        for tag in TAGS:
            if "const" in node["properties"].get(tag, {}):
                schema["properties"][tag] = {"const": node["properties"][tag]["const"]}
    if node.get("required"):
        schema["required"] = list(node["required"])
    inner = node.get("additionalProperties")
    if inner is not None:
        schema["additionalProperties"] = inner if isinstance(inner, bool) else _converted(inner)
    return schema


def _of_values(values: list[Any]) -> dict[str, Any]:
    # YAML's plain word `null` is a value here; other tools than the loader read it as the absence of one.
    listed = [*values, None] if "null" in values else list(values)
    return {"if": IS_VARIABLE, "else": {"enum": listed}}


def _of_kinds(discriminator: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping whose keys depend on its kind: a wrong kind is an error of that key, not of the whole."""
    tag, references = discriminator["propertyName"], dict(sorted(discriminator["mapping"].items()))
    branches = [
        {"if": {"properties": {tag: {"const": kind}}, "required": [tag]}, "then": {"$ref": reference}}
        for kind, reference in references.items()
    ]
    return {"type": "object", "required": [tag], "properties": {tag: _of_values(list(references))}, "allOf": branches}


def _of_any(branches: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one schema for several: chosen by the value's type, so that the error is of the branch that was meant."""
    nullable = IS_NULL in branches
    branches = [each for each in branches if each != IS_NULL]
    mappings = [each for each in branches if "$ref" in each or each.get("type") == "object"]
    others = [each for each in branches if each not in mappings]
    plain = _of_plain(others)
    schema = mappings[0] if mappings and not others else plain
    if mappings and others:
        schema = {"if": {"type": "object"}, "then": mappings[0], "else": plain}
    if not nullable:
        return schema
    if "type" in schema and "if" not in schema and "properties" not in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return schema | {"type": [*kinds, "null"]}
    return {"if": IS_NULL, "else": schema}


def _of_plain(branches: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one schema for several of plain values. Bounds of one branch are no bounds of another."""
    if len(branches) == 1:
        return branches[0]
    if not all("type" in each for each in branches):
        return {"anyOf": branches}
    kinds = [kind for each in branches for kind in ([each["type"]] if isinstance(each["type"], str) else each["type"])]
    patterns = [each.get("pattern") for each in branches if "string" in each["type"]]
    schema = {"type": list(dict.fromkeys(kinds))}
    return schema if None in patterns or not patterns else schema | {"pattern": "|".join(dict.fromkeys(filter(None, patterns)))}
