"""`baseline/<table>`: the accepted windows' profiles and statistics, append-only, addressed by their decision's id.

Belongs here: rows ↔ profiles, and the book of a baseline version. Does not: what it is compared with.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict

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
