"""Baseline and history of a stream: of windows by the thousand a day, one of each slot of time.

Belongs here: keeping the fold of those windows up to date. Does not: the fold itself (baseline_state), the slots (thinning).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.contracts.stream_drift import StreamDriftSpec
from lakehouse_assets.decisions.drift.baseline import Shape
from lakehouse_assets.decisions.drift.baseline_state import BaselineState, needed_windows
from lakehouse_assets.decisions.drift.profiles import Key
from lakehouse_assets.decisions.drift.relations import Measurement
from lakehouse_assets.decisions.drift.statistic_history import Statistics
from lakehouse_assets.decisions.drift.thinning import Thinning
from lakehouse_assets.decisions.drift.window_rate import WindowRate


class StreamBaselineState(BaselineState):
    """The fold of the windows that have a slot (`Thinning`), and the number of windows a week (`WindowRate`).

    A window that was accepted with a warning of drift does not join: a stream has others. ``joined``: the windows that have
    joined before, in that order, whatever became of them; ``decided``: those that were decided.
    """

    spec: StreamDriftSpec

    def __init__(
        self,
        spec: StreamDriftSpec,
        reference: Mapping[Key, Shape] | None = None,
        joined: Iterable[datetime] = (),
        decided: Iterable[datetime] = (),
    ) -> None:
        super().__init__(spec, reference)
        self._thinning, self._rate = Thinning.of(spec, joined), WindowRate(decided)
        self._chosen = self.choose_windows()

    def start_with(self, thinning: Thinning, rate: WindowRate) -> None:
        """Have these slots and this rate, as of the windows that have joined and were decided."""
        self._thinning, self._rate = thinning, rate
        self._chosen = self.choose_windows()

    def choose_windows(self) -> list[datetime]:
        """Return the windows whose measurements the state is made of, in the order of joining."""
        return self._thinning.newest(needed_windows(self.spec))

    def count(self, window: Any) -> None:
        """Count a window that was decided."""
        self._rate.add(window)

    def spec_at(self, window: Any) -> DriftSpec:
        """Return `drift:` with the levels of this window."""
        return self.spec.at_rate(self._rate.windows_per_week(window))

    def learn(
        self, window: Any, measurements: Sequence[Measurement], statistics: Statistics, *, doubtful: bool = False
    ) -> None:
        """Add an accepted window, if it has a slot. Raises SketchError as `Baseline.add`."""
        if doubtful:
            return
        self._thinning.add(window)
        chosen = self.choose_windows()
        if chosen != self._chosen and chosen[: len(self._chosen)] != self._chosen:
            # Slots have become longer, or the oldest have left.
            self._keep(set(chosen))
        self._chosen = chosen
        if window in chosen:
            super().learn(window, measurements, statistics)

    def hold(self, state: BaselineState) -> None:
        """Be made of what a state of the chosen windows is, which has learnt them in the order of the decisions that are
        current; it is not used by itself any more.
        """
        vars(self).update(vars(state))

    def _keep(self, windows: set[datetime]) -> None:
        state = BaselineState(self.spec, self.baseline.reference)
        for entry in self._entries:
            if entry.window in windows:
                state.learn(entry.window, entry.measurements, entry.statistics)
        self.hold(state)
