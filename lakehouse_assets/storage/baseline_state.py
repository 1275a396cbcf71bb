"""A version of a table's baseline, from the rows of `baseline/<table>`: which windows it is made of, and its state.

Belongs here: rows → baseline state, reading as few of them as possible. Does not: writing them (baseline), or judging by it.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import SLICES, DriftRules, feature_meanings
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.drift.baseline_state import BaselineState, needed_windows
from lakehouse_assets.decisions.drift.doubtful_windows import DoubtfulWindows, is_doubtful
from lakehouse_assets.decisions.drift.profiles import CountsProfile, Key, Profile
from lakehouse_assets.decisions.drift.pseudonyms import name_mask
from lakehouse_assets.decisions.drift.relations import Measurement, Relations
from lakehouse_assets.decisions.drift.slices import Slices
from lakehouse_assets.decisions.drift.verdict import read_statistics
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.baseline import BaselineEvent, Entry, baseline_events

Row = Mapping[str, Any]
Source = tuple[str, datetime]  # a decision's id, or a seed's, and the window
# The columns that are read of every accepted window: sketches and counted values are a thousand times larger.
COUNTS = ("p_extracted_at", "decision_id", "decision_number", "feature", "stratum", "kind", "relations")
COUNTS += ("rows", "nulls", "nans", "infinities", "others", "distinct", "texts")


class _Window(NamedTuple):
    """A window of the baseline: the number of its decision (or its seed's), its source, and what its features meant then."""

    number: int
    seeded: bool
    source: Source
    meanings: Mapping[str, str]
    doubtful: bool = False

    def means_the_same(self, feature: str, now: Mapping[str, str]) -> bool:
        """Whether a feature had its present meaning then."""
        return feature in now and self.meanings.get(feature) == now[feature]


def read_baseline(
    settings: Settings, spec: DriftRules, decisions: Sequence[Decision], version: int, spare: int = 1, *, seeds: bool = True
) -> BaselineState:
    """The state after decision number ``version``, with all requests up to then (pin, unpin, reset, seed). No JVM; reads the
    counts of every accepted window, and the distributions of the newest (`needed_windows`).

    A feature whose meaning has changed since (`contracts.drift.feature_meanings`) is learnt anew: its earlier measurements are
    left out. ``spare``: so many windows can be forgotten, and the state is still right. ``seeds``: whether seeded windows
    count.
    Raises ConfigError for a table without `drift:`.
    """
    drift = spec.drift_in_units
    if drift is None:
        raise ConfigError(f"{spec.name} declares no drift: it has no baseline")
    events = [event for event in baseline_events(settings, spec.name, version) if seeds or event.kind != "seed"]
    path, most = settings.path("baseline", spec.name), needed_windows(drift) + spare
    is_short = len(decisions) <= most and not any(event.kind == "seed" for event in events)
    rows = _group_by_source(_read_rows(path, is_short)) if decisions or events else {}

    def learn(past_events: Sequence[BaselineEvent], at: int, state: BaselineState) -> BaselineState:
        windows = _list_windows(decisions, past_events, rows, at)
        read, complete = (rows, None) if is_short else _read_distributions(path, spec, windows, rows, most)
        for entry in _make_entries(spec, windows, read, complete):
            state.learn(entry.window, entry.measured, entry.statistics, doubtful=entry.doubtful)
        return state

    state = BaselineState(drift)
    pins = [index for index, event in enumerate(events) if event.kind in ("pin", "unpin")]
    if pins and events[pins[-1]].kind == "pin":
        # As it was then: a window that was replaced since is still in what a person looked at.
        pinned = learn(events[: pins[-1]], events[pins[-1]].after, BaselineState(drift))
        pinned.pin()
        state.pin(pinned.baseline.reference)
    return learn(events, version, state)


def read_entries(settings: Settings, spec: DriftRules, decisions: Sequence[Decision], version: int) -> list[Entry]:
    """The windows of a version of the baseline, with their distributions, in the order in which they were learnt. No JVM."""
    events = baseline_events(settings, spec.name, version)
    rows = _group_by_source(delta.read_arrow(settings.path("baseline", spec.name)))
    return _make_entries(spec, _list_windows(decisions, events, rows, version), rows)


def _read_rows(path: str, with_distributions: bool) -> pa.Table:
    """Every row, or the `COUNTS` of every row; a table that was written before a column existed has no such column."""
    if with_distributions or not delta.exists(path):
        return delta.read_arrow(path)
    dataset = delta.open_dataset(path)
    return dataset.to_table(columns=[name for name in COUNTS if name in dataset.schema.names])


def _read_distributions(
    path: str, spec: DriftRules, windows: Sequence[_Window], counts: Mapping[Source, Sequence[Row]], most: int
) -> tuple[dict[Source, list[Row]], set[tuple[Source, Key]]]:
    """The rows of ``counts``, with their distributions where the baseline may still hold them; and which those are."""
    import pyarrow.compute as pc  # noqa: PLC0415 (a fifth of a second, for a long history)

    needed = _choose_needed(windows, counts, spec, most)
    numbers = {w.source: row["decision_number"] for w in windows for row in counts.get(w.source, ())}
    recent = {w.source for w in windows[-most:]}
    chosen = pc.field("decision_number") >= min((numbers[s] for s in recent if s in numbers), default=0)
    if rare := {key for source, key in needed if source not in recent}:
        # Few windows have these features and strata, so that older ones are still in the baseline.
        strata = [stratum for _, stratum in rare]
        of_key = pc.field("stratum").isin(pa.array(strata, pa.string()))
        of_key = of_key | pc.field("stratum").is_null() if None in strata else of_key
        oldest = min(numbers[source] for source, _ in needed)
        of_feature = pc.field("feature").isin(sorted({feature for feature, _ in rare}))
        chosen = chosen | ((pc.field("decision_number") >= oldest) & of_feature & of_key)
    complete = _group_by_source(delta.open_dataset(path, bounds=["decision_number"]).to_table(filter=chosen))
    rows = {}
    for source, counted in counts.items():
        by_key = {_key(row): row for row in complete.get(source, ())}
        rows[source] = [by_key[_key(row)] if (source, _key(row)) in needed else row for row in counted]
    return rows, needed


def _choose_needed(
    windows: Sequence[_Window], rows: Mapping[Source, Sequence[Row]], spec: DriftRules, most: int
) -> set[tuple[Source, Key]]:
    """Return the newest windows with values of each feature and stratum, in the meaning that it has now."""
    now = feature_meanings(spec.ruleset())
    needed: set[tuple[Source, Key]] = set()
    counts: dict[Key, int] = {}
    # What does not join takes no one's place.
    doubtful: DoubtfulWindows[_Window] = DoubtfulWindows(spec.drift.warn_from if spec.drift else 0)
    joined = {each.source for window in windows for each in doubtful.join(window, doubtful=window.doubtful)}
    for window in reversed(windows):
        for row in rows.get(window.source, ()):
            key = _key(row)
            means_the_same = key[0] == SLICES or window.means_the_same(key[0], now)
            if means_the_same and row["relations"] is None and counts.get(key, 0) < most:
                needed.add((window.source, key))
                has_values = key[0] == SLICES or _read_counts(row).comparable
                counts[key] = counts.get(key, 0) + bool(window.source in joined and has_values)
    return needed


def _group_by_source(table: pa.Table) -> dict[Source, list[Row]]:
    rows: dict[Source, list[Row]] = {}
    for row in table.to_pylist():
        rows.setdefault((row["decision_id"], row["p_extracted_at"]), []).append(row)
    return rows


def _list_windows(
    decisions: Sequence[Decision], events: Sequence[BaselineEvent], sources: Collection[Source], version: int
) -> list[_Window]:
    """The windows that decisions and seeds have added since the last reset. A window that was accepted when it was seeded, or
    has been accepted since, has replaced its seed for good.
    """
    resets = [index for index, event in enumerate(events) if event.kind == "reset"]
    since = events[resets[-1]].after if resets else -1
    numbers, by_id = ledger.baseline_numbers(decisions, version), {d.decision_id: d for d in decisions}
    windows = []
    for event in events[resets[-1] + 1 if resets else 0 :]:
        if event.kind == "seed":
            meanings = feature_meanings(event.extra["ruleset"])
            accepted = {start for start, _ in ledger.accepted_decisions(decisions, event.after)}
            accepted |= {d.p_extracted_at for d in decisions if d.accepted and event.after < d.number <= version}
            starts = sorted(start for source, start in sources if source == event.seed_id and start not in accepted)
            windows += [_Window(event.after, True, (event.seed_id, start), meanings) for start in starts]
    for decision_id in ledger.baseline_decisions(decisions, version):
        decision = by_id[decision_id]
        number, start = numbers.get(decision.batch, decision.number), decision.p_extracted_at
        if number > since and start is not None:
            meanings = feature_meanings(decision.ruleset)
            windows.append(_Window(number, False, (decision_id, start), meanings, is_doubtful(decision)))
    # A seed comes after the decision that was the last one then.
    return sorted(windows, key=lambda window: (window.number, window.seeded))


def _make_entries(
    spec: DriftRules,
    windows: Iterable[_Window],
    rows: Mapping[Source, Sequence[Row]],
    complete: Collection[tuple[Source, Key]] | None = None,
) -> list[Entry]:
    """``complete``: the rows that were read with their distributions; None: all. Names that were recorded before the table had
    personal columns are masked too.
    """
    now, mask = feature_meanings(spec.ruleset()), name_mask(spec)
    entries = []
    for window in windows:
        own = rows.get(window.source, ())
        read = (_read_row(row, complete is None or (window.source, _key(row)) in complete) for row in own)
        every = [one for one in read if one is not None]
        measured = tuple(part for one in every if (part := _keep_meanings(one, window, now)) is not None)
        if not measured:
            continue
        changed = {one.key for one in every} - {one.key for one in measured}
        stored = next((row["statistics"] for row in own if "statistics" in row), "[]")
        # A stratum may have statistics and no row; then its feature's meaning decides.
        statistics = {
            key: values
            for key, values in read_statistics({"statistics": json.loads(stored)}).items()
            if key not in changed and window.meanings.get(key[0]) == now.get(key[0])
        }
        if mask:
            measured = tuple(map(mask.measurement, measured))
            statistics = {mask.key(key): values for key, values in statistics.items()}
        entries.append(Entry(window.source[1], window.number, measured, statistics, window.seeded, window.doubtful))
    return entries


def _keep_meanings(measurement: Measurement, window: _Window, now: Mapping[str, str]) -> Measurement | None:
    """The part of a measurement whose features had their present meaning then; None for nothing."""
    if isinstance(measurement, Slices):
        changed = {name for name in {*window.meanings, *now} if not window.means_the_same(name, now)}
        columns = {column for each in measurement.conditions for column, _ in each}
        return measurement.only(set(measurement.features) - changed, columns - changed)
    features = measurement.features if isinstance(measurement, Relations) else (measurement.feature,)
    return measurement if all(window.means_the_same(name, now) for name in features) else None


def _key(row: Row) -> Key:
    return row["feature"], row["stratum"]


def _read_row(row: Row, complete: bool) -> Measurement | None:
    """None for slices of a window that is too old for them."""
    if row["feature"] == SLICES:
        return Slices.from_dict(json.loads(row["counts"])) if complete else None
    if row["relations"]:
        return Relations.from_dict(json.loads(row["relations"]))
    if not complete:
        return _read_counts(row)
    values: dict[str, Any] = {name: row[name] for name in Profile.__dataclass_fields__ if name != "texts"}
    values["texts"] = _read_texts(row)
    if values["counts"] is not None:
        values["counts"] = tuple((value, int(rows)) for value, rows in json.loads(values["counts"]))
    return Profile(**values)


def _read_counts(row: Row) -> CountsProfile:
    names = ("feature", "stratum", "kind", "rows", "nulls", "nans", "infinities", "others", "distinct")
    return CountsProfile(**{name: row[name] for name in names}, texts=_read_texts(row))


def _read_texts(row: Row) -> tuple[float, ...] | None:
    # Tables that were written before texts were measured have no such column.
    return None if row.get("texts") is None else tuple(json.loads(row["texts"]))
