"""Statistics of windows of unequal size, made comparable.

Belongs here: what part of a statistic's variation is sampling, and the factor that follows. Does not: the statistics.
"""

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.decisions.drift.distances import Floats
from lakehouse_assets.decisions.drift.statistic_history import FARTHEST_OFF

# rows · E[statistic²] of windows of independent rows of one distribution, by theory (ks, location) or simulation.
# A dependence of rows makes it larger, nothing makes it smaller.
SAMPLING = {"ks": 0.82, "tail": 5.6, "location": 0.9, "scale": 0.4}
_ROUNDS = 3


def rescale(history: Floats, sizes: Floats, now: Floats, sampling: Floats, two_sided: NDArray[np.bool_]) -> Floats:
    """Return past statistics as if each window had as many values as the judged one.

    The square of a statistic is on average A + B/n: A is what windows differ by, B/n the sampling of n values. Both are fitted
    to history, B at least ``sampling``. Outside the sizes that history has seen, only what is certain is used: a window smaller
    than all others is farther off by the root of the ratio, a larger one is not nearer.

    ``history``, ``sizes``: (windows, m), NaN where unknown; ``now``, ``sampling``: (m,), ``now`` 0 where nothing is rescaled;
    ``two_sided``: (m,), whether a statistic varies around its own mean instead of 0.
    """
    is_known = np.isfinite(history) & (sizes > 0)
    counts = is_known.sum(axis=0)
    centre = np.where(two_sided, np.where(is_known, history, 0.0).sum(axis=0) / np.maximum(counts, 1), 0.0)
    offsets, is_rescaled = history - centre, (now > 0) & (counts > 0)
    least = np.where(is_known, sizes, np.inf).min(axis=0, initial=np.inf)
    most = np.where(is_known, sizes, 0.0).max(axis=0, initial=0.0)
    # Where all windows have one size, theirs is the factor of a smaller one, whatever its variation is made of.
    smaller = np.ones(now.size)
    smaller[is_rescaled] = np.sqrt(np.maximum(least[is_rescaled] / now[is_rescaled], 1.0))
    has_fit = is_rescaled & (most > least)
    if not has_fit.any() and (smaller == 1.0).all():
        return centre + offsets
    factors = np.where(is_known, smaller, 1.0)
    if has_fit.any():
        rows = np.where(is_known, sizes, np.nan)[:, has_fit]
        between, within = _fit(offsets[:, has_fit], rows, sampling[has_fit])
        inside = np.clip(now, least, most)[has_fit]
        expected, then = between + within / inside, between + within / rows
        ratios = np.sqrt(np.divide(expected, then, out=np.ones_like(then), where=then > 0))
        factors[:, has_fit] *= np.where(is_known[:, has_fit], ratios, 1.0)
    return centre + offsets * factors


def _fit(values: Floats, rows: Floats, sampling: Floats) -> tuple[Floats, Floats]:
    """A and B of the mean square A + B/n, (m,) each, by least squares, weighted with the expected square's inverse square."""
    is_known = np.isfinite(values) & np.isfinite(rows)
    squares = np.where(is_known, np.minimum(np.abs(np.nan_to_num(values)), FARTHEST_OFF) ** 2, 0.0)
    inverse = np.where(is_known, 1.0 / np.where(is_known, rows, 1.0), 0.0)
    expected = np.broadcast_to(squares.sum(axis=0) / is_known.sum(axis=0), squares.shape)
    between, within = np.zeros_like(sampling), np.zeros_like(sampling)
    for _ in range(_ROUNDS):
        scale = np.maximum(expected, 1e-100)
        weights = np.where(is_known, (np.min(np.where(is_known, scale, np.inf), axis=0) / scale) ** 2, 0.0)
        weights /= weights.sum(axis=0)
        x, y = (weights * inverse).sum(axis=0), (weights * squares).sum(axis=0)
        spread = (weights * (inverse - x) ** 2).sum(axis=0)
        both = (weights * (inverse - x) * (squares - y)).sum(axis=0)
        slope = np.divide(both, spread, out=np.zeros_like(both), where=spread > 1e-6 * x**2)
        within = np.clip(slope, sampling, np.maximum(y / x, sampling))
        between = np.maximum(y - within * x, 0.0)
        expected = between + within * inverse
    return between, within
