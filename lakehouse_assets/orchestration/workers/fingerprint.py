"""What a worker depends on: its environment, its code, and the files that the definitions are read from.

Belongs here: noticing that one of them changed. Does not: what follows from it (process).
"""

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

# Variables of a terminal, a shell or `make`, on which no run depends. Any other difference is one: a project's code may read
# it.
OF_A_TERMINAL = re.compile(
    "_|PWD|OLDPWD|SHLVL|COLUMNS|LINES|TERM|TERM_.*|COLORTERM|LS_COLORS|WINDOWID|SSH_.*|XDG_.*|TMUX.*|STY|PS[0-9]|PROMPT.*|MAKE.*|MFLAGS"
    "|VIRTUAL_ENV.*|DBUS_.*|INVOCATION_ID|JOURNAL_STREAM|HIST.*|LESS.*|EDITOR|VISUAL|PAGER|DISPLAY|WAYLAND_.*|VSCODE_.*"
    "|GNUMAKEFLAGS|PYTHONDONTWRITEBYTECODE|MAIL|MOTD_SHOWN|COLORFGBG|PYTEST_.*|DAGSTER_IS_DEV_CLI|DAGSTER_verbose"
)
FileMark = tuple[int, int]


def environment_mark(environ: Mapping[str, str], folder: str, python: str = sys.executable) -> str:
    """Return a hash of all that a process inherits and a run may depend on. Values cannot be read from it."""
    inherited = {name: value for name, value in environ.items() if not OF_A_TERMINAL.fullmatch(name)}
    if "PATH" in inherited:
        inherited["PATH"] = _without_environment_of(python, inherited["PATH"])
    parts = [folder, python, *(f"{name}={value}" for name, value in sorted(inherited.items()))]
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


def _without_environment_of(python: str, path: str) -> str:
    """Return a PATH without the programs of this Python's virtual environment, which an activated one has first."""
    own = Path(python).parent
    if not (own.parent / "pyvenv.cfg").exists():
        return path
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if os.path.realpath(folder) != os.path.realpath(own))


def file_mark(path: str | Path) -> FileMark | None:
    """Return what changes with a file's content; None where there is none."""
    with suppress(OSError):
        status = os.stat(path)  # noqa: PTH116 (thousands of files: no Path for each)
        return (status.st_mtime_ns, status.st_size)
    return None


def folder_mark(folders: Iterable[Path | None]) -> str:
    """Return a hash of the names, times and sizes of all files below these folders."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(_files(folder)) if folder else ():
            digest.update(f"{path}\0{file_mark(path)}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[str]:
    visited = set[str]()
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        # A link to a folder above it would never end.
        folders[:] = [] if real in visited else [name for name in folders if name != "__pycache__"]
        visited.add(real)
        yield from (f"{parent}/{name}" for name in names)


class LoadedFiles:
    """The files of all modules that this process has loaded, and ``others`` that it read once, as they were then."""

    def __init__(self, others: Iterable[Path | None], now: float) -> None:
        self.since_ns = int(now * 1e9)
        read = [str(path) for path in others if path is not None]
        self.marks = {path: file_mark(path) for path in [*read, *_module_files()]}

    def changed(self, now: float) -> str | None:
        """Return a file that is not as it was when it was loaded. Files of modules loaded since the last call join."""
        for path in list(self.marks):
            if file_mark(path) != self.marks[path]:
                return path
        for path in _module_files():
            if path not in self.marks:
                mark = file_mark(path)
                if mark is not None and self.since_ns < mark[0] <= now * 1e9:
                    return path  # it may be newer than what was loaded
                self.marks[path] = mark
        return None


def _module_files() -> Iterator[str]:
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str):
            yield path
