"""A lake's state at one moment: its tables with their versions, and the files that make up each.

Belongs here: reading that without stopping any writer. Does not: copying files (contents).

Delta commits are atomic for one table, not for several. A run that is killed leaves the lake as it was at that moment, and the
next run completes it (the kill points of the laws). So a state is consistent if it is that of one moment:

- Where nothing was committed between two readings of all tables, it is what both have read.
- Where there is always a commit, it is what had been committed shortly before the first reading, by the times of the commits'
  files. All of them are of one clock, the disk's or the store's. A commit that follows another one is not older than it. So a
  state that has the later one has the earlier one, too.
"""

import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import fs

from lakehouse_assets.errors import LockedError
from lakehouse_assets.object_store import is_url
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.table_options import table_options

LOG = "_delta_log"
THREADS = 8
# So often two readings are compared, a moment apart, before times are.
READINGS = 4
PAUSE = 0.2
# A store rounds times to seconds.
MARGIN = 2 * 10**9
# A commit from later than that means that a clock was set back: its times order nothing.
MOST_AHEAD = 60 * 10**9
_COMMIT = re.compile(r"(\d{20})\.json")
_LOG_FILE = re.compile(r"(\d{20})\.(?:(\d{20})\.)?.+")


@dataclass(frozen=True)
class LakeState:
    """``versions``: of each table, by its path `layer/name`. ``leases``: the highest number of each lease."""

    versions: Mapping[str, int]
    leases: Mapping[str, int]


@dataclass(frozen=True)
class TableFile:
    """A file below a table's folder. ``modified``: nanoseconds."""

    path: str
    bytes: int
    modified: int | None


@dataclass(frozen=True)
class TableVersion:
    """A table at a version, with every file that a reader of this version needs."""

    path: str
    version: int
    table_id: str
    rows: int | None
    files: tuple[TableFile, ...]


@dataclass(frozen=True)
class CommitFile:
    """A commit's file. ``at``: nanoseconds, by the clock of the disk or the store."""

    number: int
    bytes: int
    at: int


Commits = Mapping[str, Sequence[CommitFile]]


def read_state(root: str) -> LakeState:
    """Return the lake's state at one moment. Raises LockedError if it is written all the time, and a clock was set back."""
    before = commits = _read_commits(root)
    for _ in range(READINGS):
        before, commits = commits, _read_commits(root)
        if before == commits:
            versions = {path: each[-1].number for path, each in commits.items()}
            break
        time.sleep(PAUSE)
    else:
        newest = max(commit.at for each in before.values() for commit in each)
        if newest > time.time() * 1e9 + MOST_AHEAD:
            raise LockedError(
                f"{root} is written all the time, and has commits of a later time than now, so that no state of one moment"
                " could be read; run the backup again while less is written"
            )
        versions = versions_at(commits, newest - MARGIN)
    # After the tables: a lease's number is then at least as high as any that a table states.
    return LakeState(versions, _read_leases(root))


def versions_at(commits: Commits, at: int) -> dict[str, int]:
    """Return each table's version at a time, without tables that are younger. A version counts with all versions before it:
    a commit that lost a race and was repeated has the time of its first attempt.
    """
    versions: dict[str, int] = {}
    for path, each in commits.items():
        for commit in each:
            if commit.at > at:
                break
            versions[path] = commit.number
    return versions


def _read_commits(root: str) -> dict[str, tuple[CommitFile, ...]]:
    """Return each table's commits that are still in its log, oldest first."""
    filesystem, base = open_filesystem(root)

    def subfolders(path: str) -> list[str]:
        infos = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
        # `_locks`, `_leases` and hidden folders are no layers, staging is scratch.
        names = [info.base_name for info in infos if info.type is fs.FileType.Directory]
        return sorted(f"{path}/{name}" for name in names if name[:1] not in "._" and name != "staging")

    def commits(folder: str) -> tuple[CommitFile, ...]:
        infos = filesystem.get_file_info(fs.FileSelector(f"{folder}/{LOG}", allow_not_found=True))
        matches = [(match, info) for info in infos if (match := _COMMIT.fullmatch(info.base_name))]
        return tuple(CommitFile(*each) for each in sorted((int(match[1]), info.size, info.mtime_ns) for match, info in matches))

    with ThreadPoolExecutor(THREADS) as pool:
        folders = [folder for layer in pool.map(subfolders, subfolders(base)) for folder in layer]
        read = zip(folders, pool.map(commits, folders), strict=True)
        return {folder.removeprefix(f"{base}/"): each for folder, each in read if each}


