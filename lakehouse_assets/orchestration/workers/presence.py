"""Whether a process that gives runs to workers is still there: its workers end soon after it, as those of `dagster dev`.

Belongs here: one locked file for each such process, and whether one is locked. Does not: what a worker does about it (choice,
process).

The process holds the file's lock to its end, whatever ends it: so no process id is believed that may be another's by now.
"""

import fcntl
import os
import uuid
from contextlib import suppress
from pathlib import Path

# Of this process, by the pool's folder: the file's name and the descriptor that holds its lock.
_files: dict[tuple[int, Path], tuple[str, int]] = {}


def announce(pool: Path) -> str:
    """Return the name of this process's file, which is locked until the process ends. The caller holds the pool's lock."""
    key = (os.getpid(), pool)
    if key not in _files or not (pool / _files[key][0]).exists():
        name = f"giver-{uuid.uuid4().hex[:8]}"
        descriptor = os.open(pool / name, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        _files[key] = (name, descriptor)
    return _files[key][0]


def is_locked(path: Path) -> bool:
    """Whether the process that holds this file's lock has not ended. One that is paused has not. False without a file."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        # Shared: two that look at once do not take each other for the process.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def delete_files_of_others(pool: Path) -> None:
    """Delete the files of processes that have ended. The caller holds the pool's lock."""
    for path in pool.glob("giver-*"):
        if not is_locked(path):
            with suppress(OSError):
                path.unlink()
