"""p-values of a score among the scores of other windows: ranks, and beyond the farthest of them a predictive tail.

Belongs here: scores → p-values. Does not: how a score is measured (feature_result), or what follows (single_window).
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt

import numpy as np

from lakehouse_assets.decisions.drift.distances import Floats

# Scores are in deviations. A Pareto tail from so far below them falls off nearly as an exponential: with 29 windows known
# 0.6 to 2 % of clean ones are beyond 1 %. From -2 on it is half as many, at much less power.
ORIGIN = -10.0
# On the logarithmic scale: windows that were all equal tell nothing of a tail.
LEAST_MEAN_EXCESS = 0.03
LEAST_P = 1e-12
# Scores that differ by less are equal.
SAME = 1e-9
LEAST_SCORES = 2


def count_farthest(windows: int) -> int:
    """How many of the farthest scores a tail is fitted to: 1.5 √windows, at least one less than there are."""
    return max(1, min(ceil(1.5 * sqrt(windows)), windows - 1))


def conformal_p_value(past: Floats, now: float) -> float:
    """The share of windows, this one included, that are at least as strange; ties count against strangeness.

    p = (1 + #{h ≥ s}) / (B + 1) (Vovk, Gammerman and Shafer, 2005): valid for windows that are exchangeable, however dependent
    the readings within one are. ``past``: (B,), -inf where unknown.
    """
    return PastScores.of(past).rank(now)


def score_p_value(past: Floats, now: float) -> float:
    """Return `PastScores.p_value` of one score. ``past``: (B,), -inf where unknown."""
    return PastScores.of(past).p_value(now)


def score_p_values(past: Floats, now: Floats) -> list[float]:
    """Return `score_p_value` of each column. ``past``: (B, m), -inf where unknown; ``now``: (m,)."""
    is_known = past > -np.inf
    beyond, counts = (is_known & (past >= now - SAME)).sum(axis=0).tolist(), is_known.sum(axis=0).tolist()
    # Few are beyond all of the past: a tail is fitted to those alone.
    return [
        (1 + more) / (of + 1) if more or of < LEAST_SCORES else score_p_value(past[:, column], float(now[column]))
        for column, (more, of) in enumerate(zip(beyond, counts, strict=True))
    ]


@dataclass(frozen=True)
class PastScores:
    """The known scores of past windows. ``ascending``: (B,), sorted."""

    ascending: Floats

    @classmethod
    def of(cls, past: Floats) -> "PastScores":
        """``past``: (B,) in any order, -inf where unknown."""
        return cls(np.sort(past[past > -np.inf]))

    def rank(self, now: float) -> float:
        """The conformal p-value of a score (`conformal_p_value`)."""
        return (1 + self._count_beyond(now)) / (self.ascending.size + 1)

    def p_value(self, now: float) -> float:
        """The p-value of a score in deviations: its rank and, beyond all of the past, a Pareto tail.

        The logarithms of the farthest k of B scores, less that of the next one, are exponential with a mean that they estimate
        (Hill, 1975). Averaged over what that mean may be, p = (k + 1)/(B + 1) · (1 + x/Σxᵢ)⁻ᵏ (the predictive distribution of
        an exponential; Geisser, 1993). It never exceeds the rank's 1/(B + 1).
        """
        rank = self.rank(now)
        if self.ascending.size < LEAST_SCORES or self._count_beyond(now):
            return rank
        farthest, start, total = self._tail
        excess = float(np.log(np.maximum(np.array([now]) - ORIGIN, 1e-9))[0]) - start
        tail = (farthest + 1) / (self.ascending.size + 1) * (1.0 + excess / total) ** -farthest
        return float(min(rank, max(tail, LEAST_P)))

    def _count_beyond(self, now: float) -> int:
        return self.ascending.size - int(np.searchsorted(self.ascending, now - SAME))

    @cached_property
    def _tail(self) -> tuple[int, float, float]:
        """How many scores are farthest; on the logarithmic scale, where their tail starts, and the sum of their excesses."""
        farthest = count_farthest(self.ascending.size)
        logarithms = np.log(np.maximum(self.ascending[::-1][: farthest + 1].copy() - ORIGIN, 1e-9))
        start = logarithms[farthest]
        total = max(float((logarithms - start)[:farthest].sum()), farthest * LEAST_MEAN_EXCESS)
        return farthest, float(start), total
