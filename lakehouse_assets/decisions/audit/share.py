"""A share of the whole table estimated from a sample: an estimate, an exact interval, and one of three answers.

Belongs here: intervals, inclusion probabilities, pass | fail | inconclusive. Does not: drawing samples (audit/sample), or what
an answer means for a table (verdict).
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
    """The share of rows that pass: ``estimate`` within ``low`` and ``high``. ``exact``: every row of the table was read.
    ``looked_at``, ``failed``: rows, unweighted.
    """

    estimate: float
    low: float
    high: float
    exact: bool
    looked_at: int
    failed: int

    def answer(self, threshold: float) -> Answer:
        """Whether the share is at least ``threshold``, or the interval leaves it open."""
        if self.low >= threshold:
            return "pass"
        return "fail" if self.high < threshold else "inconclusive"


def exact_share(rows: int, failed: int) -> Share:
    """Return the share of a table that was read in full. A table without rows passes."""
    share = (rows - failed) / rows if rows else 1.0
    return Share(share, share, share, True, rows, failed)


def clopper_pearson(passed: float, rows: float) -> tuple[float, float]:
    """Return the exact interval of a share of ``passed`` in ``rows`` (fractions allowed). It covers the true share in at least
    `CONFIDENCE` of all samples, whatever that share is.
    """
    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if passed <= 0 else float(beta.ppf(tail, passed, rows - passed + 1))
    high = 1.0 if passed >= rows else float(beta.ppf(1 - tail, passed + 1, rows - passed))
    return low, high


def uniform_share(rows: int, failed: int, table_rows: int) -> Share:
    """Return the share estimated from a uniform sample. ``table_rows``: rows of the table. Sampling without replacement carries
    a little more information than the interval assumes: it is never too narrow.
    """
    if rows >= table_rows:
        return exact_share(rows, failed)
    if not rows:
        return Share(1.0, 0.0, 1.0, False, 0, 0)
    low, high = clopper_pearson(rows - failed, rows)
    # A row that fails is a fact: all rows pass only if none was seen to fail.
    return Share((rows - failed) / rows, low, min(high, 1 - failed / table_rows), False, rows, failed)


def inclusion_probability(weight: float, cut: float) -> float:
    """Return a row's probability to be sampled. ``cut``: the first priority left out (of `-ln(u) / weight`)."""
    return -expm1(-weight * cut)


def weighted_share(failed: Sequence[bool], probabilities: Sequence[float], table_rows: int) -> Share:
    """Return the share estimated from a weighted sample: each row counts ``1 / probability`` (Hájek's estimate).

    The interval is Korn and Graubard's: Clopper-Pearson's at the *effective* sample size, the rows of a uniform sample with the
    same variance; or Kish's size by the weights, if that is less, so that it also holds if all rows pass.
    """
    rows = len(failed)
    if rows >= table_rows:
        return exact_share(rows, sum(failed))
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
    low, high = clopper_pearson(share * effective, effective)
    count = int(sum(failed))
    return Share(share, low, min(high, 1 - count / table_rows), False, rows, count)


def find_cut(groups: Sequence[tuple[float, int]], wanted: float) -> float:
    """Return the priority below which ``wanted`` rows are expected, from groups of ``(weight, rows)``; infinite for fewer."""
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
    """Return each group's row weight, such that half of a sample is drawn in proportion and half evenly over the groups. An
    estimate of the whole table then needs at most twice the rows of a uniform sample.
    """
    table_rows, groups = sum(counts), max(len(counts), 1)
    return [1.0 + table_rows / groups / count if count else 1.0 for count in counts]
