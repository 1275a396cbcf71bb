"""The folder of the pages: which files are its own, each written only where its content changes, and never half.

Belongs here: the manifest, writing and removing files of the folder. Does not: their content.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lakehouse_assets.errors import EnvironmentMissing, LockedError, RefusedError
from lakehouse_assets.storage.atomic_write import write_atomically

MANIFEST, LOCK = "manifest.json", ".pages.lock"


@dataclass
class PagesFolder:
    """``state``: what the last making recorded. ``written``, ``removed``: counts of this one."""

    path: Path
    state: dict[str, Any] = field(default_factory=dict)
    written: int = 0
    removed: int = 0
    _folders: set[str] = field(default_factory=set)

    @classmethod
    def open(cls, path: Path) -> "PagesFolder":
        """Return the folder. Raises RefusedError for one with files that are not pages."""
        folder = cls(path)
        if path.is_dir() and not (path / MANIFEST).is_file() and any(each.name != LOCK for each in path.iterdir()):
            raise RefusedError(f"{path} has files that are not quality pages: name an empty folder in LAKEHOUSE_PAGES")
        try:
            folder.state = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            folder.state = {}
        return folder

    def write(self, before: Mapping[str, str], path: str, content: bytes) -> tuple[str, str]:
        """Write a file unless it has this content already; return its path and digest. ``before``: digests by path."""
        digest = hashlib.blake2b(content, digest_size=12).hexdigest()
        target = f"{self.path}/{path}"  # a text: pathlib takes longer than the write
        is_there = os.path.isfile(target)  # noqa: PTH113
        if before.get(path) != digest or not is_there:
            if (parent := target.rpartition("/")[0]) not in self._folders:
                Path(parent).mkdir(parents=True, exist_ok=True)
                self._folders.add(parent)
            if is_there:
                _replace(Path(target), content)
            else:
                with open(target, "wb", buffering=0) as file:  # noqa: PTH123
                    file.write(content)  # nothing links to it yet, and the manifest does not name it
            self.written += 1
        return path, digest

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files that the manifest names, and no other."""
        for path in paths:
            target = (self.path / path).resolve()
            if target.is_relative_to(self.path.resolve()):
                target.unlink(missing_ok=True)
                self.removed += 1

    def save(self) -> None:
        """Write the manifest: the last file of a making."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / MANIFEST, json.dumps(self.state, separators=(",", ":")).encode())


def _replace(target: Path, content: bytes) -> None:
    # One writer at a time holds the lock: the temporary name needs no search for a free one.
    temporary = target.with_name(f".{target.name}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def hold_folder(path: Path, wait_seconds: float) -> Iterator[None]:
    """Hold the folder for one making. Raises LockedError, or EnvironmentMissing for a folder that cannot be written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / LOCK)
        lock.acquire(timeout=wait_seconds)
    except Timeout:
        raise LockedError(f"another process is making the pages in {path}") from None
    except OSError as error:
        raise EnvironmentMissing(
            f"{path} cannot be written ({error.strerror}): name another folder in LAKEHOUSE_PAGES"
        ) from None
    try:
        yield
    finally:
        lock.release()
