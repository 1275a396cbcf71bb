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

MOST_BYTES = 64 << 20
Learn = Callable[[BaselineState, Sequence[BaselineWindow]], None]


@dataclass(frozen=True)
class _Kept:
    meaning: Any
    windows: Sequence[BaselineWindow]
    state: BaselineState


_kept = NewestValues[_Kept](MOST_BYTES, lambda kept: count_bytes(kept.state))
_lock = Lock()


def fold_windows(
    name: Hashable, meaning: Any, windows: Sequence[BaselineWindow], start: Callable[[], BaselineState], learn: Learn
) -> BaselineState:
    """Return the state of these windows, in their order: for the caller to change. ``name``: under which it is kept.
    ``meaning``: what it follows from besides its windows. ``start``: gives a state without a window.
    """
    with _lock:
        kept = _kept.get(name)
        if kept is None or kept.meaning != meaning or [*kept.windows] != [*windows[: len(kept.windows)]]:
            kept = _Kept(meaning, (), start())
        state = copy_state(kept.state)
        learn(state, windows[len(kept.windows) :])
        _kept.put(name, _Kept(meaning, tuple(windows), state))
        return copy_state(state)