def _read_leases(root: str) -> dict[str, int]:
    filesystem, base = open_filesystem(f"{root.rstrip('/')}/_leases")
    infos = filesystem.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    numbers: dict[str, int] = {}
    for info in infos:
        stem = info.base_name.removesuffix(".json")
        if info.type is fs.FileType.File and stem.isdecimal():
            name = info.path.removeprefix(f"{base}/").rpartition("/")[0]
            numbers[name] = max(numbers.get(name, 0), int(stem))
    return numbers


def read_table(root: str, path: str, version: int) -> TableVersion:
    """Return a table at a version with its files. Raises FileNotFoundError if one of them is missing or of another size, and
    deltalake's errors, or ValueError, if the log cannot be read.
    """
    address = f"{root.rstrip('/')}/{path}"
    table = DeltaTable(address, version=version, storage_options=table_options(address))
    actions = pa.table(table.get_add_actions(flatten=True))
    sizes = dict(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))
    if outside := next((name for name in sizes if "://" in name or name[:1] == "/"), None):
        raise ValueError(f"a file of it is outside its folder ({outside}): it is a shallow clone")
    counts = actions["num_records"].to_pylist()
    rows = None if any(count is None for count in counts) else sum(counts)
    filesystem, base = open_filesystem(address)
    data = _data_files(filesystem, base, {unquote(name): size for name, size in sizes.items()}, address)
    if "deletionVectors" in (table.protocol().reader_features or ()):
        data += _deletion_vectors(filesystem, base)
    log = _log_files(filesystem, base, version)
    return TableVersion(path, version, str(table.metadata().id), rows, (*data, *log))


def _data_files(filesystem: fs.FileSystem, base: str, sizes: Mapping[str, int], address: str) -> list[TableFile]:
    """Return the data files. On a store the folder is listed at once, on a disk each file is asked for."""
    selected = fs.FileSelector(base, recursive=True) if is_url(address) and sizes else [f"{base}/{name}" for name in sizes]
    infos = {info.path: info for info in filesystem.get_file_info(selected) if info.type is fs.FileType.File}
    files = []
    for name, size in sizes.items():
        info = infos.get(f"{base}/{name}")
        if info is None or info.size != size:
            raise FileNotFoundError(f"{name} is missing" if info is None else f"{name} has {info.size} bytes, not {size}")
        files.append(_table_file(base, info))
    return files


def _deletion_vectors(filesystem: fs.FileSystem, base: str) -> list[TableFile]:
    infos = filesystem.get_file_info(fs.FileSelector(base, recursive=True))
    return [_table_file(base, info) for info in infos if info.base_name.startswith("deletion_vector_")]


def _log_files(filesystem: fs.FileSystem, base: str, version: int) -> list[TableFile]:
    """Return the log's files up to a version, the commits last and in their order: a part of a copy is an older table."""
    files = []
    for info in filesystem.get_file_info(fs.FileSelector(f"{base}/{LOG}", recursive=True)):
        if info.type is not fs.FileType.File or info.base_name[:1] in "._":
            continue
        match = _LOG_FILE.fullmatch(info.base_name)
        is_sidecar = info.path.startswith(f"{base}/{LOG}/_sidecars/")
        if is_sidecar or (match and int(match[2] or match[1]) <= version):
            files.append(_table_file(base, info))
    return sorted(files, key=lambda file: (_COMMIT.fullmatch(file.path.rpartition("/")[2]) is not None, file.path))


def _table_file(base: str, info: fs.FileInfo) -> TableFile:
    return TableFile(info.path.removeprefix(f"{base}/"), info.size, info.mtime_ns)
