"""How large a change is, in one unit for all statistics: the tail-weighted distance, which `min_effect` bounds.

Belongs here: effects of a change from what is usual, and of the volume. Does not: effects of whole distributions (distances,
levels, relations, texts).
"""

from math import exp, log, log2, log10, sqrt, tanh

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.levels import EFFECT_OF_TWICE
from lakehouse_assets.decisions.drift.relations import shift_effect, spread_effect


def volume_effect(log_ratio: float, spec: DriftSpec) -> float:
    """Of log10 of the rows beside the expected: at `min_effect` where the ratio is at its bound, `min_volume_change`."""
    least = 1.0 - spec.min_volume_change
    size = abs(log_ratio) / abs(log10(least)) if 0 < least < 1 else float(log_ratio != 0.0) * 2
    return round(spec.min_effect * size if spec.min_effect else max(0.0, size - 1.0), 9)


def distinct_effect(log2_ratio: float) -> float:
    """Of log2 of the share of distinct values beside the expected: at the default of `min_effect` where a quarter is gone."""
    return round(abs(log2_ratio) / -log2(0.75) * EFFECT_OF_TWICE, 9)


def effect_of_surprise(statistic: str, change: float, effect: float, spec: DriftSpec) -> float:
    """The effect of a statistic's ``change`` from what is usual. ``effect``: that of its distance from the whole baseline,
    which is kept where a change says less: missing values and texts.
    """
    size = min(abs(change), 50.0)
    if statistic == "volume":
        return volume_effect(change, spec)
    if statistic == "distinct":
        return distinct_effect(change)
    if statistic in ("location", "means"):
        surprise = shift_effect(size)
    elif statistic == "scale" or statistic.startswith("spread "):
        surprise = max(spread_effect(exp(2 * size)), spread_effect(exp(-2 * size)))
    elif statistic in ("low", "high"):
        surprise = EFFECT_OF_TWICE * size / log(2)
    elif statistic == "ks":
        surprise = 2 * size  # in the middle, where the weight is two
    elif statistic in ("g", "folded"):
        surprise = sqrt(2) * size
    elif statistic in ("tail", "folded_tail"):
        surprise = size
    elif statistic == "scatter":
        surprise = spread_effect(1 + sqrt(2) * size)
    elif statistic.startswith("pair "):
        surprise = spread_effect(1 + tanh(size))
    else:
        surprise = effect
    return round(float(surprise), 9)
