"""The version of silver that its applied decisions made: what the checks of other tables read.

Belongs here: choosing the version. Does not: the marks (version_marks), or reading rows (pipeline).
"""

from collections.abc import Collection, Iterable
from typing import Any

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import commit_metadata
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets.storage.evidence import OUR_STEPS, ROWLESS_OPERATIONS
from lakehouse_assets.storage.version_marks import read_last_mark


def read_published_version(settings: Settings, table: str, decisions: Iterable[Decision]) -> int | None:
    """Return the newest version of silver that has no row of an unapplied decision; None before the first mark. No JVM.

    That is the recorded version or a later one. The commits between them leave the rows as they are, or apply decisions that
    have their marks. Maintenance compacts a table and removes older versions' files, so that the recorded one may be
    unreadable. Commits that are no longer in the log are older than its retention: every run since has completed them.
    """
    mark = read_last_mark(settings, table)
    files = TableFiles(settings.path("silver", table))
    if mark is None or files.state.version is None:
        return None
    applied = {decision.decision_id for decision in decisions if decision.applied_at is not None}
    version = mark.version
    newer = [entry for entry in files.history(max(files.state.version - version, 1)) if entry["version"] > version]
    for entry in sorted(newer, key=lambda each: each["version"]):
        if not _is_applied(entry, applied):
            break
        version = entry["version"]
    return version


def _is_applied(commit: dict[str, Any], applied: Collection[str]) -> bool:
    if commit.get("operation") in ROWLESS_OPERATIONS:
        return True
    step, names = commit_metadata.decode_step(commit.get("userMetadata"))
    return step in OUR_STEPS and set(names) <= set(applied)
