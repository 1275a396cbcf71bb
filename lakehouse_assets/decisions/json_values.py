"""Values as JSON gives them back, so that a record equals the one that is read from the log.

Belongs here: that conversion. Does not: what a record keeps.
"""

from collections.abc import Mapping
from typing import Any


def to_json_value(value: Any) -> Any:
    """Return ``value`` with each tuple as a list, at any depth: what `json.loads` makes of its `json.dumps`."""
    if isinstance(value, Mapping):
        return {name: to_json_value(item) for name, item in value.items()}
    return [to_json_value(item) for item in value] if isinstance(value, tuple | list) else value
