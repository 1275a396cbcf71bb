"""Comments on a table's columns and nested fields: the contract's, and a person's, which an overwrite keeps.

Belongs here: a table's comments onto a frame. Does not: writing the frame, or its types.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.declarations import comment_of
from lakehouse_assets.storage import delta


def with_comments(frame: DataFrame, path: str, own: Mapping[str, str], former: Mapping[str, str] | None = None) -> DataFrame:
    """Return the frame with the comments that a person put on the table's columns and nested fields, so that an overwrite keeps
    them. ``own``: the contract's comments by column, which win. ``former``: those of an earlier contract, which go.
    """
    schema = frame.schema.jsonValue()
    table = json.loads(delta.open_table(path).schema().to_json())
    for field in table["fields"]:
        metadata = field.get("metadata") or {}
        if metadata.get("comment") == (former or {}).get(field["name"]):
            metadata.pop("comment", None)
    return _as_schema(frame, _with_own(_with_comments_of(schema, table), own))


def with_units(frame: DataFrame, path: str, units: Mapping[str, str]) -> DataFrame:
    """Return gold's frame with its columns' units as comments, and the table's other comments. A comment that is a unit alone
    is the project's: it goes if its column has no unit any more.
    """
    own = {name: comment_of(None, unit) for name, unit in units.items()}
    if not delta.exists(path):
        return with_own_comments(frame, own)
    former = {name: text for name, text in delta.column_comments(path).items() if re.fullmatch(r"\[[^\[\]]*\]", text)}
    return with_comments(frame, path, own, former)


def with_own_comments(frame: DataFrame, own: Mapping[str, str]) -> DataFrame:
    """Return the frame with a contract's comments by column."""
    return _as_schema(frame, _with_own(frame.schema.jsonValue(), own))


def _with_own(schema: dict[str, Any], own: Mapping[str, str]) -> dict[str, Any]:
    fields = schema["fields"]
    commented = [{**f, "metadata": {**f["metadata"], "comment": own[f["name"]]}} if f["name"] in own else f for f in fields]
    return {**schema, "fields": commented}


def _as_schema(frame: DataFrame, schema: dict[str, Any]) -> DataFrame:
    """Return the frame with the comments of a schema of the same columns and types."""
    if schema == frame.schema.jsonValue():
        return frame
    # A cast sets the comments within a column: the types are the same otherwise.
    return frame.select(
        *[
            (frame[identifier(f.name)] if f.dataType == old.dataType else frame[identifier(f.name)].cast(f.dataType)).alias(
                f.name, metadata=f.metadata
            )
            for f, old in zip(StructType.fromJson(schema), frame.schema, strict=True)
        ]
    )


def _with_comments_of(kind: Any, commented: Any) -> Any:
    """Return a type's JSON with the comments of another's fields of the same names, at any depth."""
    if not isinstance(kind, dict) or not isinstance(commented, dict) or kind["type"] != commented["type"]:
        return kind
    if kind["type"] != "struct":
        parts = [part for part in ("elementType", "keyType", "valueType") if part in kind]
        return {**kind, **{part: _with_comments_of(kind[part], commented[part]) for part in parts}}
    others = {field["name"]: field for field in commented["fields"]}

    def merge(field: dict[str, Any]) -> dict[str, Any]:
        other = others.get(field["name"])
        if other is None:
            return field
        comment = (other.get("metadata") or {}).get("comment")
        metadata = field["metadata"] | ({"comment": comment} if comment else {})
        return {**field, "type": _with_comments_of(field["type"], other["type"]), "metadata": metadata}

    return {**kind, "fields": [merge(field) for field in kind["fields"]]}
