"""A Delta table that others write, by its log: its commits, the files that they added, and its schemas.

Belongs here: reading a foreign `_delta_log` without a JVM. Does not: what a commit means (foreign_commit), or reading rows.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import unquote

from deltalake.exceptions import DeltaError
from pyarrow import ArrowException, fs

from lakehouse_assets.errors import SourceError
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.foreign_commit import AddedFile, CommitFiles, ForeignCommit, Schema, parse_commit

# Tables whose newest commits may be kept by a catalog, and not in the log.
BY_CATALOG = ("catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(//)?", re.IGNORECASE)
THREADS = 16
CACHED_COMMITS = 50_000
# A commit's file never changes: by path, size and time, what a poll needs of it.
_CACHE: "OrderedDict[tuple[str, int, int], ForeignCommit]" = OrderedDict()


class Log(NamedTuple):
    """The commits that are still in a log: ``entries`` (file, size, time in ns) by version."""

    entries: Mapping[int, tuple[str, int, int]]

    @property
    def oldest(self) -> int:
        """The first version whose commit is still there."""
        return min(self.entries)

    @property
    def newest(self) -> int:
        """The table's version."""
        return max(self.entries)


class ForeignTable:
    """A Delta table by path or URL. Its methods raise SourceError, which names ``label`` and no address."""

    def __init__(self, path: str, label: str) -> None:
        self.path, self.label = path.rstrip("/"), label

    def log(self) -> Log:
        """Return the listing of the log. Raises SourceError where there is no Delta table."""
        filesystem, base = self._folder
        try:
            infos = filesystem.get_file_info(fs.FileSelector(f"{base}/_delta_log", allow_not_found=True))
        except (OSError, ArrowException) as error:
            raise SourceError(f"{self.label}: its log cannot be listed: {_reason(error)}") from None
        entries = {
            int(match[1]): (info.path, info.size or 0, info.mtime_ns or 0)
            for info in infos
            if (match := delta.COMMIT.fullmatch(info.base_name))
        }
        if not entries:
            metadata = filesystem.get_file_info(fs.FileSelector(f"{base}/metadata", allow_not_found=True))
            is_iceberg = any(info.base_name.endswith(".metadata.json") for info in metadata)
            hint = "; it is an Iceberg table: a guard of it has `format: iceberg`" if is_iceberg else ""
            raise SourceError(f"{self.label}: there is no Delta table: it has no commit in `_delta_log`{hint}")
        return Log(entries)

    def commits(self, log: Log, first: int, last: int | None = None) -> list[ForeignCommit]:
        """Return the commits from ``first`` to ``last`` (default: the newest), oldest first. Raises SourceError if one of them
        is no longer in the log.
        """
        wanted = range(max(first, 0), (log.newest if last is None else last) + 1)
        if absent := [version for version in wanted if version not in log.entries]:
            raise SourceError(
                f"{self.label}: the commits of versions {_spans(absent)} are no longer in its log, which begins at version"
                f" {log.oldest}: they were cleaned up (`delta.logRetentionDuration`) before they were read"
            )
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(lambda version: self._commit(log, version), wanted))

    def files(self, log: Log, version: int) -> CommitFiles:
        """Return the data files of one commit."""
        actions = list(self._actions(log, version))
        added = [
            AddedFile(
                unquote(add["path"]),
                add.get("partitionValues") or {},
                int(add.get("size") or 0),
                json.loads(add.get("stats") or "{}").get("numRecords"),
                add.get("deletionVector") is not None,
            )
            for add in (action["add"] for action in actions if "add" in action)
            if add.get("dataChange", True)
        ]
        removes = (action["remove"] for action in actions if "remove" in action)
        removed = frozenset(unquote(remove["path"]) for remove in removes if remove.get("dataChange", True))
        return CommitFiles(tuple(added), removed)

    def schema(self, version: int | None = None) -> Schema:
        """Return the schema of a version, or of the newest. Reads the log up to it, checkpoints included."""
        try:
            table = delta.open_table(self.path, version)
            protocol, metadata = table.protocol(), table.metadata()
            fields = json.loads(table.schema().to_json())["fields"]
        except (DeltaError, ValueError, OSError) as error:
            which = "its newest version" if version is None else f"version {version}"
            raise SourceError(f"{self.label}: the log of {which} cannot be read: {_reason(error)}") from None
        if by_catalog := sorted(set(protocol.writer_features or ()) & set(BY_CATALOG)):
            raise SourceError(f"{self.label}: a catalog keeps its commits ({', '.join(by_catalog)}); it cannot be read by path")
        properties = {name: value for name, value in metadata.configuration.items() if value}
        return Schema(str(metadata.id), tuple(fields), tuple(metadata.partition_columns), properties)

    def stated_schema(self, log: Log, version: int) -> Schema:
        """Return the schema that the commit of a version states (`ForeignCommit.states_schema`). Reads no other commit."""
        stated = next(action["metaData"] for action in self._actions(log, version) if "metaData" in action)
        fields = tuple(json.loads(stated["schemaString"])["fields"])
        return Schema(stated["id"], fields, tuple(stated.get("partitionColumns") or ()), stated.get("configuration") or {})

    def missing_files(self, paths: Sequence[str]) -> list[str]:
        """Return those of the data files that are gone, as VACUUM leaves them. Whole paths are looked up on disks and S3."""
        filesystem, base = self._folder
        full = {path: path if path.startswith("/") else f"{base}/{path}" for path in paths if not _SCHEME.match(path)}
        full |= {path: _SCHEME.sub("", path) for path in paths if re.match("(file|s3[an]?):", path)}
        infos = filesystem.get_file_info(list(full.values()))
        return [path for path, info in zip(full, infos, strict=True) if info.type is fs.FileType.NotFound]

    @property
    def _folder(self) -> tuple[fs.FileSystem, str]:
        try:
            return open_filesystem(self.path)
        except (OSError, ArrowException, ValueError) as error:
            raise SourceError(f"{self.label}: it cannot be reached: {_reason(error)}") from None

    def _commit(self, log: Log, version: int) -> ForeignCommit:
        key = log.entries[version]
        if (cached := _CACHE.get(key)) is not None:
            return cached
        commit = parse_commit(version, list(self._actions(log, version)), key[2], self._read(log, version))
        _CACHE[key] = commit
        while len(_CACHE) > CACHED_COMMITS:
            _CACHE.popitem(last=False)
        return commit

    def _actions(self, log: Log, version: int) -> Iterator[Mapping[str, Any]]:
        for line in self._read(log, version).splitlines():
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError:
                    raise SourceError(f"{self.label}: the commit of version {version} is no JSON: its log is damaged") from None

    def _read(self, log: Log, version: int) -> bytes:
        try:
            with self._folder[0].open_input_stream(log.entries[version][0]) as file:
                return file.read()
        except (OSError, ArrowException) as error:
            raise SourceError(f"{self.label}: the commit of version {version} cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Return an error's first line without the addresses that it may quote."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"\S*://\S*", "…", line)[:300]


def _spans(versions: Sequence[int]) -> str:
    """Return ascending versions as text.

    >>> _spans([3, 4, 5]), _spans([7])
    ('3 to 5', '7')
    """
    return str(versions[0]) if versions[0] == versions[-1] else f"{versions[0]} to {versions[-1]}"
