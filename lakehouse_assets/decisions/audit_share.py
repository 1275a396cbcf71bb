"""What a sample says of a share of the whole table: an estimate, an exact interval, and one of three answers.

Belongs here: intervals (SciPy), inclusion probabilities, pass | fail | inconclusive. Does not: drawing samples (measures), or
what an answer means for a table (audit).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1
from typing import Literal

import numpy as np
from scipy.stats import beta

CONFIDENCE = 0.95
Answer = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class Share:
    """The share of rows that pass: ``estimate`` within ``low`` and ``high``. ``exact``: every row of the table was looked at.

    ``looked_at``, ``failed``: rows, as they were counted, not weighed.
    """

    estimate: float
    low: float
    high: float
    exact: bool
    looked_at: int
    failed: int

    def answer(self, threshold: float) -> Answer:
        """Whether the share is at least ``threshold``, as far as is known."""
        if self.low >= threshold:
            return "pass"
        return "fail" if self.high < threshold else "inconclusive"


def counted(rows: int, failed: int) -> Share:
    """Of a table that was looked at in full. One of no rows keeps every promise about rows."""
    share = (rows - failed) / rows if rows else 1.0
    return Share(share, share, share, True, rows, failed)


def clopper_pearson(passed: float, rows: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a share of ``passed`` in ``rows`` (need not be whole numbers): it covers the true share in at least
    ``confidence`` of all samples, whatever that share is.
    """
    tail = (1 - confidence) / 2
    low = 0.0 if passed <= 0 else float(beta.ppf(tail, passed, rows - passed + 1))
    high = 1.0 if passed >= rows else float(beta.ppf(1 - tail, passed + 1, rows - passed))
    return low, high


def of_uniform(rows: int, failed: int, whole: int, confidence: float = CONFIDENCE) -> Share:
    """Of a sample in which every row of the table was equally likely. ``whole``: rows of the table.

    Drawn without putting back, a sample tells a little more than the interval takes it to: it is never too narrow.
    """
    if rows >= whole:
        return counted(rows, failed)
    if not rows:
        return Share(1.0, 0.0, 1.0, False, 0, 0)
    low, high = clopper_pearson(rows - failed, rows, confidence)
    # A row that fails is a fact: all rows pass only if none was seen to fail.
    return Share((rows - failed) / rows, low, min(high, 1 - failed / whole), False, rows, failed)


def inclusion(weight: float, cut: float) -> float:
    """How likely a row of this weight is in a sample whose first row left out has the priority ``cut`` (of `-ln(u) /
    weight`)."""
    return -expm1(-weight * cut)


def of_weighted(failed: Sequence[bool], probabilities: Sequence[float], whole: int, confidence: float = CONFIDENCE) -> Share:
    """Of a weighted sample: each row counts for as many as it stands for, ``1 / probability`` (Hájek's estimate).

    The interval is that of Korn and Graubard: Clopper-Pearson's at the *effective* sample size, which is the rows that a
    uniform sample would need for the same variance; the lesser of the one by the estimate's own variance and of Kish's by the
    weights, so that it also holds where all rows pass.
    """
    rows = len(failed)
    if rows >= whole:
        return counted(rows, sum(failed))
    if not rows:
        return Share(1.0, 0.0, 1.0, False, 0, 0)
    weights = 1 / np.asarray(probabilities, dtype=float)
    passed = 1.0 - np.asarray(failed, dtype=float)
    total = float(weights.sum())
    share = float((weights * passed).sum() / total)
    effective = total**2 / float((weights**2).sum())
    variance = float((weights**2 * (passed - share) ** 2).sum()) / total**2 * rows / max(rows - 1, 1)
    if variance > 0:
        effective = min(effective, share * (1 - share) / variance)
    effective = max(min(effective, rows), 1.0)
    low, high = clopper_pearson(share * effective, effective, confidence)
    count = int(sum(failed))
    return Share(share, low, min(high, 1 - count / whole), False, rows, count)


def cut_for(groups: Sequence[tuple[float, int]], wanted: float) -> float:
    """The priority below which ``wanted`` rows are expected, of ``(weight, rows)`` of each group; infinite where there are
    fewer."""
    if sum(rows for _, rows in groups) <= wanted:
        return float("inf")

    def expected(cut: float) -> float:
        return sum(rows * (1 - exp(-weight * cut)) for weight, rows in groups)

    low, high = 0.0, 1.0
    while expected(high) < wanted:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(middle) < wanted else (low, middle)
    return high


def group_weights(counts: Sequence[int]) -> list[float]:
    """The weight of a row of each group, such that half of a sample is drawn in proportion and half evenly over the groups.

    No estimate of the whole table then needs more than twice the rows of a uniform sample, and a group of one row is nearly as
    sure to be there as one of many.
    """
    whole, groups = sum(counts), max(len(counts), 1)
    return [1.0 + whole / groups / count if count else 1.0 for count in counts]
