"""The files that a worker of this project depends on, and which of them changed.

Belongs here: which files those are. Does not: noticing a change of a file (fingerprint), or what follows from it (process).
"""

import logging
import time
from pathlib import Path

from lakehouse_assets.orchestration.workers.fingerprint import LoadedFiles, folder_mark
from lakehouse_assets.settings import Settings

# Files of the project that a process reads once.
READ_ONCE = ("dagster.yaml", "workspace.yaml", "pyproject.toml", "dg.toml", ".env")
log = logging.getLogger("lakehouse.worker")


class Dependencies:
    """The files as they were when the worker loaded them. ``settings``: None in a code location that is no project of ours."""

    def __init__(self, settings: Settings | None) -> None:
        self.settings = settings
        self._loaded = LoadedFiles(_read_once(settings), time.time())
        self._extensions, self._definitions = self._mark_extensions(), self._mark_definitions()

    def code_changed(self) -> bool:
        """Whether the process has loaded something that is not as it was: only a new process can load it again."""
        changed = self._loaded.changed(time.time())
        if changed is None and self._mark_extensions() != self._extensions:
            changed = "the project's extensions"
        if changed is not None:
            log.info("starts again: %s changed", changed)
        return changed is not None

    def definitions_changed(self) -> bool:
        """Whether the tables or audits are not as they were at the last call."""
        before, self._definitions = self._definitions, self._mark_definitions()
        return before != self._definitions

    def _mark_definitions(self) -> str:
        return folder_mark([self.settings.tables, self.settings.audits]) if self.settings is not None else ""

    def _mark_extensions(self) -> str:
        project = self.settings.project if self.settings is not None else None
        return folder_mark([project / "lakehouse"]) if project is not None else ""


def _read_once(settings: Settings | None) -> list[Path | None]:
    if settings is None:
        return []
    folders = {settings.project or Path.cwd(), settings.dagster_home}
    return [*(folder / name for folder in folders for name in READ_ONCE), settings.spark_conf, settings.kafka_conf]
