"""Comments that a person put on a table's columns and nested fields, so that an overwrite keeps them.

Belongs here: a table's comments onto a frame. Does not: writing the frame, or its types.
"""

import json
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.storage import delta


def with_comments(frame: DataFrame, path: str) -> DataFrame:
    """Return the frame with the comments that a person put on the table's columns and nested fields, so that an overwrite keeps
    them.
    """
    own = frame.schema.jsonValue()
    merged = StructType.fromJson(_with_comments_of(own, json.loads(delta.open_table(path).schema().to_json())))
    if merged.jsonValue() == own:
        return frame
    # A cast sets the comments within a column: the types are the same otherwise.
    return frame.select(
        *[
            (frame[identifier(f.name)] if f.dataType == old.dataType else frame[identifier(f.name)].cast(f.dataType)).alias(
                f.name, metadata=f.metadata
            )
            for f, old in zip(merged, frame.schema, strict=True)
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
