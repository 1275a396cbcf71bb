"""What the stored profiles say of a column: its extremes and missing values, by accepted window.

Belongs here: reading them without their sketches. Does not: the baseline that they make (baseline).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import meanings
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta


@dataclass(frozen=True)
class Seen:
    """A column in one window, all strata together: its rows, those of them without a value, the extremes of finite values."""

    rows: int
    nulls: int
    minimum: float | None
    maximum: float | None


def seen_by_window(settings: Settings, spec: TableSpec, known: Sequence[Decision]) -> dict[str, list[Seen]]:
    """What the stored profiles say of each column that drift watches as it is, by accepted window. No JVM; reads no sketch.

    A column is left out where an accepted window has no profile of it, or one of another meaning: its figures would be of
    some windows only. What an override let through is passed over, as it is by the baseline.
    """
    features = {f.name: f.expr for f in (spec.drift.features if spec.drift else ()) if f.expr in spec.columns}
    live = [d for d in ledger.accepted(known).values() if d.counts.rows_published and not {"drift", "*"} & set(d.waived)]
    if not features or not live:
        return {}
    columns = ["decision_id", "feature", "rows", "nulls", "minimum", "maximum"]
    strata: dict[tuple[str, str], list[dict]] = {}
    for row in delta.read_arrow(settings.path("baseline", spec.name), columns).to_pylist():
        strata.setdefault((row["decision_id"], row["feature"]), []).append(row)
    now, found = meanings(spec.ruleset()), {}
    for name, column in features.items():
        if all((d.decision_id, name) in strata and meanings(d.ruleset).get(name) == now[name] for d in live):
            found[column] = [_seen(strata[d.decision_id, name]) for d in live]
    return found


def _seen(strata: Sequence[dict]) -> Seen:
    lows = [row["minimum"] for row in strata if row["minimum"] is not None]
    highs = [row["maximum"] for row in strata if row["maximum"] is not None]
    rows, nulls = sum(row["rows"] for row in strata), sum(row["nulls"] for row in strata)
    return Seen(rows, nulls, min(lows, default=None), max(highs, default=None))
