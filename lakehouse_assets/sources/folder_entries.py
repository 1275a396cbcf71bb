"""The entries of a folder: files, folders, links and others, by names of any bytes.

Belongs here: listing a local folder, and its names as text. Does not: which of them are a window's (landing).
"""

import errno
import os
import stat
from typing import NamedTuple

from pyarrow.fs import FileInfo, FileType

# A link whose target is missing, is below a file, or is the link itself; or a file that was just removed.
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
KINDS = {stat.S_ISFIFO: "a named pipe (FIFO)", stat.S_ISSOCK: "a socket", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device"}


class Child(NamedTuple):
    """An entry of a folder. ``size`` and ``mtime_ns``: of files only. ``kind``: of an entry that is no file or folder."""

    name: str
    type: FileType
    size: int
    mtime_ns: int
    link: bool = False
    kind: str = "no regular file"


def base_name(info: FileInfo) -> str:
    """Return an entry's name, with bytes that are not UTF-8 as surrogates, as `os` has them: pyarrow raises for them."""
    try:
        return info.base_name
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "surrogateescape")


def list_local(folder: str) -> list[Child]:
    """List a local folder, links included, without a system call for each entry. Raises OSError."""
    children: list[Child] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_file():
                    status = entry.stat()
                    children.append(Child(entry.name, FileType.File, status.st_size, status.st_mtime_ns, entry.is_symlink()))
                elif entry.is_dir():
                    children.append(Child(entry.name, FileType.Directory, 0, 0))
                else:
                    kind = next((name for test, name in KINDS.items() if test(entry.stat().st_mode)), "no regular file")
                    children.append(Child(entry.name, FileType.Unknown, 0, 0, kind=kind))
            except OSError as error:
                if error.errno in NOT_THERE:
                    continue
                if not entry.is_symlink():
                    raise
                children.append(Child(entry.name, FileType.Unknown, 0, 0, kind="a link that cannot be followed"))
    return children


def escape_bytes(path: str) -> str:
    """Return the path with bytes that are not UTF-8 (surrogates of `os`) as `\\xff`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name belongs to no window."""
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")
