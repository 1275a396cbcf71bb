"""Disks that are full, read-only or failing: recognized in any library's error, and reported with the disks' free space.

Belongs here: recognizing such an error, and its message. Does not: other failed scans (sources/file_scans).
"""

import errno
import os
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltalake.exceptions import DeltaError

from lakehouse_assets.errors import DiskError, LakehouseError, java_causes
from lakehouse_assets.object_store import is_url
from lakehouse_assets.settings import Settings

MESSAGES = {errno.ENOSPC: "No space left on device", errno.EDQUOT: "Disk quota exceeded", errno.EROFS: "Read-only file system"}
MESSAGES |= {errno.EIO: "Input/output error", errno.EFBIG: "File too large"}
REMEDIES = {MESSAGES[errno.EROFS]: "Make it writable", MESSAGES[errno.EIO]: "Have the disk looked at"}
REMEDIES |= {MESSAGES[errno.EFBIG]: "Raise the limit (`ulimit -f`)"}
_FAULTS = {text.lower(): text for text in MESSAGES.values()}
# SQLite, Dagster's storage, has messages of its own.
_FAULTS |= {"database or disk is full": MESSAGES[errno.ENOSPC], "attempt to write a readonly database": MESSAGES[errno.EROFS]}
_FAULTS |= {"disk i/o error": MESSAGES[errno.EIO]}  # of a full disk too, if its journal does not fit
FAULT = re.compile("|".join(map(re.escape, _FAULTS)), re.IGNORECASE)
# Errors of files. Any other error may quote a row with the same text.
JAVA = re.compile(r"java\.io\.(IOException|FileNotFoundException)|java\.nio\.file\.\w+|org\.apache\.hadoop\.fs\.[\w.$]+")
# Hadoop does not say why it cannot make a folder: the disk is asked.
NO_FOLDER = re.compile(r"Mkdirs failed to create (?:file:)?(/.+?) \(exists=")
PYTHON: tuple[type[BaseException], ...] = (OSError, DeltaError, sqlite3.Error)
DEPTH = 20
LITTLE = 1_000_000  # bytes


def find_disk_fault(error: BaseException) -> str | None:
    """Return the system's message about a disk, if an error or one of its causes comes from one; None for any other.

    >>> find_disk_fault(OSError(28, "x")), find_disk_fault(ValueError("No space left on device"))
    ('No space left on device', None)
    """
    for link in _chain(error):
        if isinstance(link, OSError) and link.errno in MESSAGES:
            return MESSAGES[link.errno]
        texts = [str(link)] if isinstance(link, PYTHON) else []
        for text in [*texts, *_java_messages(link)]:
            if match := FAULT.search(text):
                return _FAULTS[match[0].lower()]
            if (folder := NO_FOLDER.search(text)) and (fault := _find_fault_at(Path(folder[1]))):
                return fault
    return None


def _find_fault_at(folder: Path) -> str | None:
    """Return the message of a disk on which no folder can be made; None if it is writable and has room."""
    free, _, writable = _free_space(folder)
    if not writable:
        return MESSAGES[errno.EROFS]
    return None if free else MESSAGES[errno.ENOSPC]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(DEPTH):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _java_messages(error: BaseException) -> list[str]:
    innermost = list(java_causes(error))[-1:]
    return [str(cause.getMessage() or "") for cause in innermost if JAVA.fullmatch(cause.getClass().getName())]


def as_disk_error(error: BaseException, settings: Settings) -> DiskError | None:
    """Return a DiskError for an error that a disk caused; None for any other."""
    if isinstance(error, LakehouseError) or (fault := find_disk_fault(error)) is None:
        return None
    file = error.filename if isinstance(error, OSError) and isinstance(error.filename, str) else None
    of_file = f" ({file})" if file else ""
    folders = _folders(settings)
    full = fault == MESSAGES[errno.EIO] and any(_free_space(folder)[0] < LITTLE for _, folder in folders)
    remedy = "Make room" if full else REMEDIES.get(fault, "Make room")
    disks = "; ".join(_describe_space(name, folder) for name, folder in folders)
    # The remedy first: some listings show the beginning alone.
    return DiskError(f"{fault}{of_file}. {remedy}, and run again: half-written files do not count. Now {disks}")


@contextmanager
def raise_disk_errors(settings: Settings) -> Iterator[None]:
    """Raise DiskError within the block for an error that a disk caused."""
    try:
        yield
    except Exception as error:
        if (ours := as_disk_error(error, settings)) is not None:
            raise ours from error
        raise


def _folders(settings: Settings) -> list[tuple[str, Path]]:
    lake = [] if is_url(settings.root) else [("the lake", Path(settings.root))]
    return [*lake, ("DAGSTER_HOME", settings.dagster_home), ("temporary files", Path(tempfile.gettempdir()))]


def _free_space(folder: Path) -> tuple[int, int, bool]:
    """Return a disk's free bytes, its size, and whether it is writable. Unknown counts as free."""
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
    try:
        status = os.statvfs(existing)
    except OSError:
        return sys.maxsize, sys.maxsize, True
    free = status.f_bavail * status.f_frsize if status.f_favail or not status.f_files else 0
    return free, status.f_blocks * status.f_frsize, not status.f_flag & os.ST_RDONLY


def _describe_space(name: str, folder: Path) -> str:
    free, size, writable = _free_space(folder)
    return f"{name} {folder}: {free / 1e6:,.1f} of {size / 1e6:,.0f} MB free" if writable else f"{name} {folder}: read-only"
