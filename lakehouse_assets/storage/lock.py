"""One writer per table: a lock file under the lake, since local Delta alone loses commits across processes.

Belongs here: taking and naming the lock. Does not: the work under it. It covers the processes of one machine.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from lakehouse_assets.errors import LockedError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.disk_errors import raise_disk_errors


@contextmanager
def table_lock(settings: Settings, table: str, wait_seconds: float = 900) -> Iterator[None]:
    """Hold the table's lock, re-entrant in one process. Raises LockedError after the wait, and DiskError."""
    try:
        with raise_disk_errors(settings):
            settings.locks.mkdir(parents=True, exist_ok=True)
            lock = FileLock(settings.locks / f"{table}.lock", is_singleton=True)
            with lock.acquire(timeout=wait_seconds):
                yield
    except Timeout:
        raise LockedError(
            f"{table} is being written by another process for more than {wait_seconds:.0f} s ({settings.locks / table}.lock); "
            "wait for that run to end, or stop it"
        ) from None
