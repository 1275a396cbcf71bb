"""A project's definitions for a command: built anew, and in a worker once for all commands.

Belongs here: when those of the last command are still right. Does not: building them (definitions).
"""

import os
from dataclasses import dataclass
from typing import Any

from lakehouse_assets.settings import Settings

# A command that a worker calls has it; so it calls no worker itself.
WITHIN = "LAKEHOUSE_WITHIN_WORKER"


@dataclass(frozen=True)
class _LoadedDefinitions:
    settings: Settings
    files: str
    definitions: Any


_last: list[_LoadedDefinitions] = []


def definitions_of(settings: Settings) -> Any:
    """Return the project's definitions. In a worker, those of the last command if no file of a table or audit has changed."""
    from lakehouse_assets.definitions import build_definitions
    from lakehouse_assets.orchestration.workers.fingerprint import folder_mark

    if WITHIN not in os.environ:
        return build_definitions(settings)
    files = folder_mark([settings.tables, settings.audits])
    if not _last or (_last[0].settings, _last[0].files) != (settings, files):
        _last[:] = [_LoadedDefinitions(settings, files, build_definitions(settings))]
    return _last[0].definitions
