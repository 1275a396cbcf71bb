"""An Iceberg table that others write, by its metadata file: its snapshots as versions, and its schemas. No JVM.

Belongs here: reading foreign Iceberg metadata in the words of `foreign_commit`. Does not: reading rows (guards/version_rows).
"""

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pyarrow import ArrowException, fs

from lakehouse_assets.errors import SourceError
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.foreign_commit import CommitFiles, ForeignCommit, Kind, Schema
from lakehouse_assets.storage.foreign_delta import ForeignTable, Log

HINT, METADATA, GZIP = "metadata/version-hint.text", ".metadata.json", b"\x1f\x8b"
# A snapshot that another branch has, or none: it changed no row of the table.
NO_SNAPSHOT = "no snapshot of the table's own"
_TYPES = {"int": "integer", "timestamp": "timestamp_ntz", "timestamptz": "timestamp", "uuid": "string"}


class IcebergTable(ForeignTable):
    """An Iceberg table by the folder that has its metadata, or by the metadata file that a catalog names, with the answers that
    Delta's gives. A version is a snapshot of the current branch, by its sequence number. Its methods raise SourceError, which
    names ``label`` and no address.
    """

    def __init__(self, path: str, label: str) -> None:
        super().__init__(path, label)
        self._metadata: Mapping[str, Any] | None = None

    def log(self) -> Log:
        """Return the versions that are still there. Raises SourceError where there is no table, or none that can be guarded."""
        self._metadata = None
        line = self._line()
        # Version 0 is the table without rows, where its first snapshot is still there.
        oldest = 0 if line[min(line)].get("parent-snapshot-id") is None else min(line)
        return Log(dict.fromkeys(range(oldest, max(line) + 1), ("", 0, 0)))

    def commits(self, log: Log, first: int, last: int | None = None) -> list[ForeignCommit]:
        """Return what the versions from ``first`` to ``last`` (default: the newest) did, oldest first."""
        line = self._line()
        wanted = range(max(first, 0), (max(line) if last is None else last) + 1)
        return [self._snapshot_commit(line, version) for version in wanted]

    def files(self, log: Log, version: int) -> CommitFiles:
        """Refuse: only windows by a column of time ask for files."""
        raise SourceError(f"{self.label}: the files of an Iceberg snapshot are not read")

    def schema(self, version: int | None = None) -> Schema:
        """Return the schema of a version, or of the newest."""
        line = self._line()
        versions = [number for number in line if version is None or number <= version]
        if not versions:
            raise SourceError(f"{self.label}: version {version} has expired")
        own = line[max(versions)].get("schema-id", self._table["current-schema-id"])
        fields = next(schema["fields"] for schema in self._table["schemas"] if schema["schema-id"] == own)
        return Schema(str(self._table["table-uuid"]), tuple(_field(field) for field in fields), (), {})

    def stated_schema(self, log: Log, version: int) -> Schema:
        """Return the schema of a version that changed it."""
        return self.schema(version)

    def snapshot(self, version: int) -> tuple[str, str | None]:
        """Return the ids of a version's snapshot and of the one before it; None for the first."""
        line = self._line()
        if version not in line:
            raise SourceError(f"{self.label}: the snapshot of version {version} has expired")
        before = line[version].get("parent-snapshot-id")
        return str(line[version]["snapshot-id"]), None if before is None else str(before)

    def row_count(self, version: int, *, added: bool) -> int:
        """Return the rows of a version, or those that it added, by its summary; 0 where that does not say."""
        summary = self._line().get(version, {}).get("summary") or {}
        return int(summary.get("added-records" if added else "total-records") or 0)

    def _snapshot_commit(self, line: Mapping[int, Mapping[str, Any]], version: int) -> ForeignCommit:
        snapshot = line.get(version)
        if snapshot is None:
            # Its digest is never that of a snapshot: a version that was judged and is here no more is noticed.
            return ForeignCommit(version, datetime.fromtimestamp(0, UTC), NO_SNAPSHOT, None, "none", "")
        before = [number for number in line if number < version]
        parent = line[max(before)] if before else None
        expired = parent is None and snapshot.get("parent-snapshot-id") is not None
        summary = snapshot.get("summary") or {}
        operation = str(summary.get("operation") or "unknown")
        return ForeignCommit(
            version=version,
            at=datetime.fromtimestamp(int(snapshot["timestamp-ms"]) / 1000, UTC),
            operation=f"{operation}, after a snapshot that has expired" if expired else operation,
            user=None,
            kind="rewrite" if expired else _kind(operation, summary),
            digest=hashlib.sha256(json.dumps(snapshot, sort_keys=True).encode()).hexdigest()[:16],
            states_schema=parent is None or parent.get("schema-id") != snapshot.get("schema-id"),
        )

    def _line(self) -> dict[int, Mapping[str, Any]]:
        """Return the snapshots from the oldest that is still there to the current one, by sequence number."""
        by_id = {snapshot["snapshot-id"]: snapshot for snapshot in self._table.get("snapshots") or ()}
        line: dict[int, Mapping[str, Any]] = {}
        snapshot = by_id.get(self._table.get("current-snapshot-id"))
        # Snapshots from before an upgrade to version 2 have no number: the last of them stands for all.
        while snapshot is not None and (number := int(snapshot.get("sequence-number") or 0)) not in line:
            line[number] = snapshot
            snapshot = by_id.get(snapshot.get("parent-snapshot-id"))
        if not line:
            raise SourceError(f"{self.label}: the Iceberg table has no snapshot yet: nothing was written")
        return line

    @property
    def _table(self) -> Mapping[str, Any]:
        """The metadata, as it was when `log` was asked for last."""
        if self._metadata is None:
            self._metadata = self._read_metadata()
        return self._metadata

    def _read_metadata(self) -> Mapping[str, Any]:
        try:
            text = self._read_newest()
            metadata = json.loads(gzip.decompress(text) if text.startswith(GZIP) else text)
        except (ValueError, EOFError, zlib.error, gzip.BadGzipFile):
            raise SourceError(f"{self.label}: its Iceberg metadata cannot be read: it is damaged") from None
        if not isinstance(metadata, dict):
            raise SourceError(f"{self.label}: its Iceberg metadata cannot be read: it is damaged")
        if metadata.get("format-version", 1) < 2:
            raise SourceError(
                f"{self.label}: an Iceberg table of format version 1 does not number its snapshots; its owner can upgrade it:"
                " ALTER TABLE … SET TBLPROPERTIES ('format-version' = '2')"
            )
        return metadata

    def _read_newest(self) -> bytes:
        """Return the text of the newest metadata file."""
        if self.path.endswith(METADATA):
            if (text := self._read_file("")) is None:
                raise SourceError(f"{self.label}: the metadata file that the catalog named is gone")
            return text
        if (hint := self._read_file(HINT)) is None:
            raise SourceError(
                f"{self.label}: there is no Iceberg table that keeps its own versions: it has no {HINT}. A table whose versions"
                " a catalog keeps is guarded by its name: `table: warehouse.db.orders` in place of `path`"
            )
        number, text = int(hint), None
        # The hint is written after the version: a newer one may be there.
        while (newer := self._read_version(number + 1)) is not None:
            number, text = number + 1, newer
        return text or self._read_version(number) or b""

    def _read_version(self, number: int) -> bytes | None:
        plain, packed = (f"metadata/v{number}{ending}" for ending in (METADATA, f".gz{METADATA}"))
        return self._read_file(plain) or self._read_file(packed)

    def _read_file(self, name: str) -> bytes | None:
        try:
            filesystem, base = open_filesystem(self.path)
            path = f"{base}/{name}".rstrip("/")
            if filesystem.get_file_info(path).type is not fs.FileType.File:
                return None
            with filesystem.open_input_stream(path, compression=None) as file:
                return file.read()
        except (OSError, ArrowException, ValueError) as error:
            raise SourceError(f"{self.label}: its metadata cannot be reached: {type(error).__name__}") from None


