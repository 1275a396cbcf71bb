"""How far one distribution is from another, both as step functions: Kolmogorov-Smirnov's, and one that sees the tails.

Belongs here: step functions (from sketches, merged, thinned) and distances between two. Does not: what is too far (drift).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lakehouse_assets.decisions.profiles import Profile, retained

Floats = NDArray[np.float64]

# Below this, F(1-F) would let a single value in the far tail outweigh everything else.
TAIL_FLOOR = 0.01
# A baseline of more distinct values than twice this is thinned to it: a rank error of 1/131,072 each time.
MOST_STEPS = 65_536


class Distance(NamedTuple):
    """``ks`` in [0, 1]; ``tail`` in [0, 10]; ``signed`` in [-1, 1]: sup(F - G) - sup(G - F), above 0 where the batch is
    higher."""

    ks: float
    tail: float
    signed: float = 0.0


# All values gone: the batch's F̂ stays 0 while the baseline's climbs to 1, so both distances are at their largest.
FARTHEST = Distance(1.0, 1.0 / TAIL_FLOOR**0.5, 0.0)


@dataclass(frozen=True, eq=False)
class Steps:
    """A weighted empirical distribution, never interpolated between its atoms.

    ``values``: (m,) strictly ascending, in the feature's unit. ``weights``: (m,) positive, in rows.
    """

    values: Floats
    weights: Floats
    cumulated: Floats

    @classmethod
    def of(cls, values: ArrayLike, weights: ArrayLike | None = None) -> "Steps":
        """From values in any order, repeated ones added up. Raises ValueError for none, or one that is not finite."""
        raw = np.asarray(values, dtype=float).ravel()
        if not raw.size or not np.isfinite(raw).all():
            raise ValueError("a distribution needs values, all of them finite")
        given = np.ones(raw.size) if weights is None else np.asarray(weights, dtype=float).ravel()
        distinct, place = np.unique(raw, return_inverse=True)
        added = np.bincount(place, weights=given).astype(np.float64)
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
        places = np.searchsorted(self.values, points, side="right")
        before = places - ((places > 0) & (self.values[places - 1] == points))
        below, up_to = (np.where(each > 0, self.cumulated[each - 1], 0.0) for each in (before, places))
        return below, up_to

    def quantiles(self, shares: ArrayLike) -> Floats:
        """For each share the smallest value that at least this share of the rows does not exceed."""
        wanted = np.asarray(shares, dtype=float) * self.total
        # The allowance keeps 0.25 of 4 rows at the first of them, whatever the rounding of the product.
        places = np.searchsorted(self.cumulated, wanted - 1e-9 * self.total, side="left")
        return self.values[np.minimum(places, self.values.size - 1)]

    def plus(self, other: "Steps", most: int = MOST_STEPS) -> "Steps":
        """Both together; the same whatever the machine or the run. Thinned to ``most`` steps when there are over twice that."""
        places = np.searchsorted(self.values, other.values)
        inside = np.minimum(places, self.values.size - 1)
        there = self.values[inside] == other.values
        weights = self.weights.copy()
        weights[inside[there]] += other.weights[there]
        values = np.insert(self.values, places[~there], other.values[~there])
        weights = np.insert(weights, places[~there], other.weights[~there])
        merged = Steps(values, weights, np.cumsum(weights))
        return merged.thinned(most) if values.size > 2 * most else merged

    def thinned(self, size: int) -> "Steps":
        """At most ``size`` steps of equal weight at the middles of their ranks: no rank moves by more than 1/(2·size)."""
        ranks = (np.arange(size) + 0.5) * (self.total / size)
        return Steps.of(self.values[np.searchsorted(self.cumulated, ranks)], np.full(size, self.total / size))


@lru_cache(maxsize=128)  # a window's are asked for when it is judged, and when the baseline learns them
def steps_of(profile: Profile) -> Steps | None:
    """The profile's sketch as a step function: exact up to k values, within the sketch's rank error beyond.

    Counted values are exact. None where the profile has no finite value. Raises SketchError when the sketch cannot be read.
    """
    if profile.kind == "number" and profile.counts:
        return Steps.of([value for value, _ in profile.counts], [rows for _, rows in profile.counts])  # type: ignore[arg-type]
    kept = retained(profile)
    return None if kept is None else Steps.of(*kept)


def distances(batch: Steps, baseline: Steps, *, batch_is_inside: bool = False) -> Distance:
    """sup|G - F| and sup|G - F| / √max(F(1 - F), 0.01), of the batch's G from the baseline's F.

    The first is Kolmogorov's and Smirnov's two-sample statistic; the second weights as Anderson and Darling (1952) do, the
    weight bounded, so that a few values far out are seen that the first is blind to. G is constant between its own
    atoms, and for a constant G both are monotone in F on either side of it; so the suprema are reached at the batch's atoms,
    each approached from the left or taken with it. ``batch_is_inside``: the baseline holds the batch, and F is of the rest.
    Raises ValueError when there is no rest.
    """
    atoms = batch.values
    own = np.concatenate((batch.cumulated - batch.weights, batch.cumulated))
    other = np.concatenate(baseline.weights_around(atoms))
    rest = baseline.total
    if batch_is_inside:
        other, rest = other - own, rest - batch.total
    if rest <= 0:
        raise ValueError("there is no baseline besides the batch itself")
    below = np.clip(other / rest, 0.0, 1.0)
    lower = below - own / batch.total
    gap = np.abs(lower)
    weighted = gap / np.sqrt(np.maximum(below * (1.0 - below), TAIL_FLOOR))
    # Rounded, so that equal distances are equal whatever the order in which weights were added up.
    signed = max(float(lower.max()), 0.0) - max(float(-lower.min()), 0.0)
    return Distance(round(float(gap.max()), 9), round(float(weighted.max()), 9), round(signed, 9))
