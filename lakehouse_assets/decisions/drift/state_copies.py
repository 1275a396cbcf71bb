"""Copies of a baseline's state, so that one fold of the past serves several decisions.

Belongs here: what of a state can change, and so is copied. Does not: what a state is (baseline_state), or keeping it (storage).
"""

import copy
from typing import Any

import numpy as np

from lakehouse_assets.decisions.drift.baseline import Baseline, NewestSum
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.doubtful_windows import DoubtfulWindows
from lakehouse_assets.decisions.drift.statistic_history import StatisticHistory

# Distributions, measurements and entries never change: copies share them.
SAMPLED = 20  # windows
CELL = 100  # bytes of a value in a tuple
CHANGING = (BaselineState, Baseline, NewestSum, StatisticHistory, DoubtfulWindows)


def copy_state(state: BaselineState) -> BaselineState:
    """Return a state that learns and forgets by itself."""
    own = _copy(state)
    own._without_last = None
    return own


def count_bytes(state: BaselineState) -> int:
    """Return about how many bytes the measurements of a state take, which is most of it: by some windows of all its past."""
    count = len(state._entries)
    sample = state._entries[:: max(1, count // SAMPLED)]
    parts = (part for entry in sample for each in entry.measurements for part in vars(each).values())
    sizes = [len(part) * (1 if isinstance(part, bytes | str) else CELL) for part in parts if hasattr(part, "__len__")]
    return sum(sizes) * count // max(1, len(sample))


def _copy(value: Any) -> Any:
    if isinstance(value, CHANGING):
        own = copy.copy(value)
        vars(own).update({name: _copy(part) for name, part in vars(value).items()})
        return own
    if isinstance(value, list):
        return list(value)
    if isinstance(value, dict):
        return {key: _copy(part) for key, part in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value
