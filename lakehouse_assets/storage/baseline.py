"""`baseline/<table>`: the accepted windows' profiles, relations and statistics, append-only, addressed by their decision's id.

Belongs here: what was measured → rows. Does not: which of them make up a version of the baseline (book).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions.profiles import Key
from lakehouse_assets.decisions.relations import Measured, Relations, read_measured
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.baseline_log import BaselineEvent
from lakehouse_assets.storage.logs import MOMENT

SCHEMA = pa.schema(
    [
        pa.field("p_extracted_at", MOMENT),
        pa.field("extraction_seq", pa.int32()),
        pa.field("decision_id", pa.string()),
        pa.field("decision_number", pa.int64()),
        pa.field("feature", pa.string()),
        pa.field("stratum", pa.string()),
        *[pa.field(name, pa.int64()) for name in ("rows", "nulls", "nans", "infinities")],
        *[pa.field(name, pa.float64()) for name in ("mean", "std", "minimum", "maximum")],
        pa.field("sketch", pa.binary()),
        pa.field("statistics", pa.string()),
        # Lakes made before lack these.
        pa.field("kind", pa.string()),
        pa.field("distinct", pa.float64()),
        pa.field("counts", pa.string()),
        pa.field("others", pa.int64()),
        pa.field("relations", pa.string()),
    ]
)


@dataclass(frozen=True)
class Entry:
    """One window of a baseline: where it is from (a decision's number, or a seed's), and what was measured of it."""

    window: datetime
    number: int
    measured: tuple[Measured, ...]
    statistics: Mapping[Key, Mapping[str, float]]
    seeded: bool = False


def write_profiles(settings: Settings, table: str, made: Sequence[Decision], *, again: bool) -> None:
    """Append what was measured by accepted decisions; ``again``: leave out those that are there already."""
    path = settings.path("baseline", table)
    there: set[str] = set()
    if again and delta.exists(path):
        there = set(delta.read_arrow(path, ["decision_id"])["decision_id"].to_pylist())
    rows = []
    for decision in made:
        if decision.decision_id in there or not decision.profiles:
            continue
        of_batch = {"p_extracted_at": decision.p_extracted_at, "extraction_seq": decision.extraction_seq}
        made_by = {"decision_id": decision.decision_id, "decision_number": decision.number}
        statistics = (decision.drift or {}).get("statistics", [])
        rows += _rows(map(read_measured, decision.profiles), statistics, of_batch | made_by)
    if rows:
        named = delta.metadata_of([d.decision_id for d in made], "baseline")
        delta.append_arrow(pa.Table.from_pylist(rows, SCHEMA), path, named=named)


def write_seed(settings: Settings, event: BaselineEvent, entries: Sequence[Entry]) -> None:
    """Append a seed's windows. They count once the event is in the log, and not before."""
    rows = []
    for entry in entries:
        of_batch = {"p_extracted_at": entry.window, "extraction_seq": 0}
        made_by = {"decision_id": event.seed_id, "decision_number": event.after}
        statistics = [[feature, stratum, dict(found)] for (feature, stratum), found in entry.statistics.items()]
        rows += _rows(entry.measured, statistics, of_batch | made_by)
    named = delta.metadata_of([event.seed_id], "baseline")
    delta.append_arrow(pa.Table.from_pylist(rows, SCHEMA), settings.path("baseline", event.table), named=named)


def _rows(measured: Any, statistics: list[Any], more: Mapping[str, Any]) -> list[dict[str, Any]]:
    kept = json.dumps(statistics)
    rows = []
    for one in measured:
        if isinstance(one, Relations):
            feature, stratum = one.key
            plain = {"feature": feature, "stratum": stratum, "rows": one.rows, "relations": json.dumps(one.to_dict())}
        else:
            plain = asdict(one) | {"counts": None if one.counts is None else json.dumps(one.counts)}
        rows.append({**plain, **more, "statistics": kept})
    return rows
