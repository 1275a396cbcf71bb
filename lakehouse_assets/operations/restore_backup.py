"""Restore a backup: a whole lake into an empty place, or single tables that the lake has lost.

Belongs here: what may be written where, and in which order. Does not: making backups (backup), or whether the restored lake
agrees with its logs (`lakehouse verify`).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyarrow import fs

from lakehouse_assets.errors import EvidenceError, RefusedError
from lakehouse_assets.operations.backup import origin_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.backup.contents import copy_checked
from lakehouse_assets.storage.backup.manifest import BackedUpFile, BackedUpTable, Manifest
from lakehouse_assets.storage.backup.restoring import begin_restoring, end_restoring, read_mark, restore_leases
from lakehouse_assets.storage.backup.state import LOG, THREADS
from lakehouse_assets.storage.file_systems import open_filesystem, without_markers
from lakehouse_assets.storage.lock import table_lock

Progress = Callable[[str], None]
SHOWN = 5


@dataclass(frozen=True)
class RestoreReport:
    """What was restored. ``files`` and ``bytes``: written by this call; a repeated one writes the rest alone."""

    tables: tuple[str, ...]
    files: int
    bytes: int


def restore_lake(settings: Settings, manifest: Manifest, folder: str, progress: Progress = lambda _: None) -> RestoreReport:
    """Restore a whole backup into the lake's root, which is empty or has a part of the same backup. No JVM.

    Until the end no run can write the lake. Killed at any moment and repeated, it ends the same. Raises RefusedError if the
    root has anything else, and EvidenceError for a content that is missing or damaged.
    """
    if manifest.kind == "reference" and manifest.root.rstrip("/") == settings.root.rstrip("/"):
        raise RefusedError(
            f"{manifest.name} names files of {manifest.root} itself: set LAKEHOUSE_ROOT to an empty place, and restore there"
        )
    _refuse_other_files(settings.root, manifest.tables, entire_lake=True)
    begin_restoring(settings.root, manifest.name)
    report = _write_tables(settings.root, manifest, manifest.tables, folder, progress)
    restore_leases(settings.root, manifest.leases)
    end_restoring(settings.root)
    return report


def restore_tables(
    settings: Settings, manifest: Manifest, folder: str, paths: Sequence[str], progress: Progress = lambda _: None
) -> RestoreReport:
    """Restore single tables, named as `layer/name`, that the lake does not have; each under its table's lock. No JVM. The same
    errors.
    """
    by_path = {table.path: table for table in manifest.tables}
    if unknown := [path for path in paths if path not in by_path]:
        raise RefusedError(f"{manifest.name} has no {', '.join(unknown)}; it has {', '.join(by_path)}")
    tables = [by_path[path] for path in dict.fromkeys(paths)]
    files = size = 0
    for table in tables:
        layer, _, name = table.path.partition("/")
        lock = f"ops_{name}" if layer == "ops" else f"gold_{name}" if layer == "gold" else name
        with table_lock(settings, lock):
            _refuse_other_files(settings.root, [table], entire_lake=False)
            part = _write_tables(settings.root, manifest, [table], folder, progress)
        files, size = files + part.files, size + part.bytes
    return RestoreReport(tuple(table.path for table in tables), files, size)


def _refuse_other_files(root: str, tables: Sequence[BackedUpTable], *, entire_lake: bool) -> None:
    """Raise RefusedError if a table's folder, or the root, has files that are not the backup's, by name and size."""
    filesystem, base = open_filesystem(root)
    sizes = {f"{base}/{table.path}/{file.path}": file.bytes for table in tables for file in table.files}
    is_begun = entire_lake and read_mark(root) is not None
    folders = [base] if entire_lake else [f"{base}/{table.path}" for table in tables]
    others = []
    for folder in folders:
        listed = filesystem.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
        for info in without_markers(filesystem, listed):
            below = info.path.removeprefix(f"{base}/")
            # Lock files and the mark are no table's. Leases are of a lake that is or was here, unless this restore wrote them.
            own = entire_lake and below.startswith("_") and (is_begun or not below.startswith("_leases/"))
            if info.type is not fs.FileType.File or own:
                continue
            if info.path.endswith(PART) or sizes.get(info.path) == info.size:
                continue
            others.append(below)
    if others:
        more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        remedy = "move it away, or set LAKEHOUSE_ROOT to an empty place" if entire_lake else "move these folders away first"
        raise RefusedError(f"{root} has other files than this backup: {', '.join(sorted(others)[:SHOWN])}{more}; {remedy}")


PART = ".restoring"


def _write_tables(
    root: str, manifest: Manifest, tables: Sequence[BackedUpTable], folder: str, progress: Progress
) -> RestoreReport:
    locate = origin_of(manifest, folder)
    filesystem, base = open_filesystem(root)
    on_disk = isinstance(filesystem, fs.LocalFileSystem)

    def write(table: BackedUpTable, file: BackedUpFile) -> int:
        target = f"{base}/{table.path}/{file.path}"
        existing = filesystem.get_file_info(target)
        if existing.type is fs.FileType.File and existing.size == file.bytes:
            return 0
        if on_disk:
            filesystem.create_dir(target.rpartition("/")[0], recursive=True)
        partial = f"{target}{PART}" if on_disk else target
        copy_checked(locate(table.path, file), (filesystem, partial), file, table.path)
        if on_disk:
            filesystem.move(partial, target)
        return 1

    files = size = 0
    with ThreadPoolExecutor(THREADS) as pool:
        # The logs first: a table that is not there yet is then missed, and not begun anew.
        for table in sorted(tables, key=lambda each: (not each.path.startswith("ops/"), each.path)):
            progress(table.path)
            commits = [file for file in table.files if file.path.startswith(f"{LOG}/")]
            data = [file for file in table.files if not file.path.startswith(f"{LOG}/")]
            for group, map_files in ((data, pool.map), (commits, map)):
                written = list(map_files(lambda file, table=table: write(table, file), group))
                files += sum(written)
                size += sum(file.bytes for file, is_written in zip(group, written, strict=True) if is_written)
    return RestoreReport(tuple(table.path for table in tables), files, size)


def require_whole(manifest: Manifest) -> None:
    """Raise EvidenceError if a backup lacks tables that could not be read when it was made."""
    if manifest.damaged:
        lines = [f"{path}: {reason}" for path, reason in sorted(manifest.damaged.items())]
        raise EvidenceError(
            f"{manifest.name} lacks {len(lines)} table(s) that were damaged when it was made; an older backup may have them"
            " (--name), or name tables with --only:\n" + "\n".join(lines)
        )
