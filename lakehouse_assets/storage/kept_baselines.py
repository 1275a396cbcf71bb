"""Folded baselines that a process keeps: its next run learns what is new, and does not fold the past again.

Belongs here: what is kept, and when it is right no more. Does not: reading windows, or folding them (baseline_state).
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.state_copies import copy_state, count_bytes
from lakehouse_assets.storage.baseline_rows import BaselineWindow
from lakehouse_assets.storage.newest_values import NewestValues

MOST_BYTES = 64 << 20  # of all together; the newest one stays, whatever its size
Learn = Callable[[BaselineState, Sequence[BaselineWindow]], None]


@dataclass(frozen=True)
class _Fold:
    meaning: Any
    windows: Sequence[BaselineWindow]
    measured: Sequence[Any]
    state: BaselineState


_folds = NewestValues[_Fold](MOST_BYTES, lambda fold: count_bytes(fold.state))
_lock = Lock()


def fold_windows(
    name: Hashable,
    meaning: Any,
    windows: Sequence[BaselineWindow],
    measured: Sequence[Any],
    start: Callable[[], BaselineState],
    learn: Learn,
) -> BaselineState:
    """Return the state of these windows, in their order: for the caller to change. ``name``: under which it is kept.
    ``meaning``: what it follows from besides its windows. ``measured``: of each window, what its rows measure: lost rows may
    come back. ``start``: gives a state without a window.
    """
    windows, measured = [*windows], [*measured]
    with _lock:
        past = _folds.get(name)
        if past is None or past.meaning != meaning or not _begins_so(past, windows, measured):
            past = _Fold(meaning, (), (), start())
        state = copy_state(past.state)
        learn(state, windows[len(past.windows) :])
        _folds.put(name, _Fold(meaning, windows, measured, state))
        return copy_state(state)


def _begins_so(past: _Fold, windows: Sequence[BaselineWindow], measured: Sequence[Any]) -> bool:
    count = len(past.windows)
    return past.windows == windows[:count] and past.measured == measured[:count]
