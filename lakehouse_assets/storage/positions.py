"""The append-only log `ops/positions`: what windows took of a source that cannot tell it twice, before they are read.

Belongs here: rows ↔ texts by window; the first one of a window counts. Does not: what a text means (sources).
"""

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa

from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.logs import MOMENT

POSITIONS = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("p_extracted_at", MOMENT, nullable=False),
        pa.field("position", pa.string(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("recorded_at", MOMENT, nullable=False),
    ]
)


def positions(settings: Settings, table: str) -> dict[datetime, str]:
    """What is on record of a table's windows, by their start. No JVM."""
    found = delta.read_arrow(settings.path("ops", "positions"), filters=[("table", "=", table)])
    rows = sorted(found.to_pylist(), key=lambda row: row["recorded_at"], reverse=True)
    return {row["p_extracted_at"]: row["position"] for row in rows}


def record_positions(settings: Settings, table: str, taken: Mapping[Window, str], run_id: str, at: datetime) -> None:
    """Append these, in one commit. The caller holds the table's lock, so that no window is put on record twice."""
    rows = [
        {"table": table, "p_extracted_at": window.start, "position": text, "run_id": run_id, "recorded_at": at}
        for window, text in sorted(taken.items())
    ]
    with table_lock(settings, "ops_positions"):
        delta.append_arrow(pa.Table.from_pylist(rows, POSITIONS), settings.path("ops", "positions"), partition_by=["table"])
