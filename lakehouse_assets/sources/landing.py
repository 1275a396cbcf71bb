"""The landing folder: which files belong to which window, their fingerprints, and which of them must not be opened.

Belongs here: listing and opening, a folder by itself and a URL through pyarrow.fs. Does not: what is in a file.
"""

import errno
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from typing import NamedTuple

from pyarrow import NativeFile
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from lakehouse_assets.contracts.path_pattern import PathPattern
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import SourceError
from lakehouse_assets.settings import ObjectStore

# What becomes of a link whose target is missing, is under a file, or is itself; and of a file that has just gone.
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
# By suffix, as Hadoop chooses its codec.
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2"}


class LandedFile(NamedTuple):
    """``path`` is relative to the landing folder. ``refused``: why the file must not be opened."""

    window: Window
    path: str
    size: int
    mtime_ns: int
    refused: str | None = None


class _Child(NamedTuple):
    """What is in a folder. ``size`` and ``mtime_ns`` count for files only."""

    name: str
    type: FileType
    size: int
    mtime_ns: int
    link: bool = False


def fingerprint(files: Iterable[LandedFile]) -> str:
    """32 hex digits over paths, sizes and times; a refusal counts, so that lifting it (a `chmod`) is a change."""
    lines = sorted(f"{file.path}\0{file.size}\0{file.mtime_ns}\0{file.refused or ''}" for file in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


class Landing:
    """A folder, or an object-store URL."""

    def __init__(self, place: str) -> None:
        """Nothing is touched yet, so that a missing folder is an error of the one who lists it."""
        self.place = place.rstrip("/") or "/"
        self.local = "://" not in place
        if self.local:
            self.filesystem: FileSystem = LocalFileSystem()
            self.root = self.place = os.path.abspath(place)  # noqa: PTH100 (resolve() would follow links; Spark does not)
            return
        try:
            self.filesystem, self.root = FileSystem.from_uri(ObjectStore.from_environment().arrow_uri(self.place))
        except (OSError, ValueError) as error:
            raise SourceError(f"LAKEHOUSE_LANDING is {place}, which cannot be opened: {error}") from None

    def files(self, pattern: PathPattern, windows: Iterable[Window]) -> list[LandedFile]:
        """The files of these windows, oldest window first, then by path.

        Hidden names (`_x`, `.x`) and names that are no UTF-8 belong to no window. Raises SourceError if there is no landing
        folder, or a folder in it cannot be listed.
        """
        self._check()
        wanted = {window.start: window for window in windows}
        found: dict[str, LandedFile] = {}
        for folders in pattern.folders(wanted):
            for folder in self._folders(folders.split("/") if folders else []):
                inside = not self.local or self._is_inside(folder)
                for child in self._children(folder):
                    path = f"{folder}/{child.name}" if folder else child.name
                    start = pattern.window_start(path) if child.type == FileType.File and not _hidden(child.name) else None
                    if start is not None and start in wanted:
                        refused = self._refusal(path, child, inside)
                        found[path] = LandedFile(wanted[start], path, child.size, child.mtime_ns, refused)
        return sorted(found.values(), key=lambda file: (file.window, file.path))

    def open(self, path: str) -> NativeFile:
        """The decompressed bytes of a file. Raises OSError."""
        suffix = "." + path.rpartition(".")[2]
        return self.filesystem.open_input_stream(f"{self.root}/{path}", compression=COMPRESSIONS.get(suffix))

    def spark_path(self, path: str) -> str:
        """The file's place as Spark is told it."""
        return re.sub("^s3n?://", "s3a://", f"{self.place}/{path}")

    def key(self, path: str) -> str:
        """The file's place as Spark tells it, decoded and without its scheme and leading slashes."""
        return re.sub("^[a-z0-9+.-]+:/+", "", self.spark_path(path), flags=re.IGNORECASE).lstrip("/")

    def _check(self) -> None:
        try:
            kind = self.filesystem.get_file_info(self.root).type
        except OSError as error:
            raise SourceError(f"LAKEHOUSE_LANDING is {self.place}, which cannot be reached: {error}") from None
        if kind == FileType.NotFound:
            raise SourceError(
                f"LAKEHOUSE_LANDING is {self.place}, which does not exist: create it or name another"
                " (`python scripts/land_example.py` lands the example data)"
            )
        if kind != FileType.Directory:
            raise SourceError(f"LAKEHOUSE_LANDING is {self.place}, which is not a folder")

    def _folders(self, segments: Sequence[str]) -> list[str]:
        """The folders that a pattern names: listed only where it has a glob, never deeper than it goes."""
        found = [""]
        for segment in segments:
            deeper: list[str] = []
            for folder in found:
                names = [segment]
                if "*" in segment or "?" in segment:
                    pattern = re.compile(translate(segment))
                    children = self._children(folder)
                    folders = [child.name for child in children if child.type == FileType.Directory]
                    names = [name for name in folders if pattern.match(name) and not _hidden(name)]
                deeper += [f"{folder}/{name}" if folder else name for name in names]
            found = deeper
        return found

    def _children(self, folder: str) -> list[_Child]:
        place = f"{self.root}/{folder}" if folder else self.root
        try:
            if self.local:
                return _listed(place)
            infos = self.filesystem.get_file_info(FileSelector(place, allow_not_found=True))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise SourceError(f"{place} in the landing folder cannot be listed: {error}") from None
        found: list[_Child] = []
        for info in infos:
            try:
                found.append(_Child(info.base_name, info.type, info.size or 0, info.mtime_ns or 0))
            except UnicodeDecodeError:
                continue
        return found

    def _is_inside(self, path: str) -> bool:
        """Whether what a path of this folder leads to, by links perhaps, is in the landing folder."""
        real, root = os.path.realpath(f"{self.root}/{path}"), os.path.realpath(self.root)
        return os.path.commonpath([real, root]) == root

    def _refusal(self, path: str, child: _Child, inside: bool) -> str | None:
        """``inside``: whether its folder is. A file that is no link is where its folder is, which spares asking for each of a
        hundred thousand.
        """
        if ":" in child.name:
            return "its name has a colon, which Spark (Hadoop) cannot read"
        if not self.local:
            return None
        place = f"{self.root}/{path}"
        if not (self._is_inside(path) if child.link else inside):
            return "it is a link that leads out of the landing folder"
        return None if os.access(place, os.R_OK) else "permission denied"


def _listed(place: str) -> list[_Child]:
    """A local folder's children: this way links are told without asking for each. A name must be UTF-8, as Spark reads names.
    Raises OSError.
    """
    found: list[_Child] = []
    with os.scandir(place) as entries:
        for entry in entries:
            try:
                entry.name.encode()
                if entry.is_file():
                    told = entry.stat()
                    found.append(_Child(entry.name, FileType.File, told.st_size, told.st_mtime_ns, entry.is_symlink()))
                elif entry.is_dir():
                    found.append(_Child(entry.name, FileType.Directory, 0, 0))
            except UnicodeEncodeError:
                continue
            except OSError as error:
                if error.errno not in NOT_THERE:
                    raise
    return found


def _hidden(name: str) -> bool:
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")
