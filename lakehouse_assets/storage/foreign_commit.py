"""One commit, and one schema, of a Delta table that others write.

Belongs here: what a commit's actions mean for the table's rows (pure). Does not: opening a log (foreign_delta).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from lakehouse_assets.contracts.spark_types import sql_type, type_of_json

FEED = "delta.enableChangeDataFeed"
Kind = Literal["none", "append", "rewrite", "overwrite", "restore"]


class AddedFile(NamedTuple):
    """A data file that a commit added. ``path``: relative to the table, or whole. ``vector``: whether some of its rows are
    deleted (a deletion vector).
    """

    path: str
    partition: Mapping[str, str | None]
    size: int
    rows: int | None
    vector: bool


class CommitFiles(NamedTuple):
    """Data files of one commit, without those that only move rows (`OPTIMIZE`). ``removed``: their paths."""

    added: tuple[AddedFile, ...]
    removed: frozenset[str]


@dataclass(frozen=True)
class ForeignCommit:
    """One version. ``kind``: what it did to rows: `none` (properties, a compaction), `append`, `rewrite` (UPDATE, MERGE,
    DELETE, `replaceWhere`), `overwrite` of the whole table, or `restore`. ``digest``: of the commit's file, so that another
    history at this path is noticed. ``states_schema``: whether it has the table's metadata.
    """

    version: int
    at: datetime
    operation: str
    user: str | None
    kind: Kind
    digest: str
    states_schema: bool = False
    restored: str | None = None

    def describe(self) -> str:
        """Return version, operation, user and time for a message."""
        target = f" to {self.restored}" if self.restored else ""
        by = f", by {self.user}" if self.user else ""
        return f"version {self.version} ({self.operation}{target}{by}, {self.at:%Y-%m-%d %H:%M} UTC)"


@dataclass(frozen=True)
class Schema:
    """A version's columns. ``fields``: as the log states them (JSON), each with its `metadata`."""

    table_id: str
    fields: tuple[Mapping[str, Any], ...]
    partitions: tuple[str, ...]
    properties: Mapping[str, str]

    @property
    def types(self) -> dict[str, str]:
        """Spark's types by column."""
        return {field["name"]: sql_type(type_of_json(field["type"])) for field in self.fields}

    @property
    def has_feed(self) -> bool:
        """Whether the table keeps a change data feed."""
        return self.properties.get(FEED, "").lower() == "true"

    @property
    def ids(self) -> dict[int, str]:
        """Column names by Delta's ids; empty without column mapping."""
        key = "delta.columnMapping.id"
        return {field["metadata"][key]: field["name"] for field in self.fields if key in (field.get("metadata") or {})}


def find_renames(before: Schema, after: Schema) -> dict[str, str]:
    """Return ``{old name: new name}`` of columns that kept their id."""
    return {name: after.ids[key] for key, name in before.ids.items() if after.ids.get(key, name) != name}


def parse_commit(version: int, actions: Sequence[Mapping[str, Any]], mtime_ns: int, data: bytes) -> ForeignCommit:
    """Return what a commit did. ``data``: its file, whose actions these are. ``mtime_ns``: its time if it states none."""
    info = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    changes = [(kind, action[kind]) for action in actions for kind in ("add", "remove") if kind in action]
    touched = {kind for kind, file in changes if file.get("dataChange", True)}
    operation, parameters = str(info.get("operation") or "unknown"), info.get("operationParameters") or {}
    millis = info.get("inCommitTimestamp") or info.get("timestamp") or mtime_ns // 1_000_000
    restored = None
    kind: Kind = "none"
    if operation == "RESTORE":
        kind = "restore"
        number, moment = parameters.get("version"), parameters.get("timestamp")
        restored = f"version {number}" if number not in (None, "", "null") else str(moment or "") or None
    elif operation.startswith(("REPLACE", "CREATE OR REPLACE")) or _is_whole_overwrite(parameters):
        kind = "overwrite" if version else "append"
    elif touched:
        kind = "rewrite" if "remove" in touched else "append"
    return ForeignCommit(
        version=version,
        at=datetime.fromtimestamp(int(millis) / 1000, UTC),
        operation=operation,
        user=str(info["userName"]) if info.get("userName") else None,
        kind=kind,
        digest=hashlib.sha256(data).hexdigest()[:16],
        states_schema=any("metaData" in action for action in actions),
        restored=restored,
    )


def _is_whole_overwrite(parameters: Mapping[str, Any]) -> bool:
    dynamic = str(parameters.get("isDynamicPartitionOverwrite", "false")).lower() == "true"
    unfiltered = parameters.get("predicate") in (None, "", "null", "[]", '["true"]')
    return parameters.get("mode") == "Overwrite" and unfiltered and not dynamic
