"""Which values of a batch there are more of than usual: an interval of a number, or one category.

Belongs here: the search, and what it expects. Does not: whether the batch is off at all (single_window), or messages.
"""

from typing import NamedTuple

import numpy as np

from lakehouse_assets.decisions.drift.categories import Categories
from lakehouse_assets.decisions.drift.distances import Ecdf, Floats

# The ends of intervals that are tried: quantiles of the batch.
ENDS = 64
# Some interval of the 2,000 that are tried exceeds this in one clean window of a hundred, if rows are independent.
LEAST_LIKELIHOOD = 12.0
# Fewer rows, or a smaller share of them that is more than usual, are not named.
LEAST_ROWS = 10
LEAST_PRECISION = 0.5
# What most rows are is a change of the whole window.
LARGEST_SHARE = 0.5


class Excess(NamedTuple):
    """Values with more rows than usual: from ``low`` to ``high``, both included, in the feature's unit; or one ``category``.
    ``usual``: the rows that a window of this size has there.
    """

    rows: int
    usual: float
    low: float | None = None
    high: float | None = None
    category: str | None = None

    @property
    def precision(self) -> float:
        """The share of the rows that is more than usual."""
        return 1.0 - self.usual / self.rows if self.rows else 0.0

    def is_telling(self, total: float) -> bool:
        """Whether it is worth naming, of so many rows."""
        return LEAST_ROWS <= self.rows <= LARGEST_SHARE * total and self.precision >= LEAST_PRECISION


def find_interval(batch: Ecdf, baseline: Ecdf) -> Excess | None:
    """The interval that is likeliest to have another rate of rows than all others (the scan statistic; Kulldorff, 1997); None
    where no interval has a large excess.
    """
    ends = np.unique(batch.quantiles((np.arange(ENDS) + 0.5) / ENDS))
    ends = np.unique(np.concatenate((batch.values[:1], ends, batch.values[-1:])))
    below, up_to = batch.weights_around(ends)
    below_usual, up_to_usual = (each * (batch.total / baseline.total) for each in baseline.weights_around(ends))
    observed = up_to[np.newaxis, :] - below[:, np.newaxis]
    usual = up_to_usual[np.newaxis, :] - below_usual[:, np.newaxis]
    likelihood = np.where(np.triu(np.ones_like(observed, dtype=bool)), _likelihood(observed, usual, batch.total), -1.0)
    first, last = divmod(int(likelihood.argmax()), ends.size)
    if likelihood[first, last] < LEAST_LIKELIHOOD:
        return None
    rows, expected = round(float(observed[first, last])), max(0.0, float(usual[first, last]))
    excess = Excess(rows, round(expected, 3), low=float(ends[first]), high=float(ends[last]))
    return excess if excess.is_telling(batch.total) else None


def find_category(batch: Categories, baseline: Categories) -> Excess | None:
    """The category that is likeliest to have another rate of rows than all others; None where none has a large excess."""
    if not batch.counts or not baseline.total:
        return None
    names = sorted(batch.counts)
    # What is not kept by name is at most as frequent as the rarest that is.
    unnamed = min(baseline.counts.values(), default=0) if baseline.others else 0
    observed = np.array([batch.counts[name] for name in names], dtype=float)
    usual = np.array([baseline.counts.get(name, unnamed) for name in names]) * (batch.total / baseline.total)
    likelihood = _likelihood(observed, usual, batch.total)
    best = int(likelihood.argmax())
    if likelihood[best] < LEAST_LIKELIHOOD:
        return None
    excess = Excess(round(float(observed[best])), round(float(usual[best]), 3), category=names[best])
    return excess if excess.is_telling(batch.total) else None


def _likelihood(observed: Floats, usual: Floats, total: float) -> Floats:
    """The logarithm of the likelihood ratio of so many rows; 0 where there are no more than usual."""
    usual, rest = np.clip(usual, 0.5, None), np.maximum(total - observed, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(observed > 0, observed * np.log(observed / usual), 0.0)
        outside = np.where(rest > 0, rest * np.log(rest / np.maximum(total - usual, 0.5)), 0.0)
    return np.where(observed > usual, inside + outside, 0.0)
