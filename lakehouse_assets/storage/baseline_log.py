"""`ops/baselines`: what people did to a table's baseline (pin, unpin, reset, seed), append-only, with who and why.

Belongs here: rows ↔ events. Does not: the baseline that follows from them (baseline), or doing it (layers).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.logs import MOMENT

Kind = Literal["pin", "unpin", "reset", "seed"]
SCHEMA = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("after", pa.int64(), nullable=False),
        pa.field("at", MOMENT, nullable=False),
        pa.field("by", pa.string(), nullable=False),
        pa.field("because", pa.string(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("extra", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class BaselineEvent:
    """``after``: the number of the table's last decision then; the next one is the first to be judged by what was done.

    ``extra``, of a seed: `source`, `column` (of the windows), `windows`, `rows`, and `ruleset` by which it was measured.
    """

    table: str
    kind: Kind
    after: int
    at: datetime
    by: str
    because: str
    run_id: str
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def seed_id(self) -> str:
        """What stands in the place of a decision's id in `baseline/<table>`."""
        return f"seed-{self.run_id}"

    @property
    def told(self) -> dict[str, Any]:
        """What a person is shown of ``extra``."""
        return {name: value for name, value in self.extra.items() if name != "ruleset"}


def baseline_events(settings: Settings, table: str, version: int | None = None) -> list[BaselineEvent]:
    """In the order in which they were done; up to a version of the baseline, or all. No JVM."""
    found = delta.read_arrow(settings.path("ops", "baselines"), filters=[("table", "=", table)]).to_pylist()
    rows = sorted(found, key=lambda row: (row["after"], row["at"]))
    events = [BaselineEvent(**{**row, "extra": json.loads(row["extra"])}) for row in rows]
    return [event for event in events if version is None or event.after <= version]


def log_baseline_event(settings: Settings, event: BaselineEvent) -> None:
    """Append one, in one commit."""
    row = {**asdict(event), "extra": json.dumps(event.extra, sort_keys=True)}
    with table_lock(settings, "ops_baselines"):
        delta.append_arrow(pa.Table.from_pylist([row], SCHEMA), settings.path("ops", "baselines"), partition_by=["table"])
