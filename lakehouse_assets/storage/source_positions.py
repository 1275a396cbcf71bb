"""The log `ops/positions`: recorded offsets of sources that cannot repeat them, written before the read.

Belongs here: rows ↔ texts by window; a window's first one counts. Does not: the meaning of a text (sources).
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.evidence.findings import TableState
from lakehouse_assets.decisions.extraction_log import ExtractionLog
from lakehouse_assets.decisions.growing_map import GrowingMap
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets.storage.folded_log import Rows, read_folded
from lakehouse_assets.storage.log_table import LogTable, log_schema

POSITIONS = LogTable(
    "positions", log_schema("table text!, p_extracted_at moment!, position text!, run_id text!, recorded_at moment!")
)


def read_positions(settings: Settings, table: str) -> GrowingMap[datetime, str]:
    """Return a table's recorded positions by window start: for reading. No JVM."""
    columns = ["p_extracted_at", "position", "recorded_at"]
    return read_folded(POSITIONS.path(settings), table, columns, _Positions, lambda fold: fold.texts)


class _Positions:
    """``texts``: each window's first position, another mapping each time that some are added."""

    def __init__(self, rows: Rows, files: Sequence[str]) -> None:
        self._recorded_at: dict[datetime, datetime] = {}
        self.texts = GrowingMap[datetime, str]()
        self.add(rows, files)

    def add(self, rows: Rows, _: Sequence[str]) -> bool:
        """Add those of more rows."""
        self.texts = self.texts.copy()
        for row in rows:
            start, at = row["p_extracted_at"], row["recorded_at"]
            if start not in self._recorded_at or at <= self._recorded_at[start]:
                self._recorded_at[start] = at
                self.texts[start] = row["position"]
        return True

    def __len__(self) -> int:
        return len(self.texts)


def measure_positions(settings: Settings, table: str, extractions: ExtractionLog) -> tuple[TableState, Collection[datetime]]:
    """Return the log's state for a table, and the windows with a position. ``extractions``: of the table; only a
    table with a position in one of them is measured.
    """
    if not extractions.has_positions:
        return TableState(), ()
    files = TableFiles(POSITIONS.path(settings), table)
    # Of a log that lacks a file, nothing else is compared.
    return files.state, () if files.state.unreadable or files.state.absent else read_positions(settings, table)


def record_positions(settings: Settings, table: str, fresh: Mapping[Window, str], run_id: str, at: datetime) -> None:
    """Append positions of windows without one, in one commit. The caller holds the table's lock, so that none is doubled."""
    with POSITIONS.lock(settings):
        recorded = read_positions(settings, table)
        rows = [
            {"table": table, "p_extracted_at": window.start, "position": text, "run_id": run_id, "recorded_at": at}
            for window, text in sorted(fresh.items())
            if window.start not in recorded
        ]
        if rows:
            POSITIONS.append(settings, rows)
