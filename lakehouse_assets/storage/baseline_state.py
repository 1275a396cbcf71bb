"""A version of a table's baseline, from the rows of `baseline/<table>`: which windows it is made of, and its state.

Belongs here: rows → baseline state, reading as few of them as possible. Does not: rows → windows (baseline_rows), a stream's
baseline (stream_baseline), writing rows (baseline), or judging by it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.drift import SLICES, DriftRules, DriftSpec, feature_meanings
from lakehouse_assets.contracts.stream_drift import StreamDriftSpec
from lakehouse_assets.decisions.drift.baseline import Shape
from lakehouse_assets.decisions.drift.baseline_state import BaselineState, needed_windows
from lakehouse_assets.decisions.drift.doubtful_windows import DoubtfulWindows
from lakehouse_assets.decisions.drift.method import METHOD
from lakehouse_assets.decisions.drift.profiles import Key
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.baseline import BaselineEvent, Entry, baseline_events
from lakehouse_assets.storage.baseline_counts import BaselineCounts, Measured, WholeRows
from lakehouse_assets.storage.baseline_rows import (
    BaselineWindow,
    Row,
    Source,
    group_by_source,
    list_windows,
    make_entries,
    read_counts,
    row_key,
)
from lakehouse_assets.storage.delta_dataset import read_rows
from lakehouse_assets.storage.kept_baselines import fold_windows
from lakehouse_assets.storage.stream_baseline import read_stream_state

NOTHING: Measured = Counter()


def read_baseline(
    settings: Settings,
    spec: DriftRules,
    decisions: Sequence[Decision],
    version: int,
    spare: int = 1,
    *,
    seeds: bool = True,
    method: int = METHOD,
) -> BaselineState:
    """The state after decision number ``version``, with all requests up to then (pin, unpin, reset, seed). No JVM; reads the
    counts of every accepted window, and the distributions of the newest (`needed_windows`).

    A feature whose meaning has changed since (`contracts.drift.feature_meanings`) is learnt anew: its earlier measurements are
    left out. ``spare``: so many windows can be forgotten, and the state is still right. ``seeds``: whether seeded windows
    count. ``method``: the version of the method; a replay takes it from the record.
    Raises ConfigError for a table without `drift:`.
    """
    drift = spec.drift_in_units
    if drift is None:
        raise ConfigError(f"{spec.name} declares no drift: it has no baseline")
    events = [event for event in baseline_events(settings, spec.name, version) if seeds or event.kind != "seed"]
    path = settings.path("baseline", spec.name)
    if isinstance(drift, StreamDriftSpec):
        learn = partial(read_stream_state, path, spec, drift, decisions)
    else:
        most = needed_windows(drift, method) + spare
        is_short = len(decisions) <= most and not any(event.kind == "seed" for event in events)
        rows: BaselineCounts | WholeRows
        if is_short:
            rows = WholeRows(group_by_source(delta.read_arrow(path)) if decisions or events else {})
        else:
            rows = BaselineCounts(path, spec.name)
        learn = partial(_fold_rows, path, spec, drift, decisions, rows, None if is_short else most, method)
    reference: Mapping[Key, Shape] = {}
    pins = [index for index, event in enumerate(events) if event.kind in ("pin", "unpin")]
    if pins and events[pins[-1]].kind == "pin":
        # As it was then: a window that was replaced since is still in what a person looked at.
        pinned = learn(events[: pins[-1]], events[pins[-1]].after)
        pinned.pin()
        reference = pinned.baseline.reference
    return learn(events, version, reference)


def _fold_rows(
    path: str,
    spec: DriftRules,
    drift: DriftSpec,
    decisions: Sequence[Decision],
    rows: BaselineCounts | WholeRows,
    most: int | None,
    method: int,
    events: Sequence[BaselineEvent],
    version: int,
    reference: Mapping[Key, Shape] | None = None,
) -> BaselineState:
    """The state by every window. ``most``: so many of the newest are read with distributions; None: ``rows`` have them."""
    windows = list_windows(decisions, events, rows.by_source, version)

    def learn(state: BaselineState, some: Sequence[BaselineWindow]) -> None:
        own = rows.rows_of([window.source for window in some])
        read, complete = (own, None) if most is None or not some else _read_distributions(path, spec, some, own, most)
        for entry in make_entries(spec, some, read, complete):
            state.learn(entry.window, entry.measured, entry.statistics, doubtful=entry.doubtful)

    requests = [(event.kind, event.after, event.at) for event in events]
    meaning = (delta.table_id(path), drift, spec.ruleset(), most, method, requests)
    measured = [rows.by_source.get(window.source, NOTHING) for window in windows]
    start = partial(BaselineState, drift, method=method)
    state = fold_windows((path, bool(reference)), meaning, windows, measured, start, learn)
    state.pin(reference or {})  # it follows from other windows, whose rows may be lost and come back as well
    return state


def read_entries(settings: Settings, spec: DriftRules, decisions: Sequence[Decision], version: int) -> list[Entry]:
    """The windows of a version of the baseline, with their distributions, in the order in which they were learnt. No JVM."""
    events = baseline_events(settings, spec.name, version)
    rows = group_by_source(delta.read_arrow(settings.path("baseline", spec.name)))
    return make_entries(spec, list_windows(decisions, events, rows, version), rows)


def _read_distributions(
    path: str, spec: DriftRules, windows: Sequence[BaselineWindow], counts: Mapping[Source, Sequence[Row]], most: int
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
    complete = group_by_source(read_rows(delta.open_dataset(path, bounds=["decision_number"]), None, chosen))
    rows = {}
    for source, counted in counts.items():
        by_key = {row_key(row): row for row in complete.get(source, ())}
        rows[source] = [by_key[row_key(row)] if (source, row_key(row)) in needed else row for row in counted]
    return rows, needed


def _choose_needed(
    windows: Sequence[BaselineWindow], rows: Mapping[Source, Sequence[Row]], spec: DriftRules, most: int
) -> set[tuple[Source, Key]]:
    """Return the newest windows with values of each feature and stratum, in the meaning that it has now."""
    now = feature_meanings(spec.ruleset())
    needed: set[tuple[Source, Key]] = set()
    counts: dict[Key, int] = {}
    # What does not join takes no one's place.
    doubtful: DoubtfulWindows[BaselineWindow] = DoubtfulWindows(spec.drift.warn_from if spec.drift else 0)
    joined = {each.source for window in windows for each in doubtful.join(window, doubtful=window.doubtful)}
    for window in reversed(windows):
        for row in rows.get(window.source, ()):
            key = row_key(row)
            means_the_same = key[0] == SLICES or window.means_the_same(key[0], now)
            if means_the_same and row["relations"] is None and counts.get(key, 0) < most:
                needed.add((window.source, key))
                has_values = key[0] == SLICES or read_counts(row).valid
                counts[key] = counts.get(key, 0) + bool(window.source in joined and has_values)
    return needed
