"""Which values of a batch there are more of than usual: an interval of a number, or one category.

Belongs here: the search, and what it expects. Does not: whether the batch is off at all (single_window), or messages.
"""

from typing import NamedTuple

import numpy as np

from lakehouse_assets.decisions.drift.categories import Categories, spelled_alike
from lakehouse_assets.decisions.drift.distances import Ecdf, Floats

# The ends of intervals that are tried: quantiles of the batch.
ENDS = 64
# The same where the rows are to be quarantined alone.
FINE_ENDS = 256
# Some interval of the 2,000 that are tried exceeds this in one clean window of a hundred, if rows are independent.
LEAST_LIKELIHOOD = 12.0
# Of the outer values of an interval: rows that are so much likelier by another rate than by the usual one (20 to 1).
SURPRISING = 3.0
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
    ends = _ends(batch, ENDS)
    excess = _best_interval(batch, baseline, ends, ends, 0.0)
    return excess if excess and excess.is_telling(batch.total) else None


def find_exact_interval(
    batch: Ecdf, baseline: Ecdf, least_precision: float, largest_share: float = LARGEST_SHARE
) -> Excess | None:
    """The likeliest interval among those with at least this precision, with ends at any value of the batch; None where no such
    interval has a large excess, or it has more than this share of the rows.
    """
    ends = _ends(batch, FINE_ENDS)
    coarse = _best_interval(batch, baseline, ends, ends, least_precision)
    if coarse is None or coarse.low is None or coarse.high is None:
        return None
    lows, highs = (_values_near(batch, ends, end) for end in (coarse.low, coarse.high))
    fine = _trim(batch, baseline, _best_interval(batch, baseline, lows, highs, least_precision) or coarse)
    return fine if LEAST_ROWS <= fine.rows <= largest_share * batch.total else None


def count_beyond(batch: Ecdf, baseline: Ecdf) -> float:
    """At least how many rows of the batch are more than usual: the largest difference of all intervals."""
    points = batch.values
    usual_below, usual_up_to = (each * (batch.total / baseline.total) for each in baseline.weights_around(points))
    # Of an interval: what the sums before and after it differ by.
    before = np.minimum.accumulate(batch.cumulated - batch.weights - usual_below)
    return float(np.max(batch.cumulated - usual_up_to - before))


def _trim(batch: Ecdf, baseline: Ecdf, excess: Excess) -> Excess:
    """The interval without outer values that may well be usual: there, so many rows are no surprise by themselves."""
    if excess.low is None or excess.high is None:
        return excess
    values = batch.values[(batch.values >= excess.low) & (batch.values <= excess.high)]
    scale = batch.total / baseline.total
    below, up_to = batch.weights_around(values)
    usual_below, usual_up_to = (each * scale for each in baseline.weights_around(values))
    first = _count_usual(up_to - below[0], usual_up_to - usual_below[0])
    last = values.size - 1 - _count_usual((up_to[-1] - below)[::-1], (usual_up_to[-1] - usual_below)[::-1])
    if first > last:
        return excess
    rows, usual = float(up_to[last] - below[first]), max(0.0, float(usual_up_to[last] - usual_below[first]))
    return Excess(round(rows), round(usual, 3), low=float(values[first]), high=float(values[last]))


def _count_usual(observed: Floats, usual: Floats) -> int:
    """How many of the outermost values are as usual. ``observed``, ``usual``: rows up to each value, from outside."""
    usual = np.maximum(usual, 1e-9)
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = np.where(observed > usual, observed * np.log(observed / usual) - observed + usual, 0.0)
    return int(np.argmax(surprise > SURPRISING)) if (surprise > SURPRISING).any() else 0


def _ends(batch: Ecdf, count: int) -> Floats:
    """So many quantiles of the batch, and its extremes; ascending."""
    ends = np.unique(batch.quantiles((np.arange(count) + 0.5) / count))
    return np.unique(np.concatenate((batch.values[:1], ends, batch.values[-1:])))


def _values_near(batch: Ecdf, ends: Floats, end: float) -> Floats:
    """The values of the batch between the ends before and after this one, at most `FINE_ENDS` and itself."""
    index = int(np.searchsorted(ends, end))
    low, high = ends[max(0, index - 1)], ends[min(ends.size - 1, index + 1)]
    values = batch.values[(batch.values >= low) & (batch.values <= high)]
    step = -(-values.size // FINE_ENDS)
    return np.unique(np.append(values[::step], end))


def _best_interval(batch: Ecdf, baseline: Ecdf, lows: Floats, highs: Floats, least_precision: float) -> Excess | None:
    """The likeliest interval from one of the lows to one of the highs with at least this precision."""
    scale = batch.total / baseline.total
    observed = batch.weights_around(highs)[1][np.newaxis, :] - batch.weights_around(lows)[0][:, np.newaxis]
    up_to, below = baseline.weights_around(highs)[1] * scale, baseline.weights_around(lows)[0] * scale
    usual = up_to[np.newaxis, :] - below[:, np.newaxis]
    usable = lows[:, np.newaxis] <= highs[np.newaxis, :]
    if least_precision > 0:
        # As it is recorded: rounded.
        usable &= np.round(np.maximum(usual, 0.0), 3) <= (1.0 - least_precision) * np.round(observed)
    likelihood = np.where(usable, _likelihood(observed, usual, batch.total), -1.0)
    first, last = divmod(int(likelihood.argmax()), highs.size)
    if likelihood[first, last] < LEAST_LIKELIHOOD:
        return None
    rows, expected = round(float(observed[first, last])), max(0.0, float(usual[first, last]))
    return Excess(rows, round(expected, 3), low=float(lows[first]), high=float(highs[last]))


def find_category(batch: Categories, baseline: Categories) -> Excess | None:
    """The category that is likeliest to have another rate of rows than all others; None where none has a large excess."""
    if not batch.counts or not baseline.total:
        return None
    batch, baseline = spelled_alike(batch, baseline)
    names = sorted(batch.counts)
    # What is not kept by name is at most as frequent as the rarest that is.
    observed = np.array([batch.counts[name] for name in names], dtype=float)
    usual = np.array([baseline.counts.get(name, baseline.most_unnamed) for name in names]) * (batch.total / baseline.total)
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
