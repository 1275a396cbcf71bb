"""What a kind of check is, told from its class: for the reference, and for `lakehouse check kinds`.

Belongs here: docstrings and fields → values. Does not: how they are printed.
"""

import re
from inspect import getdoc
from typing import Any, get_args

from lakehouse_assets.checks.base import Check


def described(kind: type[Check]) -> dict[str, Any]:
    """``kind, what, nulls, example, details, parameters``: ``nulls`` is what its text says of NULL and NaN."""
    text = " ".join((getdoc(kind) or "").replace("``", "`").split())
    sentences = re.split(r"(?<=[.;])\s+(?=[A-Z])", text)
    own = {name: field for name, field in kind.model_fields.items() if name not in Check.model_fields and name != "check"}
    schema = kind.model_json_schema()["properties"]
    return {
        "kind": get_args(kind.model_fields["check"].annotation)[0],
        "what": kind.summary,
        "nulls": " ".join(s for s in sentences if re.search(r"\b(NULL|NaN|null|empty|no rows|no value)", s)),
        "example": " ".join(kind.example.split()),
        "details": text,
        "parameters": [
            {"name": name, "required": field.is_required(), "meaning": " ".join(schema[name].get("description", "").split())}
            for name, field in own.items()
        ],
    }
