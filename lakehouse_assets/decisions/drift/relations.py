"""Relations of numeric features in one batch: their means and co-moments, and how far those are from a baseline's.

Belongs here: the shape, merging, and the distances. Does not: measuring it (measures), or what is too far (judge).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from math import isfinite, log
from typing import Any, NamedTuple

import numpy as np
import scipy  # it loads what is used, when it is used
from numpy.typing import NDArray

from lakehouse_assets.contracts.drift import RELATIONS
from lakehouse_assets.decisions.drift.distances import tail_weight
from lakehouse_assets.decisions.drift.profiles import Key, Profile
from lakehouse_assets.decisions.drift.slices import Slices
from lakehouse_assets.decisions.json_values import to_json_value

Floats = NDArray[np.float64]
# A direction in which the baseline varies less than this share of a feature's own variance is rounding, not a relation.
LEAST_VARIANCE = 1e-9
LEAST_RATIO = 1e-6
MOST_CORRELATED = 0.999999
# Rows of the baseline for each feature, below which its covariance says little.
ROWS_PER_FEATURE = 20
_GRID = np.linspace(-6.0, 6.0, 481)
_SHIFTS, _LOG_DEVIATIONS = np.linspace(0.0, 6.0, 601), np.linspace(-7.0, 7.0, 1401)


@dataclass(frozen=True)
class Relations:
    """The moments of the rows of one batch and stratum in which all these features, of one `by`, have finite values.

    ``mean``: (p,), in the features' units; ``comoments``: Σ (x - x̄)(y - ȳ), the upper triangle row by row, p(p + 1)/2 numbers.
    """

    by: str | None
    stratum: str | None
    features: tuple[str, ...]
    rows: int
    mean: tuple[float, ...]
    comoments: tuple[float, ...]

    @property
    def key(self) -> Key:
        """The name that stands for a feature's, and the stratum."""
        return (RELATIONS if self.by is None else f"{RELATIONS} by {self.by}", self.stratum)

    @property
    def too_large(self) -> list[str]:
        """Features with values so large that their squares are no finite numbers: they cannot be compared."""
        p = len(self.features)
        own = [self.comoments[i * p - i * (i - 1) // 2] for i in range(p)]
        return [n for n, m, v in zip(self.features, self.mean, own, strict=True) if not (isfinite(m) and isfinite(v))]

    def matrix(self) -> Floats:
        """(p, p): the covariance, of the rows (not of a population that they are drawn from)."""
        p = len(self.features)
        comoments = np.zeros((p, p))
        comoments[upper_triangle(p)] = self.comoments
        return (comoments + np.triu(comoments, 1).T) / max(self.rows, 1)

    def plus(self, other: "Relations") -> "Relations":
        """Return the relations of both batches' rows (Chan, Golub and LeVeque, 1979). Raises ValueError for other features."""
        if other.features != self.features or other.key != self.key:
            raise ValueError(f"relations of {self.features} and of {other.features} cannot be merged")
        if not self.rows or not other.rows:
            return self if self.rows else other
        rows, step = self.rows + other.rows, np.array(other.mean) - np.array(self.mean)
        mean = np.array(self.mean) + step * (other.rows / rows)
        between = self._between(step) * (self.rows * other.rows / rows)
        return self._with(rows, mean, np.array(self.comoments) + np.array(other.comoments) + between)

    def minus(self, part: "Relations") -> "Relations":
        """The rest, when ``part`` is within it: the inverse of `plus`, up to rounding."""
        rows = self.rows - part.rows
        if rows <= 0:
            return self._with(0, np.zeros(len(self.mean)), np.zeros(len(self.comoments)))
        mean = (np.array(self.mean) * self.rows - np.array(part.mean) * part.rows) / rows
        between = self._between(np.array(part.mean) - mean) * (rows * part.rows / self.rows)
        return self._with(rows, mean, np.array(self.comoments) - np.array(part.comoments) - between)

    def _between(self, step: Floats) -> Floats:
        return np.outer(step, step)[upper_triangle(len(self.features))]

    def _with(self, rows: int, mean: Floats, comoments: Floats) -> "Relations":
        return replace(self, rows=rows, mean=tuple(mean.tolist()), comoments=tuple(comoments.tolist()))

    def pair(self, one: str, other: str) -> "Relations":
        """Two of the features alone. Raises ValueError for one that is not among them."""
        indices = [self.features.index(one), self.features.index(other)]
        square = self.matrix()[np.ix_(indices, indices)] * self.rows
        moments, mean = square[upper_triangle(2)], np.array(self.mean)[indices]
        return replace(self, features=(one, other))._with(self.rows, mean, moments)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe; `from_dict` reads it."""
        return to_json_value(vars(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Relations":
        """The inverse of `to_dict`. Raises TypeError for another shape."""
        return cls(**{**data, **{name: tuple(data[name]) for name in ("features", "mean", "comoments")}})


@cache
def upper_triangle(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of the upper triangle of a square matrix, with its diagonal. Read-only."""
    rows, columns = np.triu_indices(size)
    rows.flags.writeable = columns.flags.writeable = False
    return rows, columns


Measurement = Profile | Relations | Slices


def read_measurement(data: Mapping[str, Any]) -> Measurement:
    """The inverse of `to_dict` of each kind. Raises SketchError and TypeError as their `from_dict`."""
    if "slice_rows" in data:
        return Slices.from_dict(data)
    return Relations.from_dict(data) if "features" in data else Profile.from_dict(data)


class RelationDistance(NamedTuple):
    """How far a batch's relations are from a baseline's, whatever the features' units.

    ``statistics``: ``means``, the Mahalanobis distance of the means; ``scatter``, √Σ(λ - 1 - ln λ) over the variances λ of the
    batch along its own principal components, after whitening by the baseline (0 where all are 1); of each feature ``spread x``,
    |ln| of the ratio of its deviations; of each pair ``pair x ~ y``, the change of Fisher's z of its correlation: in a sum
    alone, one feature with a heavy tail would drown the others. ``effects``: of each the tail-weighted distance of two normal
    distributions that differ so; `min_effect` bounds it. ``correlations``: (x, y, before, now).
    """

    statistics: dict[str, float]
    effects: dict[str, float]
    correlations: tuple[tuple[str, str, float, float], ...]


def compute_relations(columns: Mapping[str, Floats], by: str | None = None, stratum: str | None = None) -> Relations:
    """Return the relations of features from their columns, (n,) each. NaN means no value."""
    names = tuple(columns)
    values = np.column_stack([np.asarray(columns[name], dtype=float) for name in names])
    rows = values[np.isfinite(values).all(axis=1)]
    with np.errstate(over="ignore", invalid="ignore"):  # reported by `too_large`
        mean = rows.mean(axis=0) if len(rows) else np.zeros(len(names))
        moments = (rows - mean).T @ (rows - mean)
    upper = moments[upper_triangle(len(names))]
    return Relations(by, stratum, names, len(rows), tuple(mean.tolist()), tuple(upper.tolist()))


def compare_relations(batch: Relations, baseline: Relations) -> RelationDistance | None:
    """How far a batch is from a baseline; None where either has too few rows, or is `too_large`, or their features differ.

    Whitened by the baseline, the batch's principal components are the directions in which the two differ most (they solve the
    generalized eigenproblem of the two covariances).
    """
    p = len(batch.features)
    if batch.features != baseline.features or batch.rows < p + 2 or baseline.rows < ROWS_PER_FEATURE * p:
        return None
    if batch.too_large or baseline.too_large:
        return None
    before, now = baseline.matrix(), batch.matrix()
    scale = np.sqrt(np.maximum(np.diag(before), 0.0))  # below 0 by rounding: constant
    varying = scale > 1e-12 * np.maximum(1.0, np.abs(np.array(baseline.mean)))
    if not varying.any():
        return None
    names = [name for name, v in zip(batch.features, varying, strict=True) if v]
    unit = scale[varying]
    old, new = (m[np.ix_(varying, varying)] / np.outer(unit, unit) for m in (before, now))
    step = (np.array(batch.mean) - np.array(baseline.mean))[varying] / unit
    values, vectors = np.linalg.eigh(old)
    distinct = values > LEAST_VARIANCE
    whiten = vectors[:, distinct] / np.sqrt(values[distinct])
    along, turned = np.linalg.eigh(whiten.T @ new @ whiten)
    # A batch that does not vary at all in a direction is far off, not infinitely far.
    along = np.maximum(along, LEAST_RATIO)
    shift = turned.T @ (whiten.T @ step)
    length = float(np.sqrt(shift @ shift))
    statistics = {"means": length, "scatter": float(np.sqrt(max(0.0, float((along - 1.0 - np.log(along)).sum()))))}
    widest = max(along, key=lambda ratio: abs(np.log(ratio)))
    effects = {"means": shift_effect(length), "scatter": spread_effect(float(widest))}
    spreads, ratios = [f"spread {name}" for name in names], np.sqrt(np.maximum(np.diag(new), LEAST_RATIO)).tolist()
    statistics |= {name: abs(float(np.log(ratio))) for name, ratio in zip(spreads, ratios, strict=True)}
    effects |= dict(zip(spreads, spread_effects([ratio**2 for ratio in ratios]), strict=True))
    correlations = _correlations(names, old, new)
    if correlations:
        pairs = [f"pair {one} ~ {other}" for one, other, _, _ in correlations]
        r, s = (np.array([each[index] for each in correlations]) for index in (2, 3))
        # Fisher's z: from 0.98 to 0.99 is as much as from 0 to 0.33.
        statistics |= zip(pairs, np.abs(np.arctanh(s) - np.arctanh(r)).tolist(), strict=True)
        both = [spread_effects(((1.0 + sign * s) / (1.0 + sign * r)).tolist()) for sign in (1.0, -1.0)]
        effects |= zip(pairs, map(max, *both), strict=True)
    statistics, effects = ({name: round(value, 9) for name, value in each.items()} for each in (statistics, effects))
    return RelationDistance(statistics, effects, correlations)


def find_farthest_pair(
    batch: Relations, baseline: Relations, statistic: str | None = None
) -> tuple[Relations, Relations] | None:
    """The pair of features that differs most, of batch and baseline; of a ``statistic`` (`spread x`, `pair x ~ y`) only pairs
    with its features. None where nothing can be compared.
    """
    kind, _, rest = (statistic or "").partition(" ")
    named = {rest} if kind == "spread" else set(rest.split(" ~ ")) if kind == "pair" else set()
    best: tuple[float, Relations, Relations] | None = None
    for one, other in combinations(batch.features, 2):
        now, before = batch.pair(one, other), baseline.pair(one, other)
        distance = compare_relations(now, before) if named <= {one, other} else None
        if distance and (best is None or max(distance.effects.values()) > best[0]):
            best = (max(distance.effects.values()), now, before)
    return best[1:] if best else None


def normal_tail_distance(shift: float, deviation: float) -> float:
    """sup|G - F| / √max(F(1 - F), 0.01) of G = N(shift, deviation²) from F = N(0, 1)."""
    below = scipy.special.ndtr(_GRID)
    return float((np.abs(scipy.special.ndtr((_GRID - shift) / deviation) - below) / tail_weight(below)).max())


# A batch of twenty features looks up hundreds of distances.
@cache
def _distances_by_shift() -> Floats:
    return np.array([normal_tail_distance(shift, 1.0) for shift in _SHIFTS.tolist()])


@cache
def _distances_by_spread() -> Floats:
    return np.array([normal_tail_distance(0.0, deviation) for deviation in np.exp(_LOG_DEVIATIONS).tolist()])


def shift_effect(shift: float) -> float:
    """Return the tail-weighted distance of two normal distributions that are so many deviations apart."""
    return float(np.interp(shift, _SHIFTS, _distances_by_shift()))


def shift_effects(shifts: Floats) -> Floats:
    """Return `shift_effect` of each."""
    return np.interp(shifts, _SHIFTS, _distances_by_shift())


def spread_effect(ratio: float) -> float:
    """Return the tail-weighted distance of two normal distributions whose variances have this ratio."""
    return spread_effects([ratio])[0]


def spread_effects(ratios: Sequence[float]) -> list[float]:
    """Return `spread_effect` of each."""
    logarithms = [0.5 * log(max(ratio, LEAST_RATIO)) for ratio in ratios]
    return np.interp(logarithms, _LOG_DEVIATIONS, _distances_by_spread()).tolist()


def _correlations(names: list[str], old: Floats, new: Floats) -> tuple[tuple[str, str, float, float], ...]:
    """Return each pair's correlation before and now, clipped below 1, where Fisher's z is infinite."""
    deviations = np.sqrt(np.maximum(np.diag(new), LEAST_RATIO))
    before, now = (np.clip(m, -MOST_CORRELATED, MOST_CORRELATED) for m in (old, new / np.outer(deviations, deviations)))
    return tuple((names[i], names[j], float(before[i, j]), float(now[i, j])) for i, j in combinations(range(len(names)), 2))
