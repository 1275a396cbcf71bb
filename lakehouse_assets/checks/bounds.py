"""A figure between two bounds: what many kinds promise of a batch.

Belongs here: the rule that one bound is needed and which order they have, and the judgement. Does not: any figure.
"""

from math import isinf, isnan
from typing import Any

from lakehouse_assets.checks.base import Judgement

# Two sums of the same fractions, added in another order, differ by a smaller share.
ROUNDING = 1e-9


def bounded(what: str, low: float | None, high: float | None, least: float | None = None) -> None:
    """Raise ValueError unless there is a bound that can be missed, and the lower one is not above the upper one.

    ``least``: the least figure that there can be.
    """
    if low is None and high is None:
        raise ValueError(f"{what} needs min, max or both")
    if high is None and least is not None and low == least:
        raise ValueError(f"min {low} can never be missed; say max, or a greater min")
    if low is not None and high is not None and low > high:
        raise ValueError(f"min {low} is above max {high}")


def judge_bounds(what: str, value: Any, low: float | None, high: float | None) -> Judgement:
    """Fails outside the bounds, and where there is no value to compare: NULL, NaN, an infinity, which only one of two bounds
    could be held against.
    """
    observed = {"value": value, "min": low, "max": high}
    if value is None or (isinstance(value, float) and isnan(value)):
        return Judgement("failed", observed, f"{what} has no value")
    if isinf(value):
        return Judgement("failed", observed, f"{what} is infinite")
    if low is not None and value < low:
        return Judgement("failed", observed, f"{what} is {value:.10g}, promised at least {low:.10g}")
    if high is not None and value > high:
        return Judgement("failed", observed, f"{what} is {value:.10g}, promised at most {high:.10g}")
    return Judgement("passed", observed)
