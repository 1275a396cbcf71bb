"""How a table's columns changed: the versions in Delta's log that changed them. No JVM.

Belongs here: these versions and their changes as text. Does not: the contract (schema_status).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lakehouse_assets.storage import delta


@dataclass(frozen=True)
class SchemaVersion:
    """A version of a table that changed its columns."""

    version: int
    at: datetime
    operation: str
    changes: str


def read_schema_history(path: str, most: int = 100) -> list[SchemaVersion]:
    """Return the newest of those versions that are still in Delta's log, oldest first."""
    versions: list[SchemaVersion] = []
    before: dict[str, str] | None = None
    for version, at, operation, columns in delta.schema_changes(path):
        now = dict(columns)
        if now != before:
            versions.append(SchemaVersion(version, at, operation, _changes(before, now)))
        before = now
    return versions[-most:]


def _changes(before: Mapping[str, str] | None, now: Mapping[str, str]) -> str:
    if before is None:
        return f"{len(now)} columns"
    changes = [f"+ {name} {kind}" for name, kind in now.items() if name not in before]
    changes += [f"- {name}" for name in before if name not in now]
    changes += [f"{name}: {before[name]} → {kind}" for name, kind in now.items() if name in before and before[name] != kind]
    return "; ".join(changes) or "another order"
