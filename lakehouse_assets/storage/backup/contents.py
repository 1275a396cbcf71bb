"""The contents of backed-up files, each kept once under its SHA-256: a file that did not change is not copied again.

Belongs here: adding, reading, checking and removing contents. Does not: which files a table has (state), or the manifest.
"""

import hashlib
from collections.abc import Collection, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from uuid import uuid4

from pyarrow import NativeFile, fs

from lakehouse_assets.errors import EvidenceError
from lakehouse_assets.storage.backup.manifest import BackedUpFile, move_within
from lakehouse_assets.storage.file_systems import open_filesystem

FOLDER = "contents"
INCOMING = "incoming"
DAMAGED = ".damaged"
CHUNK = 8 << 20  # bytes in memory of each file under way


@dataclass(frozen=True)
class Contents:
    """The contents below a backup folder. ``path``: its path or address."""

    path: str

    @cached_property
    def _folder(self) -> tuple[fs.FileSystem, str]:
        return open_filesystem(self.path)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of each content that is kept, by its checksum, as listed when first asked for."""
        filesystem, base = self._folder
        infos = filesystem.get_file_info(fs.FileSelector(f"{base}/{FOLDER}", recursive=True, allow_not_found=True))
        return {info.base_name: info.size for info in infos if info.type is fs.FileType.File and len(info.base_name) == 64}

    def add(self, source: fs.FileSystem, path: str) -> tuple[str, int]:
        """Keep a file's content; return its checksum and size. Raises FileNotFoundError if the file is gone."""
        filesystem, base = self._folder
        incoming = f"{base}/{INCOMING}/{uuid4().hex}"
        if isinstance(filesystem, fs.LocalFileSystem):
            filesystem.create_dir(f"{base}/{INCOMING}", recursive=True)
        checksum, size = copy_content((source, path), (filesystem, incoming))
        self._keep(incoming, checksum, size)
        return checksum, size

    def _keep(self, incoming: str, name: str, size: int) -> None:
        filesystem, base = self._folder
        if self.sizes.get(name) == size:
            filesystem.delete_file(incoming)
            return
        target = f"{base}/{FOLDER}/{name[:2]}/{name}"
        move_within(filesystem, incoming, target)
        self.sizes[name] = size

    def open(self, file: BackedUpFile) -> tuple[fs.FileSystem, str]:
        """Return where the content of a file is."""
        filesystem, base = self._folder
        return filesystem, f"{base}/{FOLDER}/{file.sha256[:2]}/{file.sha256}"

    def set_aside(self, file: BackedUpFile) -> None:
        """Move a content that is not what its checksum says to `<checksum>.damaged`: the next backup copies it anew."""
        filesystem, path = self.open(file)
        with suppress(OSError):  # a place that may only be read stays as it is
            if filesystem.get_file_info(path).type is fs.FileType.File:
                move_within(filesystem, path, f"{path}{DAMAGED}")

    def remove_except(self, names: Collection[str]) -> int:
        """Remove contents that are not among these checksums, what was set aside, and what a killed backup left; return the
        bytes of the first.
        """
        filesystem, base = self._folder
        infos = filesystem.get_file_info(fs.FileSelector(f"{base}/{INCOMING}", allow_not_found=True))
        everything = filesystem.get_file_info(fs.FileSelector(f"{base}/{FOLDER}", recursive=True, allow_not_found=True))
        infos += [info for info in everything if info.base_name.endswith(DAMAGED)]
        removed = [name for name in self.sizes if name not in names]
        paths = [info.path for info in infos] + [f"{base}/{FOLDER}/{name[:2]}/{name}" for name in removed]
        for path in paths:
            filesystem.delete_file(path)
        return sum(self.sizes.pop(name) for name in removed)


def copy_checked(
    source: tuple[fs.FileSystem, str], target: tuple[fs.FileSystem, str] | None, file: BackedUpFile, origin: str
) -> None:
    """Copy a content to a target (None: only read it) and compare its checksum. Raises EvidenceError if it differs or is gone;
    the target does not exist then.
    """
    try:
        checksum, _ = copy_content(source, target)
    except FileNotFoundError:
        raise EvidenceError(f"{origin}: the content of {file.path} is missing ({source[1]})") from None
    if checksum != file.sha256:
        _delete(target)
        raise EvidenceError(f"{origin}: the content of {file.path} has another checksum than on record ({source[1]})")


def copy_content(source: tuple[fs.FileSystem, str], target: tuple[fs.FileSystem, str] | None) -> tuple[str, int]:
    """Copy a file to a target (None: only read it); return its checksum and size. After an error there is no target: a store
    creates it with what was written until then.
    """
    try:
        with source[0].open_input_stream(source[1]) as reading:
            writing = target[0].open_output_stream(target[1]) if target else nullcontext()
            with writing as stream:
                return _copy_chunks(reading, stream)
    except BaseException:
        _delete(target)
        raise


def _copy_chunks(reading: object, writing: NativeFile | None) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for chunk in _chunks(reading):
        digest.update(chunk)
        size += len(chunk)
        if writing is not None:
            writing.write(chunk)
    return digest.hexdigest(), size


def _delete(target: tuple[fs.FileSystem, str] | None) -> None:
    if target is not None and target[0].get_file_info(target[1]).type is fs.FileType.File:
        target[0].delete_file(target[1])


def _chunks(stream: object) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK):  # type: ignore[attr-defined]
        yield chunk
