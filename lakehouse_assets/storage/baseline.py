"""`baseline/<table>`: the accepted windows' profiles, relations and statistics, append-only, addressed by their decision's id.

Belongs here: rows ↔ what was measured, and the book of a baseline version. Does not: what it is compared with.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import meanings
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.drift import Book, statistics_from_dict
from lakehouse_assets.decisions.profiles import Key, Profile
from lakehouse_assets.decisions.relations import Measured, Relations, read_measured
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.baseline_log import BaselineEvent, baseline_events
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


def _measured(row: Mapping[str, Any]) -> Measured:
    if row.get("relations"):
        return Relations.from_dict(json.loads(row["relations"]))
    given = {name: row[name] for name in Profile.__dataclass_fields__ if row.get(name) is not None}
    if "counts" in given:
        given["counts"] = tuple((value, int(rows)) for value, rows in json.loads(given["counts"]))
    return Profile(**{"stratum": None, **given})


def read_baseline(settings: Settings, spec: TableSpec, known: Sequence[Decision], version: int) -> Book:
    """The book as it stood after decision number ``version``, with all that people did to it up to then. No JVM; reads the
    profiles of the accepted windows.

    A feature whose meaning has changed since (`contracts.drift.meanings`) is learnt anew: what was measured before is left
    out. Raises ConfigError for a table without `drift:`.
    """
    drift = spec.drift_in_units
    if drift is None:
        raise ConfigError(f"{spec.name} declares no drift: it has no baseline")
    events = baseline_events(settings, spec.name, version)
    rows = _by_decision(settings, spec.name) if known or events else {}
    book = Book(drift)
    pins = [place for place, event in enumerate(events) if event.kind in ("pin", "unpin")]
    if pins and events[pins[-1]].kind == "pin":
        # As it was then: a window that was replaced since is still in what a person looked at.
        pinned, then = Book(drift), events[pins[-1]].after
        for entry in _entries(spec, known, events[: pins[-1]], rows, then):
            pinned.learn(entry.window, entry.measured, entry.statistics)
        pinned.pin()
        book.pin(pinned.baseline.reference)
    for entry in _entries(spec, known, events, rows, version):
        book.learn(entry.window, entry.measured, entry.statistics)
    return book


def read_entries(settings: Settings, spec: TableSpec, known: Sequence[Decision], version: int) -> list[Entry]:
    """The windows that a version of the baseline holds, in the order in which they were learnt. No JVM."""
    events = baseline_events(settings, spec.name, version)
    return _entries(spec, known, events, _by_decision(settings, spec.name), version)


def _by_decision(settings: Settings, table: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in delta.read_arrow(settings.path("baseline", table)).to_pylist():
        found.setdefault(row["decision_id"], []).append(row)
    return found


def _entries(
    spec: TableSpec,
    known: Sequence[Decision],
    events: Sequence[BaselineEvent],
    rows: Mapping[str, list[dict[str, Any]]],
    version: int,
) -> list[Entry]:
    """Decisions that teach, and seeds, since the last reset. An accepted window takes the place of its seed."""
    resets = [place for place, event in enumerate(events) if event.kind == "reset"]
    since = events[resets[-1]].after if resets else -1
    accepted = {start for start, _ in ledger.accepted(known, version)}
    now, by_id = meanings(spec.ruleset()), {d.decision_id: d for d in known}
    found: list[tuple[int, Entry]] = []
    for event in events[resets[-1] + 1 if resets else 0 :]:
        if event.kind == "seed":
            by_window: dict[datetime, list[dict[str, Any]]] = {}
            for row in rows.get(event.seed_id, []):
                by_window.setdefault(row["p_extracted_at"], []).append(row)
            then = meanings(event.extra["ruleset"])
            for window, given in sorted(by_window.items()):
                if window not in accepted and (entry := _entry(given, then, now, event.after, seeded=True)):
                    found.append((event.after, entry))
    for decision_id in ledger.teaching(known, version):
        decision = by_id[decision_id]
        number = ledger.taught_at(known, decision)
        entry = _entry(rows.get(decision_id, []), meanings(decision.ruleset), now, number)
        if number > since and entry:
            found.append((number, entry))
    # A seed comes after the decision that was the last one then.
    return [entry for _, entry in sorted(found, key=lambda pair: (pair[0], pair[1].seeded))]


def _entry(
    rows: Sequence[dict[str, Any]], then: Mapping[str, str], now: Mapping[str, str], number: int, *, seeded: bool = False
) -> Entry | None:
    """What still means the same; None where that is nothing."""

    def same(one: Measured) -> bool:
        names = one.features if isinstance(one, Relations) else (one.feature,)
        return all(name in now and then.get(name) == now[name] for name in names)

    every = [_measured(row) for row in rows]
    kept = tuple(one for one in every if same(one))
    if not kept:
        return None
    changed = {one.key for one in every} - {one.key for one in kept}
    statistics = statistics_from_dict({"statistics": json.loads(rows[0]["statistics"])})
    # A stratum may have statistics and no row; then its feature's meaning decides.
    left = {k: s for k, s in statistics.items() if k not in changed and then.get(k[0]) == now.get(k[0])}
    return Entry(rows[0]["p_extracted_at"], number, kept, left, seeded)
