"""A version of a table's baseline, from the rows of `baseline/<table>`: which windows it is made of, and their book.

Belongs here: rows → book, reading no more of them than it takes. Does not: writing them (baseline), or judging by it.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import meanings
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.baseline import Book, enough
from lakehouse_assets.decisions.drift import statistics_from_dict
from lakehouse_assets.decisions.profiles import Key, OldProfile, Profile
from lakehouse_assets.decisions.relations import Measured, Relations
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.baseline import Entry
from lakehouse_assets.storage.baseline_log import BaselineEvent, baseline_events

Row = Mapping[str, Any]
Source = tuple[str, datetime]  # a decision's id, or a seed's, and the window
# Of each window ever accepted this much is read: sketches and counts are a thousand times larger.
COUNTS = ("p_extracted_at", "decision_id", "decision_number", "feature", "stratum", "kind", "relations")
COUNTS += ("rows", "nulls", "nans", "infinities", "others")


class _Taught(NamedTuple):
    """A window that teaches: by which decision (or seed), and what its features meant then."""

    number: int
    seeded: bool
    source: Source
    then: Mapping[str, str]


def read_baseline(settings: Settings, spec: TableSpec, known: Sequence[Decision], version: int, spare: int = 1) -> Book:
    """The book as it stood after decision number ``version``, with all that people did to it up to then. No JVM; reads the
    counts of every accepted window, and the distributions of the newest (`decisions.baseline.enough`).

    A feature whose meaning has changed since (`contracts.drift.meanings`) is learnt anew: what was measured before is left
    out. ``spare``: so many windows can be taken out of the book, and it is still right.
    Raises ConfigError for a table without `drift:`.
    """
    drift = spec.drift_in_units
    if drift is None:
        raise ConfigError(f"{spec.name} declares no drift: it has no baseline")
    events = baseline_events(settings, spec.name, version)
    path, most = settings.path("baseline", spec.name), enough(drift) + spare
    few = len(known) <= most and not any(event.kind == "seed" for event in events)
    rows = _by_source(delta.read_arrow(path, None if few else COUNTS)) if known or events else {}

    def entries(done: Sequence[BaselineEvent], at: int) -> list[Entry]:
        taught = _taught(known, done, rows, at)
        given, whole = (rows, None) if few else _with_distributions(path, spec, taught, rows, most)
        return _entries(spec, taught, given, whole)

    book = Book(drift)
    pins = [place for place, event in enumerate(events) if event.kind in ("pin", "unpin")]
    if pins and events[pins[-1]].kind == "pin":
        # As it was then: a window that was replaced since is still in what a person looked at.
        pinned, then = Book(drift), events[pins[-1]].after
        _learn(pinned, entries(events[: pins[-1]], then))
        pinned.pin()
        book.pin(pinned.baseline.reference)
    _learn(book, entries(events, version))
    return book


def read_entries(settings: Settings, spec: TableSpec, known: Sequence[Decision], version: int) -> list[Entry]:
    """The windows that a version of the baseline was made of, whole, in the order in which they were learnt. No JVM."""
    events = baseline_events(settings, spec.name, version)
    rows = _by_source(delta.read_arrow(settings.path("baseline", spec.name)))
    return _entries(spec, _taught(known, events, rows, version), rows)


def _learn(book: Book, entries: Iterable[Entry]) -> None:
    for entry in entries:
        book.learn(entry.window, entry.measured, entry.statistics)


def _with_distributions(
    path: str, spec: TableSpec, taught: Sequence[_Taught], counts: Mapping[Source, Sequence[Row]], most: int
) -> tuple[dict[Source, list[Row]], set[tuple[Source, Key]]]:
    """The same rows, whole where the baseline may still hold them; and which those are."""
    needed = _needed(taught, counts, meanings(spec.ruleset()), most)
    numbers = {t.source: row["decision_number"] for t in taught for row in counts.get(t.source, ())}
    recent = {t.source for t in taught[-most:]}
    chosen = pc.field("decision_number") >= min((numbers[s] for s in recent if s in numbers), default=0)
    if rare := {key for source, key in needed if source not in recent}:
        # Features and strata that few windows have, of which older ones are still in the baseline.
        strata = [stratum for _, stratum in rare]
        of_key = pc.field("stratum").isin(pa.array(strata, pa.string()))
        of_key = of_key | pc.field("stratum").is_null() if None in strata else of_key
        oldest = min(numbers[source] for source, _ in needed)
        named = pc.field("feature").isin(sorted({feature for feature, _ in rare}))
        chosen = chosen | ((pc.field("decision_number") >= oldest) & named & of_key)
    whole = _by_source(delta.read_arrow(path, filters=chosen))
    rows = {}
    for source, given in counts.items():
        found = {_key(row): row for row in whole.get(source, ())}
        rows[source] = [found[_key(row)] if (source, _key(row)) in needed else row for row in given]
    return rows, needed


def _needed(
    taught: Sequence[_Taught], rows: Mapping[Source, Sequence[Row]], now: Mapping[str, str], most: int
) -> set[tuple[Source, Key]]:
    """Of each feature and stratum the newest windows that have values of it, and still mean the same."""
    found: set[tuple[Source, Key]] = set()
    seen: dict[Key, int] = {}
    for one in reversed(taught):
        for row in rows.get(one.source, ()):
            key = _key(row)
            if _same(one, key[0], now) and row["relations"] is None and seen.get(key, 0) < most:
                found.add((one.source, key))
                seen[key] = seen.get(key, 0) + bool(_counted(row).kept)
    return found


def _same(taught: _Taught, name: str, now: Mapping[str, str]) -> bool:
    """Whether a feature means today what it meant then."""
    return name in now and taught.then.get(name) == now[name]


def _by_source(table: pa.Table) -> dict[Source, list[Row]]:
    found: dict[Source, list[Row]] = {}
    for row in table.to_pylist():
        # Lakes made before lack these.
        row |= {"kind": row.get("kind") or "number", "relations": row.get("relations"), "others": row.get("others") or 0}
        found.setdefault((row["decision_id"], row["p_extracted_at"]), []).append(row)
    return found


def _taught(
    known: Sequence[Decision], events: Sequence[BaselineEvent], sources: Collection[Source], version: int
) -> list[_Taught]:
    """Decisions that teach, and seeds, since the last reset. A window that stood accepted when it was seeded, or has been
    accepted since, has taken the place of its seed for good.
    """
    resets = [place for place, event in enumerate(events) if event.kind == "reset"]
    since = events[resets[-1]].after if resets else -1
    numbers, by_id, read = ledger.taught_at(known, version), {d.decision_id: d for d in known}, {}
    found = []
    for event in events[resets[-1] + 1 if resets else 0 :]:
        if event.kind == "seed":
            then, accepted = meanings(event.extra["ruleset"]), {start for start, _ in ledger.accepted(known, event.after)}
            accepted |= {d.p_extracted_at for d in known if d.accepted and event.after < d.number <= version}
            windows = sorted(window for source, window in sources if source == event.seed_id)
            found += [_Taught(event.after, True, (event.seed_id, w), then) for w in windows if w not in accepted]
    for decision_id in ledger.teaching(known, version):
        decision = by_id[decision_id]
        number, window = numbers.get(decision.batch, decision.number), decision.p_extracted_at
        if number > since and window is not None:
            if decision.ruleset not in read:
                read[decision.ruleset] = meanings(decision.ruleset)
            found.append(_Taught(number, False, (decision_id, window), read[decision.ruleset]))
    # A seed comes after the decision that was the last one then.
    return sorted(found, key=lambda taught: (taught.number, taught.seeded))


def _entries(
    spec: TableSpec,
    taught: Iterable[_Taught],
    rows: Mapping[Source, Sequence[Row]],
    whole: Collection[tuple[Source, Key]] | None = None,
) -> list[Entry]:
    now = meanings(spec.ruleset())
    found = (_entry(one, rows.get(one.source, ()), now, whole) for one in taught)
    return [entry for entry in found if entry]


def _entry(
    taught: _Taught, rows: Sequence[Row], now: Mapping[str, str], whole: Collection[tuple[Source, Key]] | None
) -> Entry | None:
    """What still means the same; None where that is nothing."""

    def same(one: Measured) -> bool:
        names = one.features if isinstance(one, Relations) else (one.feature,)
        return all(_same(taught, name, now) for name in names)

    every = [_measured(row, whole is None or (taught.source, _key(row)) in whole) for row in rows]
    kept = tuple(one for one in every if same(one))
    if not kept:
        return None
    changed = {one.key for one in every} - {one.key for one in kept}
    statistics = statistics_from_dict(
        {"statistics": json.loads(next((r["statistics"] for r in rows if "statistics" in r), "[]"))}
    )
    # A stratum may have statistics and no row; then its feature's meaning decides.
    left = {k: s for k, s in statistics.items() if k not in changed and taught.then.get(k[0]) == now.get(k[0])}
    return Entry(taught.source[1], taught.number, kept, left, taught.seeded)


def _key(row: Row) -> Key:
    return row["feature"], row["stratum"]


def _measured(row: Row, whole: bool) -> Measured:
    if row["relations"]:
        return Relations.from_dict(json.loads(row["relations"]))
    if not whole:
        return _counted(row)
    given = {name: row[name] for name in Profile.__dataclass_fields__ if row.get(name) is not None}
    if "counts" in given:
        given["counts"] = tuple((value, int(rows)) for value, rows in json.loads(given["counts"]))
    return Profile(**{"stratum": None, **given})


def _counted(row: Row) -> OldProfile:
    names = ("feature", "stratum", "kind", "rows", "nulls", "nans", "infinities", "others")
    return OldProfile(**{name: row[name] for name in names})
