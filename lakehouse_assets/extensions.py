"""Other people's check kinds, source kinds, alert channels and SQL functions: from installed packages, and from the project.

Belongs here: finding and importing their modules, and errors that name the file. Does not: what they may define (checks,
contracts, events).

Code comes from two places only: the entry points `lakehouse_assets.<group>` of installed packages, and the files
`lakehouse/<group>/*.py` of the project.
"""

import importlib
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from lakehouse_assets.errors import ConfigError, LakehouseError
from lakehouse_assets.settings import project_folder

Group = Literal["checks", "sources", "alerts", "functions"]
FOLDER = "lakehouse"
PACKAGE = "lakehouse_project"


@dataclass(frozen=True)
class Extension:
    """A module or object of somebody else's. ``source``: its file, or its package and entry point. ``members``: what it
    defines.
    """

    source: str
    members: tuple[Any, ...]


@cache
def extensions(group: Group) -> tuple[Extension, ...]:
    """Return a group's extensions: those of packages by name, then the project's files by name. Raises ConfigError for one that
    cannot be imported.
    """
    points = sorted(entry_points(group=f"lakehouse_assets.{group}"), key=lambda point: (point.name, point.value))
    # A package that is on the path twice is one package.
    distinct = {(point.name, point.value): point for point in points}
    return (*map(_of_entry_point, distinct.values()), *_of_project(group))


def require_extensions_of(project: Path) -> None:
    """Raise ConfigError if this project has extensions, and this process reads those of another folder: it began elsewhere."""
    root = _root()
    other = root.parent if root else Path.cwd()
    if other.resolve() != project.resolve() and any((project / FOLDER).glob("*/[!_]*.py")):
        raise ConfigError(
            f"{project / FOLDER}: these extensions are not read, since this process began in {other}; start it in {project},"
            f" or set LAKEHOUSE_PROJECT={project}"
        )


@cache
def _root() -> Path | None:
    """Return the project's folder of extensions; None without a project. A process has one project's extensions."""
    try:
        return project_folder() / FOLDER
    except LakehouseError:
        return None  # rules for a frame need no project; whoever does reports that there is none


def project_modules() -> list[ModuleType]:
    """Return the project's own modules. Spark's Python workers cannot import them: their functions are sent by value."""
    return [module for name, module in sorted(sys.modules.items()) if name.startswith(f"{PACKAGE}.")]


def _of_entry_point(point: EntryPoint) -> Extension:
    package = f"{point.dist.name} " if point.dist else ""
    source = f"{package}(entry point {point.name} = {point.value})"
    try:
        value = point.load()
    except Exception as error:
        raise ConfigError(f"{source}: the extension cannot be imported: {_reason(error)}") from error
    return Extension(source, _members(value) if isinstance(value, ModuleType) else (value,))


def _of_project(group: Group) -> Iterator[Extension]:
    root = _root()
    if root is None:
        return
    files = sorted(file for file in (root / group).glob("*.py") if not file.name.startswith("_"))
    if not files:
        return
    package = ModuleType(PACKAGE)
    package.__path__ = [str(root)]
    sys.modules.setdefault(PACKAGE, package)
    for file in files:
        if not file.stem.isidentifier():
            raise ConfigError(f"{file}: a file of extensions is named like a Python module: letters, digits and _")
        try:
            module = importlib.import_module(f"{PACKAGE}.{group}.{file.stem}")
        except Exception as error:
            raise ConfigError(f"{file}:{_line(error, file)}: the extension cannot be imported: {_reason(error)}") from error
        yield Extension(str(file), _members(module))


def _members(module: ModuleType) -> tuple[Any, ...]:
    """Return what a module, or a module below it, defines: no class that it imports from elsewhere."""
    values = [value for name, value in vars(module).items() if not name.startswith("_")]
    return tuple(value for value in values if _is_value(value) or _is_of(value, module.__name__))


def _is_of(value: Any, package: str) -> bool:
    return f"{getattr(value, '__module__', '')}.".startswith(f"{package}.")


def _is_value(value: Any) -> bool:
    return not isinstance(value, type | ModuleType) and not callable(value)


def _line(error: Exception, file: Path) -> int:
    """Return the file's line at which its import failed."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno or 1
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return (frames[-1].lineno or 1) if frames else 1


def _reason(error: Exception) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
