"""The landing folder: which files belong to which window, their fingerprints, and which of them must not be opened.

Belongs here: listing and opening through pyarrow.fs, so that a URL works like a folder. Does not: what is in a file.
"""

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate

from pyarrow import NativeFile
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from lakehouse_assets.contracts.path_pattern import PathPattern
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import SourceError
from lakehouse_assets.settings import ObjectStore

# By suffix, as Hadoop chooses its codec.
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2"}


@dataclass(frozen=True)
class LandedFile:
    """``path`` is relative to the landing folder. ``refused``: why the file must not be opened."""

    window: Window
    path: str
    size: int
    mtime_ns: int
    refused: str | None = None


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

    def files(self, source: FilesSource | PathPattern, windows: Iterable[Window]) -> list[LandedFile]:
        """The files of these windows, oldest window first, then by path.

        Hidden names (`_x`, `.x`) and names that are no UTF-8 belong to no window. Raises SourceError if there is no landing
        folder, or a folder in it cannot be listed.
        """
        self._check()
        wanted = {window.start: window for window in windows}
        names: dict[str, set[str]] = defaultdict(set)  # folder pattern -> patterns of names
        for start in wanted:
            folder, _, name = source.glob(start).rpartition("/")
            names[folder].add(name)
        found: dict[str, LandedFile] = {}
        for folder_pattern in names:
            for folder in self._folders(folder_pattern.split("/") if folder_pattern else []):
                inside = not self.local or self._is_inside(folder)
                for name, info in self._children(folder):
                    path = f"{folder}/{name}" if folder else name
                    start = source.window_start(path) if info.type == FileType.File and not _hidden(name) else None
                    if start is not None and start in wanted:
                        refused = self._refusal(path, name, inside)
                        found[path] = LandedFile(wanted[start], path, info.size or 0, info.mtime_ns or 0, refused)
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
                    names = [n for n, i in children if i.type == FileType.Directory and pattern.match(n) and not _hidden(n)]
                deeper += [f"{folder}/{name}" if folder else name for name in names]
            found = deeper
        return found

    def _children(self, folder: str) -> list[tuple[str, FileInfo]]:
        place = f"{self.root}/{folder}" if folder else self.root
        try:
            infos = self.filesystem.get_file_info(FileSelector(place, allow_not_found=True))
        except NotADirectoryError:
            return []
        except OSError as error:
            raise SourceError(f"{place} in the landing folder cannot be listed: {error}") from None
        named: list[tuple[str, FileInfo]] = []
        for info in infos:
            try:
                named.append((info.base_name, info))
            except UnicodeDecodeError:
                continue
        return named

    def _is_inside(self, path: str) -> bool:
        """Whether what a path of this folder leads to, by links perhaps, is in the landing folder."""
        real, root = os.path.realpath(f"{self.root}/{path}"), os.path.realpath(self.root)
        return os.path.commonpath([real, root]) == root

    def _refusal(self, path: str, name: str, inside: bool) -> str | None:
        """``inside``: whether its folder is. A file that is no link is where its folder is, which spares asking for each of a
        hundred thousand.
        """
        if ":" in name:
            return "its name has a colon, which Spark (Hadoop) cannot read"
        if not self.local:
            return None
        place = f"{self.root}/{path}"
        if not (self._is_inside(path) if os.path.islink(place) else inside):  # noqa: PTH114 (no Path for each)
            return "it is a link that leads out of the landing folder"
        return None if os.access(place, os.R_OK) else "permission denied"


def _hidden(name: str) -> bool:
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")
