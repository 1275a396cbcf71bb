"""Shares from samples, by tables and by simulation: how often an interval holds, how often an answer is wrong or open.

Belongs here: the figures that decisions/audit/share.py promises. Does not: rows (audit/test_sample.py).
"""

from functools import cache
from math import inf

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from lakehouse_assets.decisions.audit.share import (
    clopper_pearson,
    exact_share,
    find_cut,
    group_weights,
    inclusion_probability,
    uniform_share,
    weighted_share,
)

ROWS = 1000


@pytest.mark.parametrize(("passed", "rows"), [(0, 10), (1, 10), (10, 10), (981, 1000), (3, 7)])
def test_the_interval_is_the_exact_one(passed, rows):
    expected = binomtest(passed, rows).proportion_ci(0.95, method="exact")
    assert clopper_pearson(passed, rows) == pytest.approx((expected.low, expected.high))


# Of each outcome at 1,000 rows, by the number of failed ones.
ESTIMATES = cache(lambda: [uniform_share(ROWS, failed, 10**9) for failed in range(ROWS + 1)])


def likelihoods(share: float) -> list[float]:
    """How likely each of those outcomes is."""
    return binom.pmf(np.arange(ROWS, -1, -1), ROWS, share).tolist()


def answers(share: float, threshold: float) -> dict[str, float]:
    """How likely each answer is at 1,000 rows: the sum over every outcome, not a simulation."""
    shares = {"pass": 0.0, "fail": 0.0, "inconclusive": 0.0}
    for estimate, likelihood in zip(ESTIMATES(), likelihoods(share), strict=True):
        shares[estimate.answer(threshold)] += likelihood
    return shares


@pytest.mark.parametrize("threshold", [0.35, 0.5, 0.95, 0.98])
def test_one_point_off_is_hardly_ever_called_wrong_and_five_points_off_hardly_ever_left_open(threshold):
    assert answers(threshold - 0.01, threshold)["pass"] < 0.01
    assert answers(threshold + 0.01, threshold)["fail"] < 0.01
    for share in (threshold - 0.05, threshold + 0.05):
        if share <= 1:
            assert answers(share, threshold)["inconclusive"] < 0.2


@pytest.mark.parametrize("share", [0.3, 0.9, 0.98, 0.999])
def test_the_interval_covers(share):
    outcomes = zip(ESTIMATES(), likelihoods(share), strict=True)
    assert sum(likelihood for estimate, likelihood in outcomes if estimate.low <= share <= estimate.high) >= 0.95


def weighted_sample(dice, sizes, failing, wanted):
    """A draw as the sampler makes it, by its own weights: ``(failed, probabilities)``."""
    weights = np.repeat(group_weights(sizes), sizes)
    failed = np.concatenate([dice.random(size) < share for size, share in zip(sizes, failing, strict=True)])
    order = -np.log(dice.random(len(weights))) / weights
    least = np.argpartition(order, wanted)[: wanted + 1]
    cut = order[least].max()
    drawn = least[order[least] < cut]
    return failed, failed[drawn], [inclusion_probability(w, cut) for w in weights[drawn]]


@pytest.mark.parametrize("failing", [(0.02, 0.02, 0.02), (0.01, 0.3, 0.5), (0.2, 0.0, 1.0)])
def test_a_weighted_sample_is_weighed_back_without_bias_and_its_interval_covers(failing):
    dice = np.random.default_rng(9)
    covered, off, true = 0, [], 0.0
    for _ in range(1200):
        all_failed, failed, likely = weighted_sample(dice, [9000, 900, 100], failing, 300)
        true = 1 - all_failed.mean()
        share = weighted_share(failed.tolist(), likely, len(all_failed))
        covered += share.low <= true <= share.high
        off.append(share.estimate - true)
    assert covered / 1200 >= 0.94
    assert abs(np.mean(off)) < 4 * np.std(off) / np.sqrt(len(off)) + 1e-4


def test_weighing_costs_at_most_half_of_the_rows():
    sizes = [990_000, *[50] * 199]
    weights = group_weights(sizes)
    cut = find_cut(list(zip(weights, sizes, strict=True)), 1000)
    likely = [inclusion_probability(w, cut) for w in weights]
    drawn = [p * n for p, n in zip(likely, sizes, strict=True)]
    assert sum(drawn) == pytest.approx(1000, rel=1e-6)
    assert drawn[0] == pytest.approx(500, rel=0.05)
    assert min(drawn[1:]) > 2


def test_cut_takes_all_where_there_are_too_few():
    assert find_cut([(1.0, 10)], 10) == inf
    assert inclusion_probability(1.0, inf) == 1.0


def test_a_sample_of_everything_is_exact_and_one_failing_row_disproves_all():
    complete = uniform_share(50, 1, 50)
    assert (complete.low, complete.high, complete.exact) == (0.98, 0.98, True)
    assert weighted_share([True, False], [1.0, 1.0], 2) == exact_share(2, 1)
    assert uniform_share(1000, 1, 10**6).answer(1.0) == "fail"
    assert weighted_share([True] + [False] * 999, [0.001] * 1000, 10**6).answer(1.0) == "fail"
    assert uniform_share(1000, 0, 10**6).answer(1.0) == "inconclusive"
    assert uniform_share(0, 0, 10**6).answer(0.5) == "inconclusive"
    assert exact_share(0, 0).answer(1.0) == "pass"