def _kind(operation: str, summary: Mapping[str, Any]) -> Kind:
    if operation == "append":
        return "append" if int(summary.get("added-records") or 0) else "none"
    if operation == "replace":
        return "none"
    added, total = summary.get("added-records"), summary.get("total-records")
    replaces_all = operation == "overwrite" and added is not None and added == total
    return "overwrite" if replaces_all else "rewrite"


def _field(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return a column as Delta's log states it; by its id a rename is noticed."""
    metadata = {"delta.columnMapping.physicalName": str(field["id"]), "delta.columnMapping.id": field["id"]}
    return {"name": field["name"], "type": _type(field["type"]), "nullable": not field["required"], "metadata": metadata}


def _type(kind: str | Mapping[str, Any]) -> Any:
    """Return an Iceberg type in the form of Spark's JSON.

    >>> _type("decimal(9, 2)"), _type({"type": "list", "element": "long", "element-required": False})
    ('decimal(9,2)', {'type': 'array', 'elementType': 'long', 'containsNull': True})
    """
    if isinstance(kind, str):
        plain = re.sub(r"\s", "", kind)
        return "binary" if plain.startswith("fixed[") else _TYPES.get(plain, plain)
    if kind["type"] == "struct":
        fields: Sequence[Mapping[str, Any]] = kind["fields"]
        return {"type": "struct", "fields": [_field(field) | {"metadata": {}} for field in fields]}
    if kind["type"] == "list":
        element = _type(kind["element"])
        return {"type": "array", "elementType": element, "containsNull": not kind["element-required"]}
    key, value = _type(kind["key"]), _type(kind["value"])
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": not kind["value-required"]}
