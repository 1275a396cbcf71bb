"""A version of a stream's baseline: the few windows that it holds, of thousands a day.

Belongs here: choosing them from the decisions, and reading only their rows. Does not: the slots (decisions/drift/thinning).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

from lakehouse_assets.contracts.decision import ACCEPTED, Decision
from lakehouse_assets.contracts.drift import DriftRules
from lakehouse_assets.contracts.stream_drift import StreamDriftSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decision_log import log_of
from lakehouse_assets.decisions.drift.baseline import Shape
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.doubtful_windows import is_doubtful
from lakehouse_assets.decisions.drift.profiles import Key
from lakehouse_assets.decisions.drift.stream_baseline import StreamBaselineState
from lakehouse_assets.decisions.drift.thinning import Thinning
from lakehouse_assets.decisions.drift.window_rate import WindowRate
from lakehouse_assets.decisions.growing_map import GrowingMap
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.baseline import BaselineEvent
from lakehouse_assets.storage.baseline_rows import (
    BaselineWindow,
    Row,
    Source,
    group_by_source,
    list_windows,
    make_entries,
)
from lakehouse_assets.storage.delta_files import TableFiles
from lakehouse_assets.storage.kept_baselines import fold_windows
from lakehouse_assets.storage.newest_values import NewestValues


def read_stream_state(
    path: str,
    spec: DriftRules,
    drift: StreamDriftSpec,
    decisions: Sequence[Decision],
    events: Sequence[BaselineEvent],
    version: int,
    reference: Mapping[Key, Shape] | None = None,
) -> StreamBaselineState:
    """The state after decision number ``version``. Reads the rows of the windows that it is made of, but for those in a state
    that this process keeps. ``path``: of all rows.
    """
    seeds = _read_seeds(path, events)
    state = StreamBaselineState(drift, reference)
    state.start_with(_thin_out(path, drift, decisions, events, seeds, version), _rate_of(decisions, version))
    chosen = set(state.choose_windows())
    # The decisions on one window say what became of it.
    own = sorted(chain(*ledger.of_windows(decisions, chosen).values()), key=lambda d: (d.number, d.superseded_by is not None))
    windows = [w for w in list_windows(own, events, seeds, version) if w.source[1] in chosen and not w.doubtful]

    def learn(state: BaselineState, some: Sequence[BaselineWindow]) -> None:
        for entry in make_entries(spec, some, _read_rows(path, {window.source for window in some})):
            state.learn(entry.window, entry.measured, entry.statistics)

    rows = TableFiles(path).rows_by_decision()
    requests = [(event.kind, event.after, event.at) for event in events]
    meaning = (delta.table_id(path), drift, spec.ruleset(), requests)
    measured = [rows.get(window.source[0], 0) for window in windows]
    folded = fold_windows((path, bool(reference)), meaning, windows, measured, partial(BaselineState, drift), learn)
    # What was pinned follows from other windows, whose rows may be lost and come back as well.
    folded.pin(reference or {})
    state.hold(folded)
    return state


def _list_joined(
    decisions: Iterable[Decision], events: Sequence[BaselineEvent], seeds: Collection[Source], version: int
) -> list[datetime]:
    """Every window that has joined since the last reset, once, in order, whatever became of it."""
    resets = [index for index, event in enumerate(events) if event.kind == "reset"]
    since = _number_of_reset(events)
    joined = [
        (decision.number, False, decision.p_extracted_at)
        for decision in decisions
        if since < decision.number <= version and decision.p_extracted_at and _has_joined(decision)
    ]
    # No decision may lie between a seed and the reset that forgot it.
    current = events[resets[-1] + 1 :] if resets else events
    after = {event.seed_id: event.after for event in current if event.kind == "seed"}
    joined += [(after[source], True, start) for source, start in seeds if source in after]
    return list(dict.fromkeys(start for _, _, start in sorted(joined)))


def _number_of_reset(events: Sequence[BaselineEvent]) -> int:
    """Return the number of the decision that the last reset came after; -1 without any."""
    return next((event.after for event in reversed(events) if event.kind == "reset"), -1)


@dataclass(frozen=True)
class _Thinned:
    """The slots of the windows that have joined by the decision ``number``: by these windows, for these requests."""

    requests: Any
    by_window: GrowingMap[datetime, tuple[Decision, ...]]
    number: int
    thinning: Thinning


_thinned = NewestValues[_Thinned](32, lambda _: 1)


def _thin_out(
    path: str,
    drift: StreamDriftSpec,
    decisions: Sequence[Decision],
    events: Sequence[BaselineEvent],
    seeds: Collection[Source],
    version: int,
) -> Thinning:
    """Return the slots of the windows that have joined. Those that this process has thinned out before are not again, if
    nothing was decided on them since.
    """
    log = log_of(decisions)
    if version < log.sums.last_number:
        return Thinning.of(drift, _list_joined(decisions, events, seeds, version))
    requests = (drift, [(event.kind, event.after, event.at) for event in events], sorted(seeds))
    name, by_window, last = (path, len(events)), log.sums.by_window, log.sums.last_number
    before = _thinned.get(name)
    is_same = before is not None and before.requests == requests
    new = _find_newly_joined(before, by_window, _number_of_reset(events)) if before is not None and is_same else None
    if before is None or new is None:
        thinning = Thinning.of(drift, _list_joined(decisions, events, seeds, version))
    else:
        thinning = before.thinning.copy()
        for start in new:
            thinning.add(start)
    _thinned.put(name, _Thinned(requests, by_window, last, thinning.copy()))
    return thinning


def _find_newly_joined(
    before: _Thinned, by_window: GrowingMap[datetime, tuple[Decision, ...]], reset: int
) -> list[datetime] | None:
    """Return the windows that have joined since, in order; None where an earlier one may have joined otherwise. ``reset``: only
    later decisions join.
    """
    joined: dict[int, datetime] = {}
    for start in by_window.find_changed(before.by_window):
        then, now = (
            min((d.number for d in each.get(start, ()) if d.number > reset and _has_joined(d)), default=None)
            for each in (before.by_window, by_window)
        )
        if then == now:
            continue
        if then is not None or now is None or now <= before.number:
            return None
        joined[now] = start
    return [start for _, start in sorted(joined.items())]


def _rate_of(decisions: Sequence[Decision], version: int) -> WindowRate:
    """Return how many windows were decided."""
    log = log_of(decisions)
    if version >= log.sums.last_number:
        return WindowRate.of_sorted(log.sums.starts)
    return WindowRate(d.p_extracted_at for d in decisions if d.number <= version and d.p_extracted_at)


def _has_joined(decision: Decision) -> bool:
    is_accepted = decision.verdict in ACCEPTED and decision.superseded_by is None
    if not (is_accepted and decision.teaches and decision.kind != "discarded"):
        return False
    return not (decision.reasons and is_doubtful(decision))


def _read_seeds(path: str, events: Sequence[BaselineEvent]) -> set[Source]:
    ids = [event.seed_id for event in events if event.kind == "seed"]
    if not ids:
        return set()
    rows = delta.read_arrow(path, ["decision_id", "p_extracted_at"], [("decision_id", "in", ids)]).to_pylist()
    return {(row["decision_id"], row["p_extracted_at"]) for row in rows}


def _read_rows(path: str, sources: Collection[Source]) -> dict[Source, list[Row]]:
    if not sources:
        return {}
    starts = sorted({start for _, start in sources})
    ids = sorted({source for source, _ in sources})
    filters = [("p_extracted_at", ">=", starts[0]), ("p_extracted_at", "<=", starts[-1])]
    filters += [("p_extracted_at", "in", starts), ("decision_id", "in", ids)]
    rows = group_by_source(delta.read_arrow(path, None, filters))
    return {source: own for source, own in rows.items() if source in sources}
