"""Conformal ranks: how strange a window is among the windows before it, each treated alike.

Belongs here: standardizing by the others, and the rank that is a p-value. Does not: what is measured, or what follows.
"""

import warnings

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# A statistic that never varied: any change of a thousandth counts as one deviation, rounding counts as none.
LEAST_SPREAD = 1e-3
# Whatever is farther off is as far: its square must stay a number.
FARTHEST_OFF = 1e100


def standardized(history: Floats, now: Floats) -> Floats:
    """Each row in deviations from the mean of all *other* rows, the last of which is ``now``.

    ``history``: (windows, m), ``now``: (m,), NaN where unknown; gives (windows + 1, m). Every row is treated alike, the new one
    too: that symmetry is what makes the rank of the last one a p-value.
    """
    rows = np.clip(np.vstack([history, now]), -FARTHEST_OFF, FARTHEST_OFF)
    known = ~np.isnan(rows)
    # Centred first, or the difference of squares below would lose what it is after.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column that nobody knows
        rows = rows - np.nan_to_num(np.nanmean(rows, axis=0)) if rows.size else rows
    filled = np.where(known, rows, 0.0)
    others = np.maximum(known.sum(axis=0) - 1, 1)
    mean = (filled.sum(axis=0) - filled) / others
    square = ((filled**2).sum(axis=0) - filled**2) / others
    spread = np.sqrt(np.maximum(square - mean**2, LEAST_SPREAD**2))
    return np.where(known, (filled - mean) / spread, np.nan)


def rank(past: Floats, now: float) -> float:
    """The share of windows, this one included, that are at least as strange; ties count against strangeness.

    p = (1 + #{h ≥ s}) / (B + 1): a conformal p-value (Vovk, Gammerman and Shafer, 2005), valid for windows that are
    exchangeable, however dependent the readings within one are. ``past``: (B,), -inf where unknown.
    """
    known = past[past > -np.inf]
    return float((1 + np.count_nonzero(known >= now - 1e-9)) / (known.size + 1))


def largest(rows: Floats) -> Floats:
    """Of each row its largest known value; -inf where there is none. (windows, m) → (windows,)."""
    return np.where(np.isnan(rows), -np.inf, rows).max(axis=1, initial=-np.inf)
