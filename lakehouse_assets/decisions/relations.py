"""How the numeric features of one batch go together: their means and co-moments, and how far those are from a baseline's.

Belongs here: the shape, merging, and the distances. Does not: measuring it (measures), or what is too far (drift).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import isfinite, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from lakehouse_assets.contracts.drift import RELATIONS
from lakehouse_assets.decisions.distances import TAIL_FLOOR
from lakehouse_assets.decisions.profiles import Profile

Floats = NDArray[np.float64]
# A direction in which the baseline varies less than this share of a feature's own variance is rounding, not a relation.
LEAST_VARIANCE = 1e-9
LEAST_RATIO = 1e-6
MOST_CORRELATED = 0.999999
# Rows of the baseline for each feature, below which its covariance says little.
ROWS_PER_FEATURE = 20
_GRID = np.linspace(-6.0, 6.0, 481)


@dataclass(frozen=True)
class Relations:
    """Of the rows of one batch and stratum in which every one of these features has a finite value.

    ``mean``: (p,), in the features' units; ``comoments``: Σ (x - x̄)(y - ȳ), the upper triangle row by row, p(p + 1)/2 numbers.
    Features of one `by` belong together; ``by`` is None for those without.
    """

    by: str | None
    stratum: str | None
    features: tuple[str, ...]
    rows: int
    mean: tuple[float, ...]
    comoments: tuple[float, ...]

    @property
    def key(self) -> tuple[str, str | None]:
        """What stands in the place of a feature, and the stratum."""
        return (relations_name(self.by), self.stratum)

    @property
    def too_large(self) -> list[str]:
        """Features with values so large that their squares are no finite numbers: of these nothing can be said or kept."""
        p = len(self.features)
        own = [self.comoments[i * p - i * (i - 1) // 2] for i in range(p)]
        return [n for n, m, v in zip(self.features, self.mean, own, strict=True) if not (isfinite(m) and isfinite(v))]

    def matrix(self) -> Floats:
        """(p, p): the covariance, of the rows (not of a population that they are drawn from)."""
        p = len(self.features)
        found = np.zeros((p, p))
        found[np.triu_indices(p)] = self.comoments
        found = found + np.triu(found, 1).T
        return found / max(self.rows, 1)

    def plus(self, other: "Relations") -> "Relations":
        """Of both batches' rows together (Chan, Golub and LeVeque, 1979). Raises ValueError for other features."""
        if other.features != self.features or other.key != self.key:
            raise ValueError(f"relations of {self.features} and of {other.features} cannot be merged")
        if not self.rows or not other.rows:
            return self if self.rows else other
        rows, step = self.rows + other.rows, np.array(other.mean) - np.array(self.mean)
        mean = np.array(self.mean) + step * (other.rows / rows)
        between = np.outer(step, step)[np.triu_indices(len(self.features))] * (self.rows * other.rows / rows)
        moments = np.array(self.comoments) + np.array(other.comoments) + between
        return Relations(self.by, self.stratum, self.features, rows, tuple(mean.tolist()), tuple(moments.tolist()))

    def minus(self, part: "Relations") -> "Relations":
        """The rest, when ``part`` is within it: the inverse of `plus`, up to rounding."""
        rows = self.rows - part.rows
        if rows <= 0:
            return Relations(self.by, self.stratum, self.features, 0, (0.0,) * len(self.mean), (0.0,) * len(self.comoments))
        mean = (np.array(self.mean) * self.rows - np.array(part.mean) * part.rows) / rows
        step = np.array(part.mean) - mean
        between = np.outer(step, step)[np.triu_indices(len(self.features))] * (rows * part.rows / self.rows)
        moments = np.array(self.comoments) - np.array(part.comoments) - between
        return Relations(self.by, self.stratum, self.features, rows, tuple(mean.tolist()), tuple(moments.tolist()))

    def pair(self, one: str, other: str) -> "Relations":
        """Two of the features alone. Raises ValueError for one that is not among them."""
        places = [self.features.index(one), self.features.index(other)]
        square = self.matrix()[np.ix_(places, places)] * self.rows
        moments = (float(square[0, 0]), float(square[0, 1]), float(square[1, 1]))
        mean = (self.mean[places[0]], self.mean[places[1]])
        return Relations(self.by, self.stratum, (one, other), self.rows, mean, moments)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe; `from_dict` reads it."""
        return {**vars(self), "features": list(self.features), "mean": list(self.mean), "comoments": list(self.comoments)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Relations":
        """The inverse of `to_dict`. Raises TypeError for another shape."""
        given = {**data, **{name: tuple(data[name]) for name in ("features", "mean", "comoments")}}
        return cls(**given)


Measured = Profile | Relations


def read_measured(data: Mapping[str, Any]) -> Measured:
    """What `Profile.to_dict` or `Relations.to_dict` made. Raises SketchError and TypeError as they do."""
    return Relations.from_dict(data) if "features" in data else Profile.from_dict(data)


class Apart(NamedTuple):
    """How far a batch's relations are from a baseline's. Every number is the same whatever the features' units.

    ``statistics``: ``means``, the Mahalanobis distance of the batch's mean from the baseline's; ``scatter``, √Σ(λ - 1 - ln
    λ) over the variances λ of the batch along its own principal components, after whitening by the baseline (0 where all
    are 1); of each feature ``spread x``, |ln| of the ratio of its deviations; of each pair ``pair x ~ y``, the change of
    Fisher's z of its correlation. The single ones are there because one feature with a heavy tail would drown the others in
    the sum. ``effects``: of each the tail-weighted distance of two normal distributions that differ so: what `min_effect`
    is compared with. ``correlations``: (x, y, before, now).
    """

    statistics: dict[str, float]
    effects: dict[str, float]
    correlations: tuple[tuple[str, str, float, float], ...]


def relations_name(by: str | None) -> str:
    """What the relations of these features are called among the features."""
    return RELATIONS if by is None else f"{RELATIONS} by {by}"


def relations_of(features: Mapping[str, Floats], by: str | None = None, stratum: str | None = None) -> Relations:
    """From columns of equal length, NaN where there is no value."""
    names = tuple(features)
    given = np.column_stack([np.asarray(features[name], dtype=float) for name in names])
    rows = given[np.isfinite(given).all(axis=1)]
    with np.errstate(over="ignore", invalid="ignore"):  # `too_large` tells of it
        mean = rows.mean(axis=0) if len(rows) else np.zeros(len(names))
        moments = (rows - mean).T @ (rows - mean)
    upper = moments[np.triu_indices(len(names))]
    return Relations(by, stratum, names, len(rows), tuple(mean.tolist()), tuple(upper.tolist()))


def merge_relations(given: Iterable[Relations]) -> Relations:
    """All of them together, in this order. Raises ValueError for none, or for other features."""
    merged: Relations | None = None
    for each in given:
        merged = each if merged is None else merged.plus(each)
    if merged is None:
        raise ValueError("there are no relations to merge")
    return merged


def apart(batch: Relations, baseline: Relations) -> Apart | None:
    """How far a batch is from a baseline; None where either has too few rows to say, or is `too_large`, or the features are not
    the same.

    The baseline whitens: along its principal components its own variance is 1. The batch's principal components in that space
    are the directions in which the two differ most (they solve the generalized eigenproblem of the two covariances).
    """
    p = len(batch.features)
    if batch.features != baseline.features or batch.rows < p + 2 or baseline.rows < ROWS_PER_FEATURE * p:
        return None
    if batch.too_large or baseline.too_large:
        return None
    before, now = baseline.matrix(), batch.matrix()
    scale = np.sqrt(np.diag(before))
    varying = scale > 1e-12 * np.maximum(1.0, np.abs(np.array(baseline.mean)))
    if not varying.any():
        return None
    names = [name for name, v in zip(batch.features, varying, strict=True) if v]
    unit = scale[varying]
    old, new = (m[np.ix_(varying, varying)] / np.outer(unit, unit) for m in (before, now))
    step = (np.array(batch.mean) - np.array(baseline.mean))[varying] / unit
    values, vectors = np.linalg.eigh(old)
    kept = values > LEAST_VARIANCE
    whiten = vectors[:, kept] / np.sqrt(values[kept])
    along, turned = np.linalg.eigh(whiten.T @ new @ whiten)
    # A batch that does not vary at all in a direction is far off, not infinitely far.
    along = np.maximum(along, LEAST_RATIO)
    shift = turned.T @ (whiten.T @ step)
    length = float(np.sqrt(shift @ shift))
    statistics = {"means": length, "scatter": float(np.sqrt(max(0.0, float((along - 1.0 - np.log(along)).sum()))))}
    widest = max(along, key=lambda ratio: abs(np.log(ratio)))
    effects = {"means": _shifted(length), "scatter": _spread(float(widest))}
    for name, ratio in zip(names, np.sqrt(np.maximum(np.diag(new), LEAST_RATIO)).tolist(), strict=True):
        statistics[f"spread {name}"] = abs(float(np.log(ratio)))
        effects[f"spread {name}"] = _spread(ratio**2)
    correlations = _correlations(names, old, new)
    for one, other, r, s in correlations:
        pair = f"pair {one} ~ {other}"
        # Fisher's z: from 0.98 to 0.99 is as much as from 0 to 0.33.
        statistics[pair] = abs(float(np.arctanh(s) - np.arctanh(r)))
        ratios = (1.0 + s) / (1.0 + r), (1.0 - s) / (1.0 - r)
        effects[pair] = max(map(_spread, ratios))
    return Apart(_rounded(statistics), _rounded(effects), correlations)


def farthest_pair(batch: Relations, baseline: Relations, statistic: str | None = None) -> tuple[Relations, Relations] | None:
    """The two features by which the two differ most, of both; of those that ``statistic`` names, where it names any."""
    named = _named_by(statistic)
    best: tuple[float, Relations, Relations] | None = None
    for one, other in combinations(batch.features, 2):
        if not named <= {one, other}:
            continue
        now, before = batch.pair(one, other), baseline.pair(one, other)
        found = apart(now, before)
        if found and (best is None or max(found.effects.values()) > best[0]):
            best = (max(found.effects.values()), now, before)
    return best[1:] if best else None


def _named_by(statistic: str | None) -> set[str]:
    """The features in `spread x` and `pair x ~ y`."""
    kind, _, rest = (statistic or "").partition(" ")
    return {rest} if kind == "spread" else set(rest.split(" ~ ")) if kind == "pair" else set()


def normal_tail_distance(shift: float, deviation: float) -> float:
    """sup|G - F| / √max(F(1 - F), 0.01) of G = N(shift, deviation²) from F = N(0, 1)."""
    below = ndtr(_GRID)
    gap = np.abs(ndtr((_GRID - shift) / deviation) - below)
    return float((gap / np.sqrt(np.maximum(below * (1.0 - below), TAIL_FLOOR))).max())


@lru_cache(maxsize=1)
def _tables() -> tuple[Floats, Floats, Floats, Floats]:
    """Shifts and logarithms of deviations, each with its distance: twenty features have hundreds of them to look up."""
    shifts, logs = np.linspace(0.0, 6.0, 601), np.linspace(-7.0, 7.0, 1401)
    return (
        shifts, np.array([normal_tail_distance(shift, 1.0) for shift in shifts.tolist()]),
        logs, np.array([normal_tail_distance(0.0, deviation) for deviation in np.exp(logs).tolist()]),
    )  # fmt: skip


def _shifted(shift: float) -> float:
    shifts, found, _, _ = _tables()
    return float(np.interp(shift, shifts, found))


def _spread(ratio: float) -> float:
    """Of two normal distributions the variances of which have this ratio."""
    _, _, logs, found = _tables()
    return float(np.interp(0.5 * log(max(ratio, LEAST_RATIO)), logs, found))


def _rounded(given: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 9) for name, value in given.items()}


def _correlations(names: list[str], old: Floats, new: Floats) -> tuple[tuple[str, str, float, float], ...]:
    """Of every pair, before and now; kept off 1, where Fisher's z has no end."""
    deviations = np.sqrt(np.maximum(np.diag(new), LEAST_RATIO))
    before, now = (np.clip(m, -MOST_CORRELATED, MOST_CORRELATED) for m in (old, new / np.outer(deviations, deviations)))
    p = len(names)
    return tuple((names[i], names[j], float(before[i, j]), float(now[i, j])) for i in range(p) for j in range(i + 1, p))
