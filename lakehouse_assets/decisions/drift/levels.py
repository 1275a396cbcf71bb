"""Where a number's values lie, how widely, and how far out the farthest are: beside the distances of whole distributions.

Belongs here: these statistics of a batch beside the baseline. Does not: distances (distances), or what is too far (judge).
"""

from math import asinh, isfinite, log, log2
from typing import Any, NamedTuple

import numpy as np

from lakehouse_assets.decisions.drift.distances import Ecdf, Floats
from lakehouse_assets.decisions.drift.relations import shift_effect, spread_effect
from lakehouse_assets.decisions.drift.statistic_history import FARTHEST_OFF

# Location and scale are of the values between these quantiles of the baseline: the others are drawn in to them.
INNER = (0.005, 0.995)
STEPS = 4096
# Deviations below so many units of the baseline are none.
LEAST_RATIO = 1e-3
# Twice as far out as anything in the baseline has this effect: the default of `min_effect`.
EFFECT_OF_TWICE = 0.05


class FeatureComparison(NamedTuple):
    """Statistics of a batch. ``effects``: how large each change is, as a tail-weighted distance. ``figures``: what a
    message shows of some, before and now, in the feature's unit or as a share. ``deviation``: the baseline's, in that unit.
    """

    statistics: dict[str, float]
    effects: dict[str, float]
    figures: dict[str, tuple[float, float]]
    deviation: float | None = None


NOTHING = FeatureComparison({}, {}, {})


def compare_levels(batch: Ecdf, baseline: Ecdf, *, batch_is_inside: bool = False) -> FeatureComparison:
    """Compare where a batch's values lie, how widely they vary, and how far out the farthest are.

    ``location``: the difference of the winsorized means in deviations of the baseline; ``scale``: ln of the ratio of the
    winsorized deviations (Tukey, 1962). ``low``, ``high``: how far the least and the largest value are from the baseline's
    median, as asinh of half the width between the 0.5 % quantiles. ``batch_is_inside``: the baseline holds the batch.
    """
    low, high, middle = baseline.quantiles((*INNER, 0.5)).tolist()
    scale = _Scale.of(low, high, middle)
    points = [batch.values[0], batch.values[-1], baseline.values[0], baseline.values[-1], low, high]
    least, largest, least_before, largest_before, inner_low, inner_high = _scaled(points, scale).tolist()
    own = _sums(batch, (low, high), (inner_low, inner_high), scale)
    # Its moments are as exact from a few thousand steps.
    steps = baseline.thinned(STEPS) if baseline.values.size > 2 * STEPS else baseline
    rest = _sums(steps, (low, high), (inner_low, inner_high), scale) - (own if batch_is_inside else 0.0)
    if rest[0] <= 0:
        return NOTHING
    (mean, deviation), (normal_mean, normal) = _moments(own), _moments(rest)
    normal, deviation = max(normal, LEAST_RATIO), max(deviation, LEAST_RATIO)
    ends, before = {"low": -least, "high": largest}, {"low": -least_before, "high": largest_before}
    ratio = deviation / normal
    location = (mean - normal_mean) / normal
    statistics = {"location": location, "scale": log(ratio), **{name: asinh(value) for name, value in ends.items()}}
    beyond = {name: EFFECT_OF_TWICE * max(0.0, log2(max(end, 1e-9) / max(before[name], 1.0))) for name, end in ends.items()}
    effects = {"location": shift_effect(abs(location)), "scale": spread_effect(ratio**2), **beyond}
    figures = {name: (float(baseline.values[i]), float(batch.values[i])) for name, i in (("low", 0), ("high", -1))}
    unit = normal * scale.unit
    return FeatureComparison(_rounded(statistics), _rounded(effects), figures, unit if isfinite(unit) else None)


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(float(value), 9) for name, value in values.items()}


class _Scale(NamedTuple):
    """The baseline's median, and half the width of its inner part; where that is a point, what differs visibly from it."""

    middle: float
    unit: float

    @classmethod
    def of(cls, low: float, high: float, middle: float) -> "_Scale":
        return cls(middle, max(high / 2.0 - low / 2.0, 1e-6 * abs(middle), 1e-12))


def _scaled(values: Any, scale: _Scale) -> Any:
    """(values - middle) / unit, without an overflow on the way."""
    with np.errstate(over="ignore"):
        return np.clip((np.asarray(values) / 2.0 - scale.middle / 2.0) / (scale.unit / 2.0), -FARTHEST_OFF, FARTHEST_OFF)


def _sums(sample: Ecdf, bounds: tuple[float, float], scaled: tuple[float, float], scale: _Scale) -> Floats:
    """Rows, and the first two moments around the middle, of the values drawn in to ``bounds``, which are ``scaled``; not
    divided.
    """
    first, last = np.searchsorted(sample.values, bounds, side="right").tolist()
    weights, offsets = sample.weights[first:last], _scaled(sample.values[first:last], scale)
    below = float(sample.cumulated[first - 1]) if first else 0.0
    above = sample.total - (float(sample.cumulated[last - 1]) if last else 0.0)
    one, other = scaled
    weighted = weights * offsets
    first_moment = below * one + float(weighted.sum()) + above * other
    return np.array([sample.total, first_moment, below * one**2 + float(weighted @ offsets) + above * other**2])


def _moments(sums: Floats) -> tuple[float, float]:
    """Mean around the middle, and deviation."""
    mean = float(sums[1] / sums[0])
    return mean, float(np.sqrt(max(sums[2] / sums[0] - mean**2, 0.0)))
