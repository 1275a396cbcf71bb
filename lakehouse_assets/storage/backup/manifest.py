"""A backup's manifest: which files make up each table, their sizes and checksums.

Belongs here: its shape, writing, reading and listing manifests. Does not: the files' contents (contents).
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pyarrow import fs
from pydantic import AfterValidator, Field, ValidationError

from lakehouse_assets.errors import EvidenceError, RefusedError
from lakehouse_assets.project import FrozenModel
from lakehouse_assets.storage.file_systems import open_filesystem

FOLDER = "manifests"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TABLE = re.compile(r"[^/\\]+/[^/\\]+")


def _below_table(path: str) -> str:
    """A manifest may come from elsewhere: no path leaves its table's folder."""
    if path.startswith("/") or "\\" in path or not path or {"", ".", ".."} & {*path.split("/")}:
        raise ValueError("a file's path must stay within its table")
    return path


def _table_name(path: str) -> str:
    if not _TABLE.fullmatch(path) or {".", ".."} & {*path.split("/")} or path.startswith("_"):
        raise ValueError("a table's path is LAYER/TABLE")
    return path


def _lease_name(name: str) -> str:
    """It becomes a folder of the restored lake."""
    if not re.fullmatch(r"[^/\\]+", name) or name in (".", ".."):
        raise ValueError("a lease's name is a plain one")
    return name


class BackedUpFile(FrozenModel):
    """One file of a table. ``path``: below the table's folder. ``modified``: nanoseconds, by the lake's file system; the next
    backup takes an unchanged file's checksum from here.
    """

    path: Annotated[str, AfterValidator(_below_table)]
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    modified: int | None = None


class BackedUpTable(FrozenModel):
    """One Delta table. ``path``: layer and name. ``table_id``: Delta's id of the table. ``rows``: None without statistics."""

    path: Annotated[str, AfterValidator(_table_name)]
    version: int
    table_id: str
    rows: int | None
    files: tuple[BackedUpFile, ...]


class Manifest(FrozenModel):
    """One backup. ``root``: the lake's address. ``kind``: `copy` keeps the contents, `reference` names files of the lake.
    ``leases``: the highest number of each lease. ``damaged``: what could not be backed up, by table.
    """

    format: Literal[1] = 1
    name: str
    made_at: datetime
    root: str
    kind: Literal["copy", "reference"]
    tables: tuple[BackedUpTable, ...]
    leases: dict[Annotated[str, AfterValidator(_lease_name)], Annotated[int, Field(ge=0)]] = {}
    damaged: dict[str, str] = {}

    @property
    def bytes(self) -> int:
        """The bytes of all files, each counted once a table."""
        return sum(file.bytes for table in self.tables for file in table.files)


@dataclass(frozen=True)
class BackupFolder:
    """The folder, or address on an object store, that backups are kept in."""

    path: str

    def names(self) -> list[str]:
        """Return the names of the complete backups, sorted as texts: a name need not be a time."""
        return sorted(self._written_at())

    def newest_names(self) -> list[str]:
        """Return the names of the complete backups, the one that was written last first, by the place's own clock."""
        written_at = self._written_at()
        return sorted(written_at, key=lambda name: written_at[name], reverse=True)

    def _written_at(self) -> dict[str, int]:
        filesystem, base = open_filesystem(self.path)
        infos = filesystem.get_file_info(fs.FileSelector(f"{base}/{FOLDER}", allow_not_found=True))
        times = {info.base_name.removesuffix(".json"): info.mtime_ns or 0 for info in infos if info.base_name.endswith(".json")}
        return {name: at for name, at in times.items() if _NAME.fullmatch(name)}

    def read(self, name: str | None = None) -> Manifest:
        """Return a backup's manifest; without a name, the newest. Raises RefusedError if there is none, and EvidenceError if it
        cannot be read.
        """
        if name is None:
            if not self.names():
                raise RefusedError(f"{self.path} has no backup; make one with `lakehouse backup {self.path}`")
            return self.manifests()[-1]
        filesystem, base = open_filesystem(self.path)
        path = f"{base}/{FOLDER}/{require_name(name)}.json"
        if filesystem.get_file_info(path).type is not fs.FileType.File:
            raise RefusedError(f"{self.path} has no backup {name!r}; there are {', '.join(self.names()) or 'none'}")
        with filesystem.open_input_stream(path) as file:
            text = file.read().decode("utf-8", errors="replace")
        try:
            return Manifest.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            location = ".".join(map(str, first["loc"]))
            raise EvidenceError(
                f"{path}: {location}: {first['msg']}; take another backup (--name), or move this file away"
            ) from None

    def manifests(self) -> list[Manifest]:
        """Return all backups, oldest first. Raises EvidenceError if one cannot be read."""
        return sorted(map(self.read, self.names()), key=lambda each: each.made_at)

    def readable_manifests(self, unreadable: list[str], names: Sequence[str] | None = None) -> Iterator[Manifest]:
        """Yield the backups that can be read, in the order of ``names``, or all by name; ``unreadable`` takes a line for each
        that cannot.
        """
        for name in self.names() if names is None else names:
            try:
                yield self.read(name)
            except EvidenceError as error:
                unreadable.append(str(error))
            except RefusedError:
                continue  # another process has removed it

    def write(self, manifest: Manifest) -> None:
        """Write a manifest, whole or not at all. Raises RefusedError if its name exists."""
        filesystem, base = open_filesystem(self.path)
        path = f"{base}/{FOLDER}/{require_name(manifest.name)}.json"
        if filesystem.get_file_info(path).type is not fs.FileType.NotFound:
            raise RefusedError(f"{self.path} already has a backup {manifest.name!r}; choose another --name")
        content = json.dumps(manifest.model_dump(mode="json"), separators=(",", ":")).encode()
        write_whole(filesystem, path, content)

    def remove(self, names: Sequence[str]) -> None:
        """Remove manifests. The contents that no other one names stay until they are removed as well."""
        filesystem, base = open_filesystem(self.path)
        for name in names:
            filesystem.delete_file(f"{base}/{FOLDER}/{require_name(name)}.json")


def require_name(name: str) -> str:
    """Return a backup's name. Raises RefusedError for one that is no file name."""
    if not _NAME.fullmatch(name):
        raise RefusedError(
            f"--name {name!r}: letters, digits, `.`, `_` and `-` are wanted, at most 100, a letter or digit first"
        )
    return name


def write_whole(filesystem: fs.FileSystem, path: str, content: bytes) -> None:
    """Write a file that exists whole or not at all: a store shows an object when it is complete, a disk by a rename."""
    if not isinstance(filesystem, fs.LocalFileSystem):
        with filesystem.open_output_stream(path) as file:
            file.write(content)
        return
    filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    temporary = f"{path}.part"
    with filesystem.open_output_stream(temporary) as file:
        file.write(content)
    filesystem.move(temporary, path)


def move_within(filesystem: fs.FileSystem, path: str, target: str) -> None:
    """Move a file within a disk or a store. Not each store can rename: a copy is made there, and the other one removed."""
    if isinstance(filesystem, fs.LocalFileSystem):
        filesystem.create_dir(target.rpartition("/")[0], recursive=True)
        filesystem.move(path, target)
    else:
        filesystem.copy_file(path, target)
        filesystem.delete_file(path)
