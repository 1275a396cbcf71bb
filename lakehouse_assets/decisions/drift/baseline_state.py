"""Baseline and history of one table, kept in step, as windows are accepted, replaced and forgotten.

Belongs here: the fold of accepted windows. Does not: merging distributions (baseline), judging, or storing.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from lakehouse_assets.contracts.drift import VOLUME, DriftSpec
from lakehouse_assets.contracts.stream_drift import StreamDriftSpec
from lakehouse_assets.decisions.drift.baseline import Baseline, Shape, block_size, read_shape
from lakehouse_assets.decisions.drift.categories import Categories, compare_categories
from lakehouse_assets.decisions.drift.distances import Ecdf, compare_ecdfs
from lakehouse_assets.decisions.drift.doubtful_windows import DoubtfulWindows
from lakehouse_assets.decisions.drift.levels import compare_levels
from lakehouse_assets.decisions.drift.method import AFTER_TWO_WEEKS, METHOD
from lakehouse_assets.decisions.drift.p_values import missing_surprisal, volume_deviation
from lakehouse_assets.decisions.drift.profiles import Key, Profile
from lakehouse_assets.decisions.drift.relations import Measurement, Relations, compare_relations
from lakehouse_assets.decisions.drift.slices import Slices
from lakehouse_assets.decisions.drift.statistic_history import SIZE, StatisticHistory, Statistics

# Where there may be a season, the first windows are measured again when there are so many times `warn_from`, too: hours and
# weekdays have recurred by then.
AGAIN_AT = 5
# And once more where they are hours, or shorter: the mean of four days is not that of a week, nor is what was measured by it.
TWO_WEEKS, LONGEST_SPAN = 336, timedelta(days=28)
# So many windows are measured by a coarser baseline: a rank error of 1/32,768.
COARSE_STEPS = 16_384


def _moments(spec: DriftSpec, has_season: bool, method: int) -> list[int]:
    """The numbers of windows at which all of them are measured again."""
    moments = [spec.warn_from, AGAIN_AT * spec.warn_from] if has_season else [spec.warn_from]
    # A stream's windows are as far apart as its slots, and all of a baseline are there by then.
    is_late = has_season and method >= AFTER_TWO_WEEKS and not isinstance(spec, StreamDriftSpec)
    return [*moments, TWO_WEEKS] if is_late and moments[-1] < TWO_WEEKS <= spec.remember else moments


def _are_hours(windows: Iterable[Any]) -> bool:
    """Whether windows are hours, or shorter, with gaps as of nights."""
    starts = [window for window in windows if isinstance(window, datetime)]
    return bool(starts) and max(starts) - min(starts) <= LONGEST_SPAN


def needed_windows(spec: DriftSpec, method: int = METHOD) -> int:
    """How many of the newest windows of a feature and stratum must be read with their distributions, for the state of all:
    those that its baseline may hold, and before them those that are measured again when they are the first.
    """
    has_seasons = any(spec.season_of(name) != "none" for name in (VOLUME, *(feature.name for feature in spec.features)))
    own = spec.remember + 2 * block_size(spec.remember)
    # The first windows are of interest as long as one of them is remembered.
    return own + min(_moments(spec, has_seasons, method)[-1], own)


def count_values(measurement: Measurement) -> int:
    """How many values (of relations and slices: rows) a measurement is of."""
    return measurement.valid if isinstance(measurement, Profile) else measurement.rows


class _Entry(NamedTuple):
    """An accepted window, whether it has joined or not."""

    window: Any
    measurements: tuple[Measurement, ...]
    statistics: Statistics
    doubtful: bool


class BaselineState:
    """Baseline and history of one table: the fold of its accepted windows in the order of their decisions.

    A window's statistics are those of its decision, against the baseline of that time. The first ``spec.warn_from`` windows of
    a feature and stratum were compared with next to nothing: their distances would mask every fault for years. So once there
    are that many, each of them is measured again against the others, and all up to then once more (`AGAIN_AT`, `TWO_WEEKS`).
    Doubtful windows join only if they stay alone (`DoubtfulWindows`). ``method``: the version by which windows are judged.
    """

    def __init__(self, spec: DriftSpec, reference: Mapping[Key, Shape] | None = None, method: int = METHOD) -> None:
        self.spec, self.method = spec, method
        self.baseline = Baseline(spec.remember)
        self.history = StatisticHistory(spec.remember)
        self.baseline.pin(reference or {})
        self._entries: list[_Entry] = []
        self._doubtful: DoubtfulWindows[_Entry] = DoubtfulWindows(spec.warn_from)
        self._first: dict[Key, list[tuple[Any, Measurement]]] = {}
        self._first_counts: dict[Key, list[tuple[Any, int, int]]] = {}
        self._without_last: tuple[Any, BaselineState] | None = None

    def learn(
        self, window: Any, measurements: Sequence[Measurement], statistics: Statistics, *, doubtful: bool = False
    ) -> None:
        """Add an accepted window: its measurements, and its verdict's statistics. Raises SketchError as `Baseline.add`."""
        entry = _Entry(window, tuple(measurements), statistics, doubtful)
        self._without_last = None
        self._entries.append(entry)
        for joining in self._doubtful.join(entry, doubtful=doubtful):
            self._add(joining.window, joining.measurements, joining.statistics)

    def count(self, window: Any) -> None:
        """Count a window that was decided, whatever its verdict: of a stream, levels follow from their number."""

    def spec_at(self, window: Any) -> DriftSpec:
        """Return `drift:` with the levels by which this window is judged."""
        return self.spec

    @property
    def waiting(self) -> tuple[Any, ...]:
        """The newest windows, accepted with a warning, that have not joined."""
        return tuple(entry.window for entry in self._doubtful.waiting)

    def _add(self, window: Any, measurements: Sequence[Measurement], statistics: Statistics) -> None:
        slices = next((m for m in measurements if isinstance(m, Slices)), None)
        measurements = [m for m in measurements if not isinstance(m, Slices)]
        shapes = self.baseline.add(measurements)
        sizes = {m.key: {**statistics.get(m.key, {}), SIZE: float(count_values(m))} for m in measurements}
        self.history.add(window, {**statistics, **sizes}, slices)
        for measurement in measurements:
            if measurement.key in shapes:
                self._measure_again(window, measurement)
        counts = [(m.key, m.rows - m.valid, m.rows) for m in measurements if isinstance(m, Profile)]
        for key, missing, rows in [*counts, ((VOLUME, None), 0, self.baseline.volumes()[-1])]:
            self._learn_counts(window, key, missing, rows)

    def _measured_again_at(self, key: Key) -> list[int]:
        return _moments(self.spec, self.spec.season_of(key[0]) != "none", self.method)

    def _measure_again(self, window: Any, measurement: Measurement) -> None:
        key, moments = measurement.key, self._measured_again_at(measurement.key)
        if self.baseline.windows(key) == 1:
            self._first[key] = []  # the first one ever, or the first of another kind
        if (first := self._first.get(key)) is None:
            return
        first.append((window, measurement))
        if self._is_moment(first, moments):
            merged = self.baseline.shape(key)
            if len(first) in moments[2:] and isinstance(merged, Ecdf) and merged.values.size > 2 * COARSE_STEPS:
                merged = merged.thinned(COARSE_STEPS)
            for label, each in first:
                if (shape := read_shape(each)) is not None:
                    self.history.amend(label, key, _compare_within(shape, merged))
        if len(first) == moments[-1]:
            del self._first[key]

    @staticmethod
    def _is_moment(first: Sequence[tuple[Any, ...]], moments: Sequence[int]) -> bool:
        return len(first) in moments and (len(first) not in moments[2:] or _are_hours(each[0] for each in first))

    def _learn_counts(self, window: Any, key: Key, missing: int, rows: int) -> None:
        first, moments = self._first_counts.setdefault(key, []), self._measured_again_at(key)
        if len(first) >= moments[-1]:
            return
        first.append((window, missing, rows))
        if not self._is_moment(first, moments):
            return
        for index, (label, m, n) in enumerate(first):
            others = first[:index] + first[index + 1 :]
            if key == (VOLUME, None):
                again = {"volume": volume_deviation(n, [other[2] for other in others])}
            else:
                again = {"missing": missing_surprisal(m, n, [other[1:] for other in others])}
            self.history.amend(label, key, again)

    def pin(self, reference: Mapping[Key, Shape] | None = None) -> None:
        """Set the reference of the baseline: as it is now, or another's `Baseline.reference`."""
        self.baseline.pin(reference)
        self._without_last = None

    def forget(self, window: Any) -> None:
        """Remove a window, as if it had never been learnt."""
        if self._holds(window):
            self.__dict__.update(vars(self._without(window)))

    def without_window(self, window: Any) -> tuple[Baseline, StatisticHistory]:
        """Return the baseline and history of all windows but ``window``. They are no copies: do not change them."""
        state = self._without(window) if self._holds(window) else self
        return state.baseline, state.history

    def _holds(self, window: Any) -> bool:
        return any(entry.window == window for entry in self._entries)

    def _without(self, window: Any) -> "BaselineState":
        if self._without_last and self._without_last[0] == window:  # judged without it, and now replaced
            return self._without_last[1]
        # A person has looked at what was pinned: a window that is replaced later does not change it.
        state = BaselineState(self.spec, self.baseline.reference, self.method)
        for entry in self._entries:
            if entry.window != window:
                state.learn(entry.window, entry.measurements, entry.statistics, doubtful=entry.doubtful)
        self._without_last = window, state
        return state


def _compare_within(one: Shape, merged: Shape | None) -> dict[str, float]:
    """The statistics of one of the windows that ``merged`` is made of, against the others."""
    if isinstance(one, Ecdf) and isinstance(merged, Ecdf):
        levels = compare_levels(one, merged, batch_is_inside=True).statistics
        return compare_ecdfs(one, merged, batch_is_inside=True)._asdict() | levels
    if isinstance(one, Categories) and isinstance(merged, Categories):
        return dict(compare_categories(one, merged, batch_is_inside=True).statistics)
    if isinstance(one, Relations) and isinstance(merged, Relations):
        distance = compare_relations(one, merged.minus(one))
        return distance.statistics if distance else {}
    return {}
