"""p-values of a score among the scores of other windows: ranks, and beyond the farthest of them a predictive tail.

Belongs here: scores → p-values. Does not: how a score is measured (feature_result), or what follows (single_window).
"""

from math import ceil, sqrt

import numpy as np

from lakehouse_assets.decisions.drift.distances import Floats

# Scores are in deviations. A Pareto tail from so far below them falls off nearly as an exponential: with 29 windows known
# 0.6 to 2 % of clean ones are beyond 1 %. From -2 on it is half as many, at much less power.
ORIGIN = -10.0
# On the logarithmic scale: windows that were all equal tell nothing of a tail.
LEAST_MEAN_EXCESS = 0.03
LEAST_P = 1e-12


def count_farthest(windows: int) -> int:
    """How many of the farthest scores a tail is fitted to: 1.5 √windows, at least one less than there are."""
    return max(1, min(ceil(1.5 * sqrt(windows)), windows - 1))


def conformal_p_value(past: Floats, now: float) -> float:
    """The share of windows, this one included, that are at least as strange; ties count against strangeness.

    p = (1 + #{h ≥ s}) / (B + 1) (Vovk, Gammerman and Shafer, 2005): valid for windows that are exchangeable, however dependent
    the readings within one are. ``past``: (B,), -inf where unknown.
    """
    present = past[past > -np.inf]
    return float((1 + np.count_nonzero(present >= now - 1e-9)) / (present.size + 1))


def score_p_value(past: Floats, now: float) -> float:
    """The p-value of a score in deviations: its rank and, beyond all of ``past`` ((B,), -inf where unknown), a Pareto tail.

    The logarithms of the farthest k of B scores, less that of the next one, are exponential with a mean that they estimate
    (Hill, 1975). Averaged over what that mean may be, p = (k + 1)/(B + 1) · (1 + x/Σxᵢ)⁻ᵏ (the predictive distribution of an
    exponential; Geisser, 1993). It never exceeds the rank's 1/(B + 1).
    """
    present = past[past > -np.inf]
    p_value = conformal_p_value(present, now)
    if present.size < 2 or (present >= now - 1e-9).any():
        return p_value
    farthest = count_farthest(present.size)
    excesses = np.log(np.maximum(np.append(np.sort(present)[::-1][: farthest + 1], now) - ORIGIN, 1e-9))
    excesses -= excesses[farthest]
    total = max(float(excesses[:farthest].sum()), farthest * LEAST_MEAN_EXCESS)
    tail = (farthest + 1) / (present.size + 1) * (1.0 + float(excesses[-1]) / total) ** -farthest
    return float(min(p_value, max(tail, LEAST_P)))
