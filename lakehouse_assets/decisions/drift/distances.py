"""How far one distribution is from another, both as step functions: the KS distance, and one that weights the tails.

Belongs here: step functions (from profiles, merged, thinned) and distances between two. Does not: what is too far (judge).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lakehouse_assets.decisions.drift.profiles import Profile, read_sketch_items

Floats = NDArray[np.float64]

# Below this, F(1-F) would let a single value in the far tail outweigh everything else.
TAIL_FLOOR = 0.01
# A baseline of more distinct values than twice this is thinned to it: a rank error of 1/131,072 each time.
MOST_STEPS = 65_536


class EcdfDistance(NamedTuple):
    """``ks`` in [0, 1]; ``tail`` in [0, 10]; ``signed`` in [-1, 1]: sup(F - G) - sup(G - F), above 0 for a higher batch."""

    ks: float
    tail: float
    signed: float = 0.0


# A batch without values: its G stays 0 while the baseline's F climbs to 1, so both distances are at their largest.
FARTHEST = EcdfDistance(1.0, 1.0 / TAIL_FLOOR**0.5, 0.0)


@dataclass(frozen=True, eq=False)
class Ecdf:
    """A weighted empirical distribution, never interpolated between its atoms.

    ``values``: (m,) strictly ascending, in the feature's unit. ``weights``: (m,) positive, in rows; ``cumulated``: their sums.
    """

    values: Floats
    weights: Floats
    cumulated: Floats

    @classmethod
    def of(cls, values: ArrayLike, weights: ArrayLike | None = None) -> "Ecdf":
        """Return the distribution of values in any order. Raises ValueError for no value, or one that is not finite."""
        raw = np.asarray(values, dtype=float).ravel()
        if not raw.size or not np.isfinite(raw).all():
            raise ValueError("a distribution needs values, all of them finite")
        row_weights = np.ones(raw.size) if weights is None else np.asarray(weights, dtype=float).ravel()
        distinct, inverse = np.unique(raw, return_inverse=True)
        added = np.bincount(inverse, weights=row_weights).astype(np.float64)
        return cls(distinct, added, np.cumsum(added))

    @property
    def total(self) -> float:
        """Rows in all."""
        return float(self.cumulated[-1])

    def weight_up_to(self, points: Floats) -> Floats:
        """Rows ≤ each of the points; the points' shape."""
        return self.weights_around(points)[1]

    def weights_around(self, points: Floats) -> tuple[Floats, Floats]:
        """Rows < and rows ≤ each of the points, by one search; each of the points' shape."""
        ends = np.searchsorted(self.values, points, side="right")
        before = ends - ((ends > 0) & (self.values[ends - 1] == points))
        below, up_to = (np.where(each > 0, self.cumulated[each - 1], 0.0) for each in (before, ends))
        return below, up_to

    def quantiles(self, levels: ArrayLike) -> Floats:
        """For each level in [0, 1] the smallest value that at least this share of the rows does not exceed."""
        ranks = np.asarray(levels, dtype=float) * self.total
        # The allowance keeps 0.25 of 4 rows at the first of them, whatever the rounding of the product.
        indices = np.searchsorted(self.cumulated, ranks - 1e-9 * self.total, side="left")
        return self.values[np.minimum(indices, self.values.size - 1)]

    def plus(self, other: "Ecdf", most: int = MOST_STEPS) -> "Ecdf":
        """Return the sum of both, the same on every machine and in every run, thinned to ``most`` steps beyond twice that."""
        indices = np.searchsorted(self.values, other.values)
        inside = np.minimum(indices, self.values.size - 1)
        shared = self.values[inside] == other.values
        weights = self.weights.copy()
        weights[inside[shared]] += other.weights[shared]
        values = np.insert(self.values, indices[~shared], other.values[~shared])
        weights = np.insert(weights, indices[~shared], other.weights[~shared])
        merged = Ecdf(values, weights, np.cumsum(weights))
        return merged.thinned(most) if values.size > 2 * most else merged

    def with_ends(self, least: float | None, largest: float | None) -> "Ecdf":
        """The same with the extremes, which a sketch may have dropped, as one row each, taken from their neighbours."""
        values, weights = self.values, self.weights
        if least is not None and isfinite(least) and least < values[0]:
            weight = min(1.0, weights[0] / 2)
            values, weights = np.insert(values, 0, least), np.concatenate(([weight, weights[0] - weight], weights[1:]))
        if largest is not None and isfinite(largest) and largest > values[-1]:
            weight = min(1.0, weights[-1] / 2)
            values, weights = np.append(values, largest), np.concatenate((weights[:-1], [weights[-1] - weight, weight]))
        return self if values is self.values else Ecdf(values, weights, np.cumsum(weights))

    def thinned(self, size: int) -> "Ecdf":
        """At most ``size`` steps of equal weight at the middles of their ranks: no rank moves by more than 1/(2·size)."""
        ranks = (np.arange(size) + 0.5) * (self.total / size)
        steps = np.searchsorted(self.cumulated, ranks)
        # Both are ascending: equal steps are neighbours, and nothing has to be sorted.
        is_new = np.append(True, steps[1:] != steps[:-1])
        weights = np.bincount(np.cumsum(is_new) - 1, weights=np.full(size, self.total / size)).astype(np.float64)
        return Ecdf(self.values[steps[is_new]], weights, np.cumsum(weights))


@lru_cache(maxsize=128)  # read when a window is judged, and again when the baseline learns it
def read_ecdf(profile: Profile) -> Ecdf | None:
    """The profile's distribution: exact for counted values and up to k sketched ones, within the sketch's rank error beyond.
    None where the profile has no finite value. Raises SketchError.
    """
    if profile.kind == "number" and profile.counts:
        return Ecdf.of([value for value, _ in profile.counts], [rows for _, rows in profile.counts])  # type: ignore[arg-type]
    items = read_sketch_items(profile)
    return None if items is None else Ecdf.of(*items).with_ends(profile.minimum, profile.maximum)


def tail_weight(shares: ArrayLike) -> Floats:
    """√max(F(1 - F), 0.01) of each share F: Anderson and Darling's weight (1952), bounded in the tails."""
    below = np.asarray(shares, dtype=float)
    return np.sqrt(np.maximum(below * (1.0 - below), TAIL_FLOOR))


def compare_ecdfs(batch: Ecdf, baseline: Ecdf, *, batch_is_inside: bool = False) -> EcdfDistance:
    """sup|G - F|, Kolmogorov's and Smirnov's, and sup|G - F| / √max(F(1 - F), 0.01), which weights the tails as Anderson and
    Darling (1952), of the batch's G from the baseline's F. ``batch_is_inside``: the baseline holds the batch, and F is of the
    rest. Raises ValueError when there is no rest.

    G is constant between its own atoms, and for a constant G both are monotone in F on either side of it. So the suprema are
    reached at the batch's atoms, each approached from the left or included.
    """
    own = np.concatenate((batch.cumulated - batch.weights, batch.cumulated))
    other = np.concatenate(baseline.weights_around(batch.values))
    rest = baseline.total
    if batch_is_inside:
        other, rest = other - own, rest - batch.total
    if rest <= 0:
        raise ValueError("there is no baseline besides the batch itself")
    below = np.clip(other / rest, 0.0, 1.0)
    lower = below - own / batch.total
    gap = np.abs(lower)
    # Rounded, so that equal distances are equal whatever the order in which weights were added up.
    signed = max(float(lower.max()), 0.0) - max(float(-lower.min()), 0.0)
    return EcdfDistance(round(float(gap.max()), 9), round(float((gap / tail_weight(below)).max()), 9), round(signed, 9))
