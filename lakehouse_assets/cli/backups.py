"""`lakehouse backup` and `lakehouse restore`: a consistent copy of the lake elsewhere, and getting it back.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

from lakehouse_assets.cli.terminal import AsJson, err, err_lines, out, show
from lakehouse_assets.errors import EnvironmentMissing, EvidenceError, RefusedError
from lakehouse_assets.object_store import is_url
from lakehouse_assets.settings import Settings

Folder = Annotated[str, typer.Argument(help="The backups' folder, or its address on an object store.")]
Name = Annotated[str | None, typer.Option(help="The backup's name (default: the time for a new one, else the newest).")]


def backup(
    folder: Folder,
    name: Name = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Record versions and checksums only; the files stay in the lake.")
    ] = False,
    keep: Annotated[int | None, typer.Option(min=1, help="Then remove all but so many whole copies of this lake.")] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the backups, and make none.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Read a backup's files and compare their checksums.")] = False,
    lake: Annotated[bool, typer.Option("--lake", help="With --check: read the lake's files in place of the copies.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy the lake, as it is at one moment, while runs go on. Files that an earlier backup has are not copied again.

    Ends with code 9 if a table or a file is damaged: all others are in the backup.
    """
    from lakehouse_assets.storage.backup.manifest import BackupFolder

    location = _location(folder)
    if lake and not check:
        raise RefusedError("--lake reads files to check them: name --check as well")
    with _reachable(folder):
        if listing:
            _list_backups(BackupFolder(location), as_json)
        elif check:
            _check_backup(location, name, lake, as_json)
        else:
            _make_backup(location, name, "reference" if reference else "copy", keep, as_json)


@contextmanager
def _reachable(folder: str) -> Iterator[None]:
    """Raise EnvironmentMissing for an error of a file system or a store, but for that of a disk, which the command explains."""
    from deltalake.exceptions import DeltaError

    from lakehouse_assets.storage.disk_errors import find_disk_fault

    try:
        yield
    except (OSError, DeltaError) as error:
        if find_disk_fault(error):
            raise
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = f"{folder} or the lake cannot be reached: {line}. Make both readable and the first writable, and run again"
        raise EnvironmentMissing(message) from error


def _list_backups(folder: Any, as_json: bool) -> None:
    unreadable: list[str] = []
    rows = [_as_row(each) for each in folder.readable_manifests(unreadable)]
    show(sorted(rows, key=lambda row: row["made_at"]), as_json, f"{folder.path} has no backup")
    if unreadable:
        raise EvidenceError("\n".join(unreadable))


def _check_backup(location: str, name: str | None, lake: bool, as_json: bool) -> None:
    from lakehouse_assets.operations.backup import check_contents
    from lakehouse_assets.storage.backup.manifest import BackupFolder

    manifest = BackupFolder(location).read(name)
    with err.status("reading"):
        result = check_contents(manifest, location, in_lake=lake)
    if result.skipped and not result.files:
        raise EnvironmentMissing(
            f"{manifest.root} has none of the {result.skipped} file(s) of {manifest.name}: mount the lake that was backed up,"
            " or make a new backup if all of it was written anew"
        )
    skipped = f"; {result.skipped} skipped, which the lake has no longer" if result.skipped else ""
    line = f"{manifest.name}: {result.files} file(s) as on record{skipped}"
    show([{"mistake": each} for each in result.mistakes], as_json, line)
    if result.mistakes:
        raise EvidenceError(f"{manifest.name}: {len(result.mistakes)} file(s) are missing or differ")


def _make_backup(location: str, name: str | None, kind: Literal["copy", "reference"], keep: int | None, as_json: bool) -> None:
    from lakehouse_assets.operations.backup import make_backup

    settings = Settings.from_environment()
    with err.status(f"backing up {escape(settings.root)}"):
        report = make_backup(settings.root, location, lambda: datetime.now(UTC), name=name, kind=kind, keep=keep)
    show([{**_as_row(report.manifest), "copied_bytes": report.copied_bytes}], as_json)
    for each in report.removed:
        err.print(f"removed {each}")
    err_lines(f"warning: {each}" for each in report.unreadable)
    if report.unreadable and keep is not None:
        err_lines(["warning: no backup was removed (--keep): what a manifest that cannot be read names is not known"])
    if damaged := report.manifest.damaged:
        lines = "\n".join(f"{path}: {reason}" for path, reason in damaged.items())
        raise EvidenceError(f"{len(damaged)} table(s) cannot be read and are not in {report.manifest.name}:\n{lines}")


def restore(
    folder: Folder,
    name: Name = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this table, as LAYER/TABLE (bronze/weather, ops/decisions); repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into the empty place that LAKEHOUSE_ROOT names; with --only, tables that this lake has lost.

    Killed and repeated, it completes. Run `lakehouse verify` afterwards.
    """
    from lakehouse_assets.operations.restore_backup import require_whole, restore_lake, restore_tables
    from lakehouse_assets.storage.backup.manifest import BackupFolder

    settings, location = Settings.from_environment(), _location(folder)
    with _reachable(folder), err.status("restoring") as status:
        manifest = BackupFolder(location).read(name)
        progress = lambda text: status.update(f"restoring {escape(text)}")  # noqa: E731
        if only:
            report = restore_tables(settings, manifest, location, only, progress)
        else:
            require_whole(manifest)
            report = restore_lake(settings, manifest, location, progress)
    row = {"name": manifest.name, "root": settings.root, "tables": len(report.tables)}
    show([{**row, "files_written": report.files, "bytes_written": report.bytes}], as_json)
    if not as_json:
        out.print("now compare it with its logs: lakehouse verify")


def _location(folder: str) -> str:
    return folder.rstrip("/") if is_url(folder) else str(Path(folder).expanduser().absolute())


def _as_row(manifest: Any) -> dict[str, Any]:
    rows = [table.rows for table in manifest.tables if table.path.startswith("silver/")]
    return {
        "name": manifest.name,
        "made_at": manifest.made_at,
        "root": manifest.root,
        "kind": manifest.kind,
        "tables": len(manifest.tables),
        "files": sum(len(table.files) for table in manifest.tables),
        "bytes": manifest.bytes,
        "silver_rows": sum(count or 0 for count in rows),
        "damaged": ", ".join(manifest.damaged),
    }
