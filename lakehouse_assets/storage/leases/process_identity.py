"""Which process holds a lease, and whether it still runs: only a process of the same host and boot can tell.

Belongs here: names of hosts and processes. Does not: leases (holding), or the lock files of one machine (storage/lock).
"""

import os
import platform
from functools import cache
from pathlib import Path
from typing import Any


@cache
def host_name() -> str:
    """Return a name of this host: two containers of one machine have two."""
    machine = _text(Path("/etc/machine-id"))[:12]
    return "/".join([platform.node(), *([machine] if machine else [])])


def own_identity() -> dict[str, Any]:
    """Return host, process id, the process's start and its namespace: what `is_dead` needs."""
    pid = os.getpid()
    return {"host": host_name(), "pid": pid, "started": _start(pid), "namespace": _namespace()}


def is_dead(identity: dict[str, Any]) -> bool:
    """Whether a process has ended, for sure. Of another host or boot, or without its numbers, nothing is sure: a copy of a
    machine has its name and id.
    """
    pid, started = identity.get("pid"), identity.get("started")
    if identity.get("host") != host_name() or identity.get("namespace") != _namespace() or not isinstance(pid, int):
        return False
    boot = _boot()
    if not boot or not isinstance(started, str) or not started.startswith(f"{boot}/"):
        return False
    return _start(pid) != started


def _start(pid: int) -> str | None:
    """Return the boot and the tick at which a process began; None if it has ended, or where the system does not tell."""
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return f"{_boot()}/{fields[19]}" if _boot() and len(fields) > 19 and fields[0] not in "ZX" else None


def _boot() -> str:
    return _text(Path("/proc/sys/kernel/random/boot_id"))


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
