"""The log of a gate: a folder with the decisions on frames and the profiles of accepted ones, as a lake has them.

Belongs here: reading what is known, by the lake's own logs. Does not: their rows (storage/log_rows, storage/baseline).
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lakehouse_assets.checks.families import HistoryCheck
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.frame_rules import FrameRules
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decide import Knowledge
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.verdict import windows_compared
from lakehouse_assets.decisions.history import History
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.object_store import is_url
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.baseline_state import read_baseline
from lakehouse_assets.storage.lock import table_lock


def settings_at(folder: str | Path) -> Settings:
    """Return settings whose root is this folder. Reads no environment."""
    root = str(folder) if is_url(str(folder)) else str(Path(folder).expanduser().resolve())
    home = Path(tempfile.gettempdir()) if is_url(root) else Path(root)
    return Settings(root=root, landing=root, dagster_home=home)


@dataclass(frozen=True)
class FrameLog:
    """The log of one set of rules. ``decisions``: all of that name. ``current``: the last accepted one of each window."""

    settings: Settings
    rules: FrameRules
    decisions: Sequence[Decision]

    @classmethod
    def read(cls, folder: str | Path, rules: FrameRules) -> "FrameLog":
        """Return the log in this folder; an empty one if nothing was logged there. No JVM."""
        settings = settings_at(folder)
        return cls(settings, rules, logs.decisions(settings, rules.name))

    @property
    def current(self) -> list[Decision]:
        """The last accepted decision of each window, if it was applied."""
        accepted = [d for d in self.decisions if d.accepted and d.applied_at]
        by_window = {d.p_extracted_at: d for d in sorted(accepted, key=lambda d: d.number)}
        return sorted(by_window.values(), key=lambda d: d.number)

    @property
    def last(self) -> int:
        """The number of the last decision; 0 before the first."""
        return ledger.last_number(self.decisions)

    def baseline(self) -> BaselineState | None:
        """Return the profiles of the accepted windows, merged; None for rules without `drift`."""
        return read_baseline(self.settings, self.rules, self.current, self.last) if self.rules.drift else None

    def knowledge(self, start: datetime, baseline: BaselineState | None) -> Knowledge:
        """Return what a frame of this window is judged by. ``baseline``: another one than the log's; None: the log's."""
        current, drift, history = self.current, {}, History()
        if self.rules.drift and (compared := windows_compared(current, [start])):
            drift = logs.read_drift(self.settings, self.rules.name, *compared)
        if any(isinstance(check, HistoryCheck) for check in self.rules.checks):
            history = History(logs.with_evidence(self.settings, self.rules.name, current, ("checks",)))
        return Knowledge(current, (), baseline or self.baseline(), history, drift)


def empty_knowledge(rules: FrameRules, baseline: BaselineState | None) -> Knowledge:
    """Return what a frame without a log is judged by."""
    drift = rules.drift_in_units
    return Knowledge([], (), baseline or (BaselineState(drift) if drift else None))


@contextmanager
def locked_log(folder: str | Path, rules: FrameRules) -> Iterator[FrameLog]:
    """Hold the log's lock, and yield the log as it is then. Raises RefusedError for the folder of a lake."""
    settings = settings_at(folder)
    if not is_url(settings.root) and Path(settings.root).exists() and not Path(settings.root).is_dir():
        raise RefusedError(f"log={folder}: this is a file; a folder is wanted")
    if delta.exists(settings.path("ops", "extractions")):
        raise RefusedError(
            f"log={folder}: this is a lake, whose log its own assets write; pass another folder, or read it with `baseline=`"
        )
    with table_lock(settings, rules.name):
        yield FrameLog.read(folder, rules)


def is_log(folder: str | Path) -> bool:
    """Whether decisions were logged in this folder."""
    return delta.exists(settings_at(folder).path("ops", "decisions"))
