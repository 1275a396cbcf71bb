"""The most memory that a process and its children held at once, looked at a few times a second.

Belongs here: psutil where it is installed, else /proc. Does not: what the processes do.
"""

import threading
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SECONDS = 0.2


class PeakMemory:
    """While open, watches the tree below ``pid``. ``megabytes``: the peak of the sum of resident sizes, None if unknown.

    Pages that processes share are counted for each: for one Python and one JVM that is next to nothing.
    """

    def __init__(self, pid: int) -> None:
        self.megabytes: int | None = None
        self._pid = pid
        self._stop = threading.Event()
        self._sampler = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._sampler.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._sampler.join()

    def _watch(self) -> None:
        while not self._stop.wait(SECONDS):
            if size := bytes_now(self._pid):
                self.megabytes = max(self.megabytes or 0, round(size / 2**20))


def bytes_now(pid: int) -> int:
    """Return the sum of resident sizes of a process and its children; 0 if it has ended."""
    return _by_psutil(pid) if find_spec("psutil") else _by_proc(pid)


def _by_psutil(pid: int) -> int:
    psutil = import_module("psutil")
    total = 0
    try:
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            total += process.memory_info().rss
    except psutil.NoSuchProcess:
        pass  # it has just ended: the next look sees what is left
    return total


def _by_proc(pid: int) -> int:
    sizes: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = status.read_text().splitlines()
        except OSError:
            continue
        report = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        own = int(report["Pid"][0])
        children.setdefault(int(report["PPid"][0]), []).append(own)
        sizes[own] = int(report["VmRSS"][0]) * 1024 if "VmRSS" in report else 0
    total, left = 0, [pid]
    while left:
        each = left.pop()
        total += sizes.get(each, 0)
        left += children.get(each, [])
    return total
