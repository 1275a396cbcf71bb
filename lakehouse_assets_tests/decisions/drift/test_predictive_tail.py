"""p-values beyond the ranks, and statistics of windows of unequal size.

Belongs here: these numbers against simulation and by hand. Does not: the verdict that they lead to (test_few_windows).
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.decisions.drift.predictive_tail import (
    LEAST_P,
    ORIGIN,
    PastScores,
    conformal_p_value,
    count_farthest,
    score_p_value,
    score_p_values,
)
from lakehouse_assets.decisions.drift.window_sizes import rescale

SCORES = st.lists(st.floats(-3, 1e6), min_size=1, max_size=60)


@given(SCORES, st.floats(-3, 1e9))
def test_a_tail_only_refines_what_is_beyond_all(past, now):
    past = np.array(past)
    p = score_p_value(past, now)
    assert LEAST_P <= p <= conformal_p_value(past, now) <= 1
    if (past >= now - 1e-9).any():
        assert p == conformal_p_value(past, now)


@given(SCORES, st.floats(0, 1e6), st.floats(0, 1e6))
def test_farther_off_is_never_more_probable(past, one, other):
    near, far = sorted((one, other))
    assert score_p_value(np.array(past), far) <= score_p_value(np.array(past), near) + 1e-15


def test_unknown_windows_do_not_count():
    past = np.random.default_rng(0).normal(size=40)
    assert score_p_value(np.concatenate((past, np.full(9, -np.inf))), 4.0) == score_p_value(past, 4.0)
    assert score_p_value(np.array([]), 4.0) == 1.0
    assert score_p_value(np.array([1.0]), 4.0) == 0.5


@given(st.lists(st.lists(st.one_of(st.just(-np.inf), st.floats(-3, 1e3)), min_size=4, max_size=4), max_size=30), SCORES)
def test_scores_of_one_past_are_as_each_by_itself(past, scores):
    """A past is sorted once for many scores, and many pasts are counted together: to the last digit the same p-values."""
    past, now = np.array(past).reshape(-1, 4), np.resize(np.array(scores), 4)
    assert score_p_values(past, now) == [score_p_value(past[:, column], now[column]) for column in range(4)]
    shared = PastScores.of(past[:, 0])
    assert [shared.p_value(score) for score in scores] == [score_p_value(past[:, 0], score) for score in scores]
    present = past[past[:, 0] > -np.inf, 0]
    ranks = [(1 + sum(each >= score - 1e-9 for each in present)) / (len(present) + 1) for score in scores]
    assert [shared.rank(score) for score in scores] == ranks


def test_windows_that_were_all_equal():
    assert score_p_value(np.zeros(30), 0.0) == 1.0
    assert 1e-3 < score_p_value(np.zeros(30), 0.5) <= 1 / 31
    assert score_p_value(np.zeros(30), 1000.0) < 1e-6


@pytest.mark.parametrize("windows", [28, 60])
@pytest.mark.parametrize("level", [0.01, 0.002])
def test_the_rate_is_kept_where_the_tail_is_what_it_is_taken_for(windows, level):
    """Pareto scores: levels below the ranks' resolution are kept, by 6,000 draws."""
    rng = np.random.default_rng([windows, 3])
    draws = (1.0 - ORIGIN) * (rng.pareto(6.0, size=(6_000, windows + 1)) + 1.0) + ORIGIN
    rate = np.mean([score_p_value(row[:-1], row[-1]) <= level for row in draws])
    assert 0.5 * level <= rate <= 1.5 * level


def test_how_many_are_farthest():
    assert [count_farthest(windows) for windows in (2, 3, 28, 100, 400)] == [1, 2, 8, 15, 30]


def rescaled(values, sizes, now, sampling=1.0, two_sided=False):
    column = np.array(values, dtype=float)[:, None], np.array(sizes, dtype=float)[:, None]
    return rescale(*column, np.array([float(now)]), np.array([sampling]), np.array([two_sided]))[:, 0]


def test_nothing_changes_among_equal_sizes():
    values = np.random.default_rng(1).random(30)
    assert rescaled(values, [500] * 30, 500) == pytest.approx(values)
    assert rescaled(values, [500] * 30, 900) == pytest.approx(values), "a larger window is not nearer"
    assert rescaled(values, [500] * 30, 125) == pytest.approx(2 * values), "a smaller one is farther by chance"


def test_pure_sampling_is_scaled_by_the_root_of_the_size():
    rng = np.random.default_rng(2)
    sizes = rng.integers(200, 2001, 400)
    values = np.abs(rng.normal(size=400)) / np.sqrt(sizes)
    assert rescaled(values, sizes, 2000) == pytest.approx(values * np.sqrt(sizes / 2000), rel=0.1)


def test_what_windows_differ_by_is_not_scaled():
    rng = np.random.default_rng(3)
    sizes, values = rng.integers(20_000, 200_000, 400), np.abs(rng.normal(size=400))
    assert rescaled(values, sizes, 20_000) == pytest.approx(values, rel=0.05)


def test_a_two_sided_statistic_is_scaled_around_its_mean():
    values = np.full(30, -6.9)
    assert rescaled(values, [500] * 30, 125, two_sided=True) == pytest.approx(values)


def test_unknown_values_stay_unknown():
    assert np.isnan(rescaled([np.nan, 1.0, np.nan], [np.nan, 10, 20], 5)).tolist() == [True, False, True]
    assert rescaled([0.0, 0.0], [10, 20], 5).tolist() == [0.0, 0.0]
