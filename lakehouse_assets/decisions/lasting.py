"""Evidence over windows: a shift too small for any one window to show, that lasts and adds up.

Belongs here: sums over the last windows, ranked among all such sums of the past. Does not: single windows (drift).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.compared import FeatureResult
from lakehouse_assets.decisions.measured_history import Floats, History
from lakehouse_assets.decisions.ranks import largest, rank, standardized


@dataclass(frozen=True)
class Lasting:
    """``p_value``: the rank of the largest sum; ``mean``: the mean signed KS distance of the windows that are summed, beside
    what is usual, above 0 where values are higher; ``since``: the first of ``windows`` that are off to the same side without a
    break.
    """

    feature: str
    stratum: str | None
    p_value: float
    windows: int
    mean: float
    since: Any

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe: the window as text."""
        return {**asdict(self), "since": str(self.since)}


def lasting(results: Sequence[FeatureResult], history: History, spec: DriftSpec, window: Any = None) -> Lasting | None:
    """What adds up over the last windows, the one that is judged included; None where history is too short to say.

    Of each feature the signed KS distance, in deviations of its own history, summed over the last `lasting_over` windows in the
    order of time: a moving sum (Bauer and Hackl, 1978). Each sum is standardized by its own past, their maximum ranked
    among the past's maxima, as a window's score is: so that what is usual in this data, also from one window to the
    next, is what it is compared with. In the long run p is at most ``lasting_at`` in that share of the windows, and one
    episode takes several. ``window``: the judged one's label, by which the windows before it are found; without it, all
    are before.
    """
    results = [r for r in results if "signed" in r.statistics and not r.silent]
    needed = max(spec.warn_from, ceil(1 / spec.lasting_at - 1e-9) - 1) if spec.lasting_at else 0
    labels = list(history.windows)
    order = list(range(len(labels)))
    if window is not None:
        order = sorted((i for i in order if labels[i] < window), key=lambda i: labels[i])
    past = history.matrix([(r.key, "signed") for r in results])[order]
    known = [i for i in range(len(results)) if (~np.isnan(past[:, i])).sum() >= needed]
    if not needed or not known:
        return None
    results, past = [results[i] for i in known], past[:, known]
    now = np.array([r.statistics["signed"] for r in results])
    mean, spread = np.nanmean(past, axis=0), np.maximum(np.nanstd(past, axis=0), 1e-3)
    rows = (np.vstack([past, now]) - mean) / spread
    sums = np.hstack([_moving_sums(rows, length) for length in spec.lasting_over])
    scores = standardized(sums[:-1], sums[-1])
    at = int(np.nan_to_num(scores[-1], nan=-np.inf).argmax())
    nth, place = divmod(at, len(results))
    worst, length, column = results[place], spec.lasting_over[nth], rows[:, place]
    average = float(np.nanmean(column[-length:]) * spread[place])
    top = largest(scores)
    # Half the floor of the tail-weighted distance: in the middle, where KS is reached, the weight is two.
    p_value = rank(top[:-1], float(top[-1])) if abs(average) > spec.min_effect / 2 else 1.0
    times = [*(labels[i] for i in order), window]
    run = 1
    # Within the sum any window of that side is part of it; before it, one that is off by a deviation.
    while run < len(times) and column[-run - 1] * np.sign(average) >= (1e-9 if run < length else 1.0):
        run += 1
    return Lasting(*worst.key, p_value, run, round(average, 9), times[-run])


def _moving_sums(rows: Floats, length: int) -> Floats:
    """|sum of the last ``length`` rows| / √(known ones); NaN before there are so many, and where none is known."""
    known = ~np.isnan(rows)
    total = np.vstack([np.zeros(rows.shape[1]), np.cumsum(np.where(known, rows, 0.0), axis=0)])
    count = np.vstack([np.zeros(rows.shape[1]), np.cumsum(known, axis=0)])
    found = np.full(rows.shape, np.nan)
    if len(rows) >= length:
        n = count[length:] - count[:-length]
        found[length - 1 :] = np.where(n > 0, np.abs(total[length:] - total[:-length]) / np.sqrt(np.maximum(n, 1)), np.nan)
    return found
