"""Folded baselines that a process keeps: its next run learns what is new, and does not fold the past again.

Belongs here: what is kept, and when it is right no more. Does not: reading windows, or folding them (baseline_state).
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.state_copies import copy_state, count_bytes
from lakehouse_assets.storage.baseline_counts import Measured
from lakehouse_assets.storage.baseline_rows import BaselineWindow
from lakehouse_assets.storage.newest_values import NewestValues

MOST_BYTES = 64 << 20  # of all together; the newest one stays, whatever its size
# A window, and what its rows measure: lost rows may come back.
MeasuredWindow = tuple[BaselineWindow, Measured]
Learn = Callable[[BaselineState, Sequence[MeasuredWindow]], None]


@dataclass(frozen=True)
class _Fold:
    meaning: Any
    windows: Sequence[MeasuredWindow]
    state: BaselineState


_folds = NewestValues[_Fold](MOST_BYTES, lambda fold: count_bytes(fold.state))
_lock = Lock()


def fold_windows(
    name: Hashable, meaning: Any, windows: Sequence[MeasuredWindow], start: Callable[[], BaselineState], learn: Learn
) -> BaselineState:
    """Return the state of these windows, in their order: for the caller to change. ``name``: under which it is kept.
    ``meaning``: what it follows from besides its windows. ``start``: gives a state without a window.
    """
    with _lock:
        past = _folds.get(name)
        if past is None or past.meaning != meaning or [*past.windows] != [*windows[: len(past.windows)]]:
            past = _Fold(meaning, (), start())
        state = copy_state(past.state)
        learn(state, windows[len(past.windows) :])
        _folds.put(name, _Fold(meaning, tuple(windows), state))
        return copy_state(state)
