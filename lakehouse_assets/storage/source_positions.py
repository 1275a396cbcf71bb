"""The log `ops/positions`: recorded offsets of sources that cannot repeat them, written before the read.

Belongs here: rows ↔ texts by window; a window's first one counts. Does not: the meaning of a text (sources).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.evidence.findings import TableState
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets.storage.folded_log import Rows, read_folded
from lakehouse_assets.storage.log_table import LogTable, log_schema

POSITIONS = LogTable(
    "positions", log_schema("table text!, p_extracted_at moment!, position text!, run_id text!, recorded_at moment!")
)


def read_positions(settings: Settings, table: str) -> dict[datetime, str]:
    """Return a table's recorded positions by window start. No JVM."""
    columns = ["p_extracted_at", "position", "recorded_at"]
    return read_folded(POSITIONS.path(settings), table, columns, _Positions, lambda fold: fold.texts())


class _Positions:
    """Each window's first position, with the time when it was recorded."""

    def __init__(self, rows: Rows, files: Sequence[str]) -> None:
        self._by_start: dict[datetime, tuple[datetime, str]] = {}
        self.add(rows, files)

    def add(self, rows: Rows, _: Sequence[str]) -> bool:
        """Add those of more rows."""
        for row in rows:
            start, at = row["p_extracted_at"], row["recorded_at"]
            if start not in self._by_start or at <= self._by_start[start][0]:
                self._by_start[start] = at, row["position"]
        return True

    def texts(self) -> dict[datetime, str]:
        """Return the positions by window start."""
        return {start: text for start, (_, text) in self._by_start.items()}

    def __len__(self) -> int:
        return len(self._by_start)


def measure_positions(
    settings: Settings, table: str, extractions: Sequence[ExtractionRecord]
) -> tuple[TableState, set[datetime]]:
    """Return the log's state for a table, and the windows with a position. ``extractions``: of the table; only a
    table with a position in one of them is measured.
    """
    if not any(record.position for record in extractions):
        return TableState(), set()
    files = TableFiles(POSITIONS.path(settings), table)
    if files.state.unreadable:
        return files.state, set()
    return files.state, {row["p_extracted_at"] for row in files.entries(POSITIONS.schema, table)}


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
