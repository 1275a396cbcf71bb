"""A project's tables and definitions for a command: read anew, and in a worker once for all commands.

Belongs here: when those of the last command are still right. Does not: reading or building them (orchestration, definitions).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakehouse_assets.settings import Settings

# A command that a worker calls has it; so it calls no worker itself.
WITHIN = "LAKEHOUSE_WITHIN_WORKER"


@dataclass(frozen=True)
class _ProjectValues:
    settings: Settings
    files: str
    values: dict[str, Any]


_last: list[_ProjectValues] = []


def definitions_of(settings: Settings) -> Any:
    """Return the project's definitions. In a worker, those of the last command if no file of a table or audit has changed."""
    from lakehouse_assets.definitions import build_definitions

    return _read_once(settings, "definitions", build_definitions)


def tables_of(settings: Settings) -> Any:
    """Return the project's tables: those without mistakes, and those that stop. In a worker as `definitions_of`."""
    from lakehouse_assets.orchestration.assets.project_tables import find_tables

    return _read_once(settings, "tables", find_tables)


def _read_once(settings: Settings, name: str, make: Callable[[Settings], Any]) -> Any:
    if WITHIN not in os.environ:
        return make(settings)
    from lakehouse_assets.orchestration.workers.fingerprint import folder_mark

    files = folder_mark([settings.tables, settings.audits])
    if not _last or (_last[0].settings, _last[0].files) != (settings, files):
        _last[:] = [_ProjectValues(settings, files, {})]
    values = _last[0].values
    if name not in values:
        values[name] = make(settings)
    return values[name]
