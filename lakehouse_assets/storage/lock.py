"""One writer per table: a lock file of this machine, or a lease where several machines write the lake.

Belongs here: choosing between the two, and holding it. Does not: the work under it, or what a lease is (leases).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout
from pyarrow import fs

from lakehouse_assets.errors import EnvironmentMissing, LeaseLostError, LockedError, RefusedError
from lakehouse_assets.object_store import is_url
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.backup.manifest import write_whole
from lakehouse_assets.storage.backup.restoring import refuse_restoring
from lakehouse_assets.storage.disk_errors import raise_disk_errors
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.leases.process_identity import host_name

Result = TypeVar("Result")
HOST_FILE = "host"
FENCED = "the lake's own tables"
ADVICE = "set `lock: lease` there and here (LAKEHOUSE_LOCK=lease, or `lock` under [tool.lakehouse])"
# A lake on a store is asked again after so long whether another machine writes it.
OWN_SECONDS = 60
_complete_lakes: set[str] = set()
_own_lakes: dict[tuple[str, Path], float] = {}
_leased_lakes: set[str] = set()


@contextmanager
def table_lock(settings: Settings, table: str, wait_seconds: float = 900) -> Iterator[None]:
    """Hold the table's lock, or its lease; re-entrant in one process. Raises LockedError after the wait, DiskError,
    RefusedError for a lake of another machine or one that is being restored, and LeaseLostError if the lease was taken over
    meanwhile.
    """
    with _lease(settings, table, wait_seconds) if settings.is_leased else _file_lock(settings, table, wait_seconds):
        yield


@contextmanager
def _file_lock(settings: Settings, table: str, wait_seconds: float) -> Iterator[None]:
    try:
        with raise_disk_errors(settings):
            settings.locks.mkdir(parents=True, exist_ok=True)
            refuse_other_host(settings)
            _refuse_restoring_once(settings.root)
            lock = FileLock(settings.locks / f"{table}.lock", is_singleton=True)
            with lock.acquire(timeout=wait_seconds):
                yield
    except Timeout:
        raise LockedError(
            f"{table} is being written by another process for more than {wait_seconds:.0f} s ({settings.locks / table}.lock); "
            "wait for that run to end, or stop it"
        ) from None


@contextmanager
def _lease(settings: Settings, table: str, wait_seconds: float) -> Iterator[None]:
    from lakehouse_assets.storage.leases.fencing import fence  # noqa: PLC0415 (a client of stores, which one machine needs not)
    from lakehouse_assets.storage.leases.holding import lease_holder  # noqa: PLC0415 (the same)

    holder = lease_holder(settings.root, settings.lease_seconds)
    with raise_disk_errors(settings):
        refuse_lock_files(settings)
        lease = holder.enter(table, wait_seconds)
        try:
            if lease.number == 1 or lease.took_over:
                refuse_restoring(settings.root)
            if lease.took_over and FENCED not in lease.fenced:
                lease.absent = fence(holder.files, lease.name, lease.number, lease.to_fence)
                lease.fenced.add(FENCED)
            lease.at_end = partial(guards.end_writes, settings, lease)
            guards.begin_writes(settings, lease)
        except BaseException:
            holder.abandon(lease)
            raise
        failed = True
        try:
            yield
            failed = False
        except LeaseLostError as error:
            lease.is_lost |= error.name == table
            raise
        except Exception as error:
            if guards.is_fenced(error):
                lease.is_lost = True
                raise LeaseLostError(table) from error
            raise
        finally:
            holder.leave(lease, failed=failed)


def read_at_rest(settings: Settings, table: str, read: Callable[[], Result], wait_seconds: float = 900) -> Result:
    """Return what ``read`` returns while no other process writes the table. Under leases that writes nothing: if a writer
    begins meanwhile, its end is waited for, and ``read`` is called again. Raises LockedError after the wait, DiskError where
    no lock file can be written, and RefusedError as `table_lock`.
    """
    if not settings.is_leased:
        with table_lock(settings, table, wait_seconds):
            return read()
    from lakehouse_assets.storage.leases.holding import lease_holder  # noqa: PLC0415 (as in `_lease`)

    holder, end = lease_holder(settings.root, settings.lease_seconds), time.monotonic() + wait_seconds

    def is_at_rest(number: int) -> bool:
        newest = holder.files.find_newest(table, removes_old=False)
        return number == (newest.number if newest else 0)

    refuse_lock_files(settings)
    refuse_restoring(settings.root)
    with holder.own_lease(table) as is_own:
        if is_own:
            return read()
    while True:
        before = holder.await_release(table, end - time.monotonic())
        try:
            result = read()
        except Exception:
            if is_at_rest(before):
                raise
        else:
            if is_at_rest(before):
                return result
        if time.monotonic() > end:
            raise LockedError(f"{table} is written again and again, for more than {wait_seconds:.0f} s; end its runs, or wait")


def confirm_lock(settings: Settings, table: str) -> None:
    """Before something that is no commit, such as removing a folder: raise LeaseLostError if the lease was taken over."""
    lease = guards.lease_of(settings, table)
    if lease is not None:
        from lakehouse_assets.storage.leases.holding import lease_holder  # noqa: PLC0415 (the same)

        lease_holder(settings.root, settings.lease_seconds).confirm(lease)


def refuse_other_host(settings: Settings) -> None:
    """Raise RefusedError if another machine has written this lake, or writes it under leases: a lock file protects neither."""
    if is_url(settings.root):
        _refuse_others_on_store(settings)
        return
    path = settings.locks / HOST_FILE
    host = _read_host(path) or _record_host(path, host_name())
    if host != host_name():
        raise _written_elsewhere(settings, host, host_name(), path)
    leases = Path(settings.root) / "_leases"
    if leases.is_dir():
        raise _written_under_leases(settings)


def _refuse_others_on_store(settings: Settings) -> None:
    """The same for a lake on a store, asked at the first lock after each minute. The lock files are on a disk of the machine:
    the record names their folder as well. Of two machines that begin at once, one creates the record; on a store without
    conditional requests the other is refused at its first lock after a minute.
    """
    lake = (settings.root, settings.locks)
    if lake in _own_lakes and time.monotonic() - _own_lakes[lake] < OWN_SECONDS:
        return
    filesystem, base = open_filesystem(settings.root)
    path, own = f"{base}/_locks/{HOST_FILE}", f"{host_name()} (lock files in {settings.locks})"
    recorded = _read_host_on_store(filesystem, path)
    if not recorded and filesystem.get_file_info(f"{base}/_leases").type is not fs.FileType.Directory:
        recorded = _record_host_on_store(settings, filesystem, path, own)
    if recorded and recorded != own:
        raise _written_elsewhere(settings, recorded, own, _host_record(settings))
    if filesystem.get_file_info(f"{base}/_leases").type is fs.FileType.Directory:
        raise _written_under_leases(settings)
    _own_lakes[lake] = time.monotonic()


def refuse_lock_files(settings: Settings) -> None:
    """Raise RefusedError for a lake on a store that a machine writes with lock files, before the lake's first lease. It is
    asked once in a process, and not where `lock: lease` is chosen: that is how such a lake changes to leases.
    """
    if settings.lock == "lease" or not is_url(settings.root) or settings.root in _leased_lakes:
        return
    filesystem, base = open_filesystem(settings.root)
    if filesystem.get_file_info(f"{base}/_leases").type is not fs.FileType.Directory:
        host = _read_host_on_store(filesystem, f"{base}/_locks/{HOST_FILE}")
        if host:
            raise RefusedError(
                f"{settings.root} is written with lock files by the machine {host}, and this process would use leases: end its"
                f" runs, and {ADVICE}; or delete {_host_record(settings)} while nothing runs"
            )
    _leased_lakes.add(settings.root)


def _host_record(settings: Settings) -> str:
    return f"{settings.root}/_locks/{HOST_FILE}"


def _written_elsewhere(settings: Settings, host: str, own: str, record: Path | str) -> RefusedError:
    return RefusedError(
        f"{settings.root} is written by the machine {host}, and this is {own}: a lock file holds on one machine."
        f" To write it from several machines, {ADVICE}. If it has moved here for good, delete {record}"
    )


def _written_under_leases(settings: Settings) -> RefusedError:
    return RefusedError(
        f"{settings.root} is written under leases, and this process would use lock files: {ADVICE}."
        f" If only this machine writes it from now on, delete {settings.root}/_leases while nothing runs"
    )


def _refuse_restoring_once(root: str) -> None:
    """Raise RefusedError for a lake that is being restored. A store is asked at the first lock of a process."""
    if root not in _complete_lakes:
        refuse_restoring(root)
        if is_url(root):
            _complete_lakes.add(root)


def _read_host(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _read_host_on_store(filesystem: fs.FileSystem, path: str) -> str:
    try:
        with filesystem.open_input_stream(path) as file:
            return file.read().decode("utf-8", errors="replace").strip()
    except FileNotFoundError:
        return ""


def _record_host_on_store(settings: Settings, filesystem: fs.FileSystem, path: str, own: str) -> str:
    """Record this machine unless another one has meanwhile; return whose record is there."""
    from lakehouse_assets.storage.leases.files import LeaseFiles  # noqa: PLC0415 (as in `_lease`)

    content = f"{own}\n".encode()
    try:
        if LeaseFiles(settings.root).create_file(f"_locks/{HOST_FILE}", content):
            return own
    except EnvironmentMissing:  # a store that knows no conditional requests
        pass
    if recorded := _read_host_on_store(filesystem, path):
        return recorded
    write_whole(filesystem, path, content)  # over an empty one too
    return own


def _record_host(path: Path, host: str) -> str:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(f"{host}\n")
    except FileExistsError:
        return _read_host(path) or host
    return host
