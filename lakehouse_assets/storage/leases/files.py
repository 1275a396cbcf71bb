"""Leases as numbered files under `_leases/<name>/` of a lake: each is put if absent, and the highest number counts.

Belongs here: listing, creating and removing these files, on a disk and on every store. Does not: what a number means (holding).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, from_url

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.object_store import ObjectStore, is_url
from lakehouse_assets.s3_keys import find_keys

FOLDER = "_leases"
# Of each name so many files stay: the highest number must never be free again.
MOST_FILES = 20
# A request waits for its answer this long, and is repeated for this long.
SECONDS = 10


@dataclass(frozen=True)
class NewestFile:
    """The file with the highest number. ``released``: it is empty, and nobody holds the lease."""

    number: int
    released: bool


@dataclass(frozen=True)
class LeaseFiles:
    """The files of a lake's leases. ``root``: the lake's path or address."""

    root: str

    @cached_property
    def store(self) -> Any:
        """The store or folder, opened when first used."""
        if not is_url(self.root):
            return LocalStore(prefix=self.root, mkdir=True)
        stores = ObjectStore.from_environment()
        config = {name.lower(): value for name, value in (stores.options(self.root) or {}).items()}
        http = {"allow_http": True} if config.pop("allow_http", None) else {}
        url = self.root.replace("s3a://", "s3://", 1)
        seconds = timedelta(seconds=SECONDS)
        options: dict[str, Any] = {"client_options": {"timeout": seconds, **http}, "retry_config": {"retry_timeout": seconds}}
        if stores.needs_keys(self.root):
            find_keys()  # so that its own error is raised, and not the store's about it
            options["credential_provider"] = find_keys
        return from_url(url, config=config or None, **options)  # pyright: ignore[reportCallIssue, reportArgumentType]

    def find_newest(self, name: str, *, removes_old: bool = True) -> NewestFile | None:
        """Return the file with the highest number; None before the first. Removes files that are older than needed, unless the
        caller only reads.
        """
        with self._answering():
            listed = obstore.list(self.store, prefix=f"{FOLDER}/{name}/").collect()
        numbers = sorted((int(stem), file["size"]) for file in listed if (stem := _stem(file["path"])).isdecimal())
        if not numbers:
            return None
        if removes_old and len(numbers) > MOST_FILES:
            # Another process may remove the same ones.
            with self._answering(), suppress(FileNotFoundError):
                obstore.delete(self.store, [_path(name, number) for number, _ in numbers[: -MOST_FILES // 2]])
        number, size = numbers[-1]
        return NewestFile(number, size == 0)

    def create(self, name: str, number: int, content: bytes) -> bool:
        """Create the file of a number; return False if another writer has. Whose it is, the content tells: the answer to a
        request may be lost, and its repetition is refused.
        """
        return self.create_file(_path(name, number), content) or (bool(content) and self.read(name, number) == content)

    def create_file(self, path: str, content: bytes) -> bool:
        """Create a file of the lake; return False if it is there."""
        try:
            with self._answering():
                obstore.put(self.store, path, content, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def read(self, name: str, number: int) -> bytes | None:
        """Return the content of a file; None if it is gone."""
        try:
            with self._answering():
                return bytes(obstore.get(self.store, _path(name, number)).bytes())
        except FileNotFoundError:
            return None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except AlreadyExistsError:
            raise
        except BaseError as error:
            reason = str(error).splitlines()[0]
            raise EnvironmentMissing(f"the leases of {self.root} cannot be reached: {reason}") from error

    def require_conditions(self, name: str, number: int) -> None:
        """Raise EnvironmentMissing if the store writes over an existing file although it was asked not to. The file is then
        deleted: it would make the lake one that is written under leases.
        """
        try:
            obstore.put(self.store, _path(name, number), json.dumps({"probe": True}).encode(), mode="create")
        except AlreadyExistsError:
            return
        with self._answering(), suppress(FileNotFoundError):
            obstore.delete(self.store, [_path(name, number)])
        raise EnvironmentMissing(
            f"the store of {self.root} ignores conditional requests (If-None-Match), so that two machines could hold one lease;"
            f" use a store that has them, or delete {self.root}/_leases and write the lake from one machine with `lock: file`"
        )


def _path(name: str, number: int) -> str:
    return f"{FOLDER}/{name}/{number:020d}.json"


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".json")
