"""The landing folder: the files of each window, their fingerprints, and which of them must not be opened.

Belongs here: listing and opening files of a local folder, or of a URL through pyarrow.fs. Does not: entries of a local folder
(folder_entries), or the content of files.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from fnmatch import translate
from typing import NamedTuple, TypeVar

from pyarrow import ArrowException, NativeFile
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from lakehouse_assets.contracts.path_pattern import PathPattern
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import SourceError
from lakehouse_assets.object_store import spark_location
from lakehouse_assets.sources.folder_entries import Child, base_name, escape_bytes, is_hidden, list_local
from lakehouse_assets.storage.file_systems import is_folder, open_filesystem, without_markers

BLOCK = 64 * 1024
# By suffix, as Hadoop chooses its codec.
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2"}


Read = TypeVar("Read")


class LandedFile(NamedTuple):
    """A file of one window. ``path``: in the landing folder, non-UTF-8 bytes as `\xff`. ``refused``: why not to open it."""

    window: Window
    path: str
    size: int
    mtime_ns: int
    refused: str | None = None


def fingerprint_files(files: Iterable[LandedFile]) -> str:
    """Return 32 hex digits over paths, sizes, times and refusals, so that lifting a refusal (`chmod`) is a change."""
    lines = sorted(f"{file.path}\0{file.size}\0{file.mtime_ns}\0{file.refused or ''}" for file in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


class Landing:
    """A folder, or an object-store URL."""

    def __init__(self, folder: str) -> None:
        """Touch nothing yet: a missing folder is an error of the first listing."""
        self.location = folder.rstrip("/") or "/"
        self.local = "://" not in folder
        if self.local:
            self.filesystem: FileSystem = LocalFileSystem()
            self.root = self.location = os.path.abspath(folder)  # noqa: PTH100 (resolve() would follow links; Spark does not)
            return
        try:
            self.filesystem, self.root = open_filesystem(self.location)
        except (OSError, ValueError) as error:
            raise SourceError(f"LAKEHOUSE_LANDING is {folder}, which cannot be opened: {error}") from None

    def files(self, pattern: PathPattern, windows: Iterable[Window], hidden: bool = False) -> list[LandedFile]:
        """Return the files of these windows, oldest window first, then by path.

        Hidden names (`_x`, `.x`) belong to no window, unless ``hidden`` ones are wanted. A folder, pipe or device with a
        matching name is refused, and so is a name that Spark cannot read. Raises SourceError if the landing folder is missing
        or a folder in it cannot be listed.
        """
        by_start = {window.start: window for window in windows}

        def window_of(path: str) -> Window | None:
            start = pattern.window_start(path)
            return by_start.get(start) if start is not None else None

        return sorted(self._listed(pattern.folders(by_start), window_of, hidden), key=lambda file: (file.window, file.path))

    def matching_files(self, pattern: PathPattern, window: Window) -> list[LandedFile]:
        """Return the files of a pattern without a window, by path, as those of this window. Raises as `files`."""
        listed = self._listed(pattern.folders([]), lambda path: window if pattern.matches(path) else None, hidden=False)
        return sorted(listed, key=lambda file: file.path)

    def window_starts(self, pattern: PathPattern) -> set[datetime]:
        """Return the start of each window that a file's name gives, of the table or not. Raises as `files`."""
        starts: set[datetime] = set()

        def note_start(path: str) -> None:
            start = pattern.window_start(path)
            starts.update([start] if start is not None else [])

        self._listed({pattern.glob_of_all.rpartition("/")[0]}, note_start, hidden=False)
        return starts

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted, without hidden ones; none if it does not exist. Raises SourceError."""
        return sorted(escape_bytes(child.name) for child in self._children(folder) if not is_hidden(child.name))

    def folders(self, pattern: PathPattern, most: int) -> list[str]:
        """Return the folders that a pattern's files can be in, of many the last by name. Raises SourceError."""
        folder = pattern.glob_of_all.rpartition("/")[0]
        return sorted(self._folders(folder.split("/") if folder else []))[-most:]

    def file_names(self, folder: str) -> list[str]:
        """Return the paths of the files in a folder, sorted, without hidden ones. Raises SourceError."""
        return sorted(
            escape_bytes(f"{folder}/{child.name}".lstrip("/"))
            for child in self._children(folder)
            if child.type == FileType.File and not is_hidden(child.name)
        )

    def _listed(self, patterns: Iterable[str], window_of: Callable[[str], Window | None], hidden: bool) -> list[LandedFile]:
        """Return the files in the folders of these patterns that belong to a window."""
        self._require_folder()
        files: dict[str, LandedFile] = {}
        for folders in patterns:
            for folder in self._folders(folders.split("/") if folders else []):
                inside = not self.local or self._is_inside(folder)
                for child in self._children(folder):
                    path = f"{folder}/{child.name}" if folder else child.name
                    window = None if is_hidden(child.name) and not hidden else window_of(path)
                    if window is not None:
                        refused = self._refusal(path, child, inside)
                        files[path] = LandedFile(window, escape_bytes(path), child.size, child.mtime_ns, refused)
        return list(files.values())

    def open(self, path: str) -> NativeFile:
        """Open the decompressed bytes of a file. Raises OSError."""
        suffix = "." + path.rpartition(".")[2]
        return self.filesystem.open_input_stream(f"{self.root}/{path}", compression=COMPRESSIONS.get(suffix))

    def read_head(self, path: str, size: int) -> bytes:
        """Return the first ``size`` decompressed bytes of a file, or all if it has fewer. Raises OSError."""
        content = b""
        with self.open(path) as stream:
            while len(content) < size and (block := stream.read(size - len(content))):
                content += block
        return content

    def read_each(self, paths: Sequence[str], read: Callable[[str], Read]) -> dict[str, Read | str]:
        """Return what ``read`` returns for each of these files, in parallel; the reason as text for an unreadable file."""

        def one(path: str) -> Read | str:
            try:
                return read(path)
            except (OSError, EOFError, ValueError, ArrowException) as error:
                return str(error).splitlines()[0].replace(f"{self.root}/", "") if str(error) else type(error).__name__

        with ThreadPoolExecutor(8) as pool:
            return dict(zip(paths, pool.map(one, paths), strict=True))

    def can_be_fetched(self, path: str) -> bool:
        """Whether the storage returns the file's first and last bytes."""
        try:
            with self.filesystem.open_input_file(f"{self.root}/{path}") as file:
                size = file.size()
                for start in (0, max(size - BLOCK, 0)):
                    file.read_at(min(size, BLOCK), start)
        except OSError:
            return False
        return True

    def spark_path(self, path: str) -> str:
        """Return the file's path for Spark."""
        return spark_location(f"{self.location}/{path}")

    def key(self, path: str) -> str:
        """Return the file's path as Spark reports it, decoded and without scheme and leading slashes."""
        return re.sub("^[a-z0-9+.-]+:/+", "", self.spark_path(path), flags=re.IGNORECASE).lstrip("/")

    def _require_folder(self) -> None:
        try:
            kind = self.filesystem.get_file_info(self.root).type
            if kind == FileType.File and is_folder(self.filesystem, self.root):
                kind = FileType.Directory
        except OSError as error:
            raise SourceError(f"LAKEHOUSE_LANDING is {self.location}, which cannot be reached: {error}") from None
        if kind == FileType.NotFound:
            advice = "create it or name another (`python scripts/land_example.py` lands the example data)"
            raise SourceError(f"LAKEHOUSE_LANDING is {self.location}, which does not exist: {advice}")
        if kind != FileType.Directory:
            raise SourceError(f"LAKEHOUSE_LANDING is {self.location}, which is not a folder")

    def _folders(self, segments: Sequence[str]) -> list[str]:
        """Return the folders that a pattern matches. Lists a folder only for a glob, never deeper than the pattern."""
        matches = [""]
        for segment in segments:
            by_folder = {folder: [segment] for folder in matches}
            if "*" in segment or "?" in segment:
                is_match = re.compile(translate(segment)).match
                for folder in matches:
                    names = [child.name for child in self._children(folder) if child.type == FileType.Directory]
                    by_folder[folder] = [name for name in names if is_match(name) and not is_hidden(name)]
            matches = [f"{folder}/{name}".lstrip("/") for folder, names in by_folder.items() for name in names]
        return matches

    def _children(self, folder: str) -> list[Child]:
        path = f"{self.root}/{folder}" if folder else self.root
        try:
            if self.local:
                return list_local(path)
            listed = self.filesystem.get_file_info(FileSelector(path, allow_not_found=True))
            infos = without_markers(self.filesystem, listed)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise SourceError(f"{path} in the landing folder cannot be listed: {error}") from None
        children: list[Child] = []
        for info in infos:
            children.append(Child(base_name(info), info.type, info.size or 0, info.mtime_ns or 0))
        return children

    def _is_inside(self, path: str) -> bool:
        """Whether a path, after following links, is in the landing folder."""
        real, root = os.path.realpath(f"{self.root}/{path}"), os.path.realpath(self.root)
        return os.path.commonpath([real, root]) == root

    def _refusal(self, path: str, child: Child, inside: bool) -> str | None:
        """Return why an entry must not be opened. ``inside``: whether its folder is in the landing folder. A file that is no
        link needs no check of its own, which saves a system call for each of a hundred thousand.
        """
        if child.type == FileType.Directory:
            return "it is a folder (to read the files in it, let `path` name them: `…/*`)"
        if child.type != FileType.File:
            return f"it is {child.kind}, which is not opened"
        if escape_bytes(path) != path:
            return "its name is no UTF-8, which Spark cannot read"
        if ":" in child.name:
            return "its name has a colon, which Spark (Hadoop) cannot read"
        if not self.local:
            return None
        if not (self._is_inside(path) if child.link else inside):
            return "it is a link that leads out of the landing folder"
        return None if os.access(f"{self.root}/{path}", os.R_OK) else "permission denied"
