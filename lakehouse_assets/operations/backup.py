"""Back up a lake: a consistent set of table versions, as a copy or by reference, while runs go on.

Belongs here: making a backup, removing old ones, comparing one with its contents. Does not: restoring (restore_backup).
"""

from collections.abc import Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from deltalake.exceptions import DeltaError
from pyarrow import ArrowException, fs

from lakehouse_assets.errors import EvidenceError, RefusedError
from lakehouse_assets.object_store import is_url, spark_location
from lakehouse_assets.storage.backup import state
from lakehouse_assets.storage.backup.contents import Contents, copy_checked, copy_content
from lakehouse_assets.storage.backup.manifest import BackedUpFile, BackedUpTable, BackupFolder, Manifest, require_name
from lakehouse_assets.storage.delta_files import is_corrupt_log
from lakehouse_assets.storage.file_systems import open_filesystem

# A file that maintenance removes while it is copied makes the whole state be read again.
ATTEMPTS = 3
Kind = Literal["copy", "reference"]
# Streams and maintenance remove old files of these layers within an hour, of others after days: they are copied first.
SHORT_LIVED = ("ops/", "baseline/")
# By table, path, size and time of a file: its checksum in an earlier backup, or in an earlier attempt of this one.
Checksums = MutableMapping[tuple[str, str, int, int | None], str]


class _TableDamaged(Exception):
    """A table's log or one of its files cannot be read."""


@dataclass(frozen=True)
class BackupReport:
    """What a backup has done. ``copied_bytes``: contents that were new. ``removed``: names of the backups that were removed.
    ``unreadable``: why earlier manifests cannot be read, a line for each of those that were read.
    """

    manifest: Manifest
    copied_bytes: int
    removed: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True)
class ContentCheck:
    """What a backup's contents are: files read, and a line for each that is missing or differs. ``skipped``: files that the
    lake does not have.
    """

    files: int
    mistakes: tuple[str, ...]
    skipped: int = 0


def make_backup(
    root: str,
    folder: str,
    clock: Callable[[], datetime],
    *,
    name: str | None = None,
    kind: Kind = "copy",
    keep: int | None = None,
) -> BackupReport:
    """Back up the lake at ``root`` into a folder, without a lock and without a JVM. Killed at any moment, it leaves no backup;
    the next one uses what was copied.

    ``keep``: so many whole copies of this lake stay, older ones are removed; none is removed while a manifest cannot be read.
    A table that cannot be read is left out and named in the manifest. Raises RefusedError, and LockedError as `read_state` has
    it.
    """
    _require_apart(root, folder)
    made_at = clock()
    backups = BackupFolder(folder.rstrip("/"))
    name = require_name(name or f"{made_at:%Y-%m-%dT%H-%M-%SZ}")
    if name in backups.names():
        raise RefusedError(f"{folder} already has a backup {name!r}; choose another --name")
    contents = Contents(backups.path)
    kept_before = sum(contents.sizes.values())
    unreadable: list[str] = []
    # Of a large lake a manifest is large, too: none is read that the newest copy makes needless.
    manifests = backups.readable_manifests(unreadable, backups.newest_names()) if kind == "copy" else iter(())
    newest = next((each for each in manifests if each.root == root and each.kind == "copy"), None)
    checksums = _checksums_of(newest, contents) if newest else {}
    attempt = 1
    while True:
        lake = state.read_state(root)
        if not lake.versions:
            raise RefusedError(f"{root} has no table to back up; see LAKEHOUSE_ROOT")
        tables, damaged = _back_up_tables(root, lake, contents, checksums, kind)
        if not damaged or attempt == ATTEMPTS or state.read_state(root) == lake:
            break
        attempt += 1
    manifest = Manifest(
        name=name, made_at=made_at, root=root, kind=kind, tables=tuple(tables), leases=dict(lake.leases), damaged=damaged
    )
    backups.write(manifest)
    copied = sum(contents.sizes.values()) - kept_before
    removed = remove_old_backups(folder, root, keep, name, unreadable) if keep is not None else ()
    return BackupReport(manifest, copied, removed, tuple(dict.fromkeys(unreadable)))


def _require_apart(root: str, folder: str) -> None:
    lake, target = (f"{_real_location(location).rstrip('/')}/" for location in (root, folder))
    if target.startswith(lake) or lake.startswith(target):
        raise RefusedError(f"{folder}: a backup within its own lake, or around it, is lost with it; choose another folder")


