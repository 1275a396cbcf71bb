"""`baseline/<table>`: the accepted windows' profiles and statistics, append-only, addressed by their decision's id.

Belongs here: rows ↔ profiles, the book of a baseline version, the extremes in it. Does not: what it is compared with.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import meanings
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.drift import Book, statistics_from_dict
from lakehouse_assets.decisions.profiles import Profile
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
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
    ]
)


@dataclass(frozen=True)
class Seen:
    """A column in one window, all strata together: its rows, those of them without a value, the extremes of finite values."""

    rows: int
    nulls: int
    minimum: float | None
    maximum: float | None


def write_profiles(settings: Settings, table: str, made: Sequence[Decision], *, again: bool) -> None:
    """Append the profiles of accepted decisions; ``again``: leave out those that are there already."""
    path = settings.path("baseline", table)
    there: set[str] = set()
    if again and delta.exists(path):
        there = set(delta.read_arrow(path, ["decision_id"])["decision_id"].to_pylist())
    rows = []
    for decision in made:
        if decision.decision_id in there or not decision.profiles:
            continue
        statistics = json.dumps((decision.drift or {}).get("statistics", []))
        for given in decision.profiles:
            p = Profile.from_dict(given)
            made_by = {"decision_id": decision.decision_id, "decision_number": decision.number, "statistics": statistics}
            batch = {"p_extracted_at": decision.p_extracted_at, "extraction_seq": decision.extraction_seq}
            rows.append(asdict(p) | made_by | batch)
    if rows:
        named = delta.metadata_of([d.decision_id for d in made], "baseline")
        delta.append_arrow(pa.Table.from_pylist(rows, SCHEMA), path, named=named)


def read_baseline(settings: Settings, spec: TableSpec, known: Sequence[Decision], version: int) -> Book:
    """The book as it stood after decision number ``version``. No JVM; reads the profiles of the accepted windows.

    A feature whose meaning has changed since (`contracts.drift.meanings`) is learnt anew: what was measured before is left
    out. Raises ConfigError for a table without `drift:`.
    """
    if spec.drift is None:
        raise ConfigError(f"{spec.name} declares no drift: it has no baseline")
    book = Book(spec.drift)
    wanted = ledger.teaching(known, version)
    found = delta.read_arrow(settings.path("baseline", spec.name))
    by_decision: dict[str, list[dict]] = {}
    for row in found.to_pylist():
        by_decision.setdefault(row["decision_id"], []).append(row)
    now = meanings(spec.ruleset())
    rulesets = {decision.decision_id: decision.ruleset for decision in known}
    for decision_id in wanted:
        then = meanings(rulesets[decision_id])
        rows = [row for row in by_decision.get(decision_id, []) if then.get(row["feature"]) == now.get(row["feature"])]
        if rows:
            fields = Profile.__dataclass_fields__
            profiles = [Profile(**{name: row[name] for name in fields}) for row in rows]
            kept = statistics_from_dict({"statistics": json.loads(rows[0]["statistics"])})
            kept = {key: found for key, found in kept.items() if then.get(key[0]) == now.get(key[0])}
            book.learn(rows[0]["p_extracted_at"], profiles, kept)
    return book


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