def _real_location(location: str) -> str:
    """Return the one spelling of a folder or an address that others can be compared with."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return str(Path(unquote(parts.path)).resolve())
    return spark_location(location).replace("abfs://", "abfss://") if is_url(location) else str(Path(location).resolve())


def _checksums_of(manifest: Manifest, contents: Contents) -> Checksums:
    """Return the checksums of a backup, of contents that are still there."""
    return {
        (table.table_id, file.path, file.bytes, file.modified): file.sha256
        for table in manifest.tables
        for file in table.files
        if file.modified is not None and contents.sizes.get(file.sha256) == file.bytes
    }


def _back_up_tables(
    root: str, lake: state.LakeState, contents: Contents, checksums: Checksums, kind: Kind
) -> tuple[list[BackedUpTable], dict[str, str]]:
    tables, damaged = [], {}
    with ThreadPoolExecutor(state.THREADS) as pool:
        for path, version in sorted(lake.versions.items(), key=lambda each: (not each[0].startswith(SHORT_LIVED), each[0])):
            try:
                tables.append(_back_up_table(root, path, version, contents, checksums, kind, pool))
            except _TableDamaged as error:
                damaged[path] = str(error)
    return sorted(tables, key=lambda table: table.path), damaged


def _back_up_table(
    root: str, path: str, version: int, contents: Contents, checksums: Checksums, kind: Kind, pool: ThreadPoolExecutor
) -> BackedUpTable:
    try:
        table = state.read_table(root, path, version)
        filesystem, base = open_filesystem(f"{root.rstrip('/')}/{path}")

        def keep(file: state.TableFile) -> BackedUpFile:
            known_by = (table.table_id, file.path, file.bytes, file.modified)
            checksum = checksums.get(known_by)
            if checksum is None and kind == "copy":
                checksum, size = contents.add(filesystem, f"{base}/{file.path}")
            elif checksum is None:
                checksum, size = copy_content((filesystem, f"{base}/{file.path}"), None)
            else:
                size = file.bytes
            if size != file.bytes:
                raise FileNotFoundError(f"{file.path} has {size} bytes, not {file.bytes}")
            if file.modified is not None:
                checksums[known_by] = checksum
            return BackedUpFile(path=file.path, bytes=size, sha256=checksum, modified=file.modified)

        files = tuple(pool.map(keep, table.files))
    except (FileNotFoundError, DeltaError, ArrowException, ValueError) as error:
        if isinstance(error, DeltaError) and not is_corrupt_log(error):
            raise  # a store that throttles is no damage
        line = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise _TableDamaged(line) from error
    return BackedUpTable(path=path, version=version, table_id=table.table_id, rows=table.rows, files=files)


def remove_old_backups(folder: str, root: str, keep: int, newest: str, unreadable: list[str]) -> tuple[str, ...]:
    """Remove all but the newest ``keep`` copies of a lake, and contents that no other backup names. Returns the names that are
    gone, oldest first. ``newest``: was made just now and stays, also if the clock was set back.

    A backup with damaged tables, a reference or one of another lake counts for nothing: it never makes a whole copy go. While a
    manifest cannot be read nothing goes; ``unreadable`` takes a line for each.
    """
    backups = BackupFolder(folder.rstrip("/"))
    if len(names := backups.names()) <= keep:
        return ()
    manifests = sorted(backups.readable_manifests(unreadable, names), key=lambda each: each.made_at)
    if unreadable:
        return ()
    copies = [each for each in manifests if each.root == root and each.kind == "copy" and not each.damaged]
    if len(copies) <= keep:
        return ()
    old = [each for each in manifests if each.root == root and each.made_at < copies[-keep].made_at]
    names = [each.name for each in old if each.name != newest]
    backups.remove(names)
    remaining = [each for each in manifests if each.name not in names]
    Contents(backups.path).remove_except({file.sha256 for each in remaining for table in each.tables for file in table.files})
    return tuple(names)


def origin_of(
    manifest: Manifest, folder: str, root: str | None = None
) -> Callable[[str, BackedUpFile], tuple[fs.FileSystem, str]]:
    """Return the function from a table's path and its file to where the content is: in the backup's folder, or in the lake."""
    if manifest.kind == "copy" and root is None:
        contents = Contents(folder.rstrip("/"))
        return lambda _, file: contents.open(file)
    filesystem, base = open_filesystem(root or manifest.root)
    return lambda table, file: (filesystem, f"{base}/{table}/{file.path}")


def check_contents(manifest: Manifest, folder: str, *, in_lake: bool = False) -> ContentCheck:
    """Read every file of a backup and compare its checksum; one that differs is set aside, so that the next backup copies it
    anew. ``in_lake``: read the lake's own files in place of the backup's. Those that it has no longer are left out, since
    maintenance removes files. None is set aside.
    """
    contents = Contents(folder.rstrip("/"))
    locate = origin_of(manifest, folder, manifest.root if in_lake else None)
    pairs = [(table.path, file) for table in manifest.tables for file in table.files]
    if not in_lake:
        # Each content once, whichever files have it.
        pairs = list({file.sha256: (table, file) for table, file in pairs}.values())

    def mistake(table: str, file: BackedUpFile) -> str | None:
        """Return what is wrong with a file, empty for nothing; None for one that is skipped."""
        source = locate(table, file)
        if in_lake and source[0].get_file_info(source[1]).type is not fs.FileType.File:
            return None
        try:
            copy_checked(source, None, file, table)
        except EvidenceError as error:
            if not in_lake and manifest.kind == "copy":
                contents.set_aside(file)
            return str(error)
        return ""

    with ThreadPoolExecutor(state.THREADS) as pool:
        texts = list(pool.map(lambda pair: mistake(*pair), pairs))
    skipped = texts.count(None)
    return ContentCheck(len(pairs) - skipped, tuple(filter(None, texts)), skipped)
