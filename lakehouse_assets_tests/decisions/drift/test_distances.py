"""Distances between step functions, against scipy and against brute force.

Belongs here: Ecdf and the two distances. Does not: what a distance means.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lakehouse_assets.decisions.drift.distances import FARTHEST, Ecdf, compare_ecdfs, read_ecdf
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets_tests.decisions.drift.test_profiles import profile

# Few distinct values, so that atoms coincide; and some that do not.
NUMBERS = st.one_of(st.integers(-5, 5).map(float), st.floats(-1e6, 1e6, allow_nan=False))
SAMPLES = st.lists(NUMBERS, min_size=1, max_size=40)


def brute_force(batch, baseline):
    """Both suprema over every atom of either, taken with it and approached from the left."""
    ks = tail = 0.0
    for x in [*batch, *baseline]:
        for below in (np.less, np.less_equal):
            g, f = below(batch, x).mean(), below(baseline, x).mean()
            ks = max(ks, abs(g - f))
            tail = max(tail, abs(g - f) / np.sqrt(max(f * (1 - f), 0.01)))
    return ks, tail


@pytest.mark.filterwarnings("ignore:divide by zero")  # within scipy's p-value, which is not looked at
@settings(max_examples=300, deadline=None)
@given(SAMPLES, SAMPLES)
def test_as_brute_force_and_scipy(batch, baseline):
    actual = compare_ecdfs(Ecdf.of(batch), Ecdf.of(baseline))
    assert actual[:2] == pytest.approx(brute_force(np.array(batch), np.array(baseline)), abs=1e-8)
    assert actual.ks == pytest.approx(stats.ks_2samp(batch, baseline, method="asymp").statistic, abs=1e-8)


@settings(max_examples=200, deadline=None)
@given(st.lists(SAMPLES, min_size=2, max_size=6))
def test_merging_in_any_order_is_as_if_together(parts):
    merged = Ecdf.of(parts[0])
    for part in parts[1:]:
        merged = merged.plus(Ecdf.of(part))
    complete = Ecdf.of(np.concatenate(parts))
    assert np.array_equal(merged.values, complete.values)
    assert np.array_equal(merged.weights, complete.weights)


@settings(max_examples=200, deadline=None)
@given(SAMPLES, SAMPLES)
def test_leaving_the_batch_out_is_as_never_having_had_it(batch, rest):
    both = Ecdf.of(rest).plus(Ecdf.of(batch))
    assert compare_ecdfs(Ecdf.of(batch), both, batch_is_inside=True) == pytest.approx(
        compare_ecdfs(Ecdf.of(batch), Ecdf.of(rest)), abs=1e-8
    )


@settings(max_examples=200, deadline=None)
@given(SAMPLES, st.floats(0, 1))
def test_quantiles_are_of_the_sample(sample, share):
    quantile = Ecdf.of(sample).quantiles([share])[0]
    assert quantile in sample
    assert np.mean(np.array(sample) <= quantile) >= share - 1e-8
    assert np.mean(np.array(sample) < quantile) <= share + 1e-8


@pytest.mark.parametrize(
    ("batch", "baseline", "ks"),
    [
        ([1, 2, 3], [1, 2, 3], 0.0),
        ([0] * 7, [0] * 100, 0.0),
        ([0, 0, 0, 1], [0, 1, 1, 1], 0.5),  # interpolating across the atoms would find something else
        ([5], [1, 2], 1.0),
        ([1], [5, 6], 1.0),
    ],
)
def test_cases(batch, baseline, ks):
    assert compare_ecdfs(Ecdf.of(batch), Ecdf.of(baseline)).ks == ks


def test_the_tail_distance_detects_what_ks_misses():
    normal = stats.norm.ppf((np.arange(5000) + 0.5) / 5000)
    dirty = np.concatenate([normal[::5], np.full(20, 8.0)])
    actual = compare_ecdfs(Ecdf.of(dirty), Ecdf.of(normal))
    assert actual.ks < 0.025
    assert actual.tail > 0.15


def test_nothing_is_farther_than_a_silent_feature():
    assert compare_ecdfs(Ecdf.of([9.0]), Ecdf.of([1.0]))[:2] == FARTHEST[:2] == (1.0, 10.0)


@settings(max_examples=200, deadline=None)
@given(SAMPLES, SAMPLES)
def test_the_signed_distance_shows_which_is_higher(batch, baseline):
    there, back = (compare_ecdfs(Ecdf.of(a), Ecdf.of(b)).signed for a, b in ((batch, baseline), (baseline, batch)))
    assert there == pytest.approx(-back, abs=1e-8)
    if min(batch) > max(baseline):
        assert there == 1.0


@given(st.lists(st.tuples(NUMBERS, st.floats(0.01, 50)), min_size=1, max_size=60), st.integers(1, 40))
def test_thinned_to_the_middles_of_equal_shares(rows, size):
    """The same to the last digit as each middle by itself."""
    merged = Ecdf.of(*zip(*rows, strict=True))
    middles = [merged.values[np.searchsorted(merged.cumulated, (k + 0.5) * (merged.total / size))] for k in range(size)]
    wanted, thin = Ecdf.of(middles, [merged.total / size] * size), merged.thinned(size)
    assert thin.values.tolist() == wanted.values.tolist()
    assert thin.weights.tolist() == wanted.weights.tolist()
    assert thin.cumulated.tolist() == wanted.cumulated.tolist()


def test_thinning_moves_no_rank_by_more_than_half_a_step():
    values = np.random.default_rng(0).gamma(2, size=5000).round(2)
    complete = Ecdf.of(values)
    thin = complete.thinned(250)
    points = np.unique(values)
    gap = complete.weight_up_to(points) / complete.total - thin.weight_up_to(points) / thin.total
    assert thin.values.size <= 250
    assert thin.total == pytest.approx(complete.total)
    assert np.abs(gap).max() <= 0.5 / 250 + 1e-9


def test_a_baseline_stays_small():
    merged = Ecdf.of(np.arange(50.0))
    for i in range(1, 30):
        merged = merged.plus(Ecdf.of(np.arange(50.0) + i / 31), most=100)
        assert merged.values.size <= 200
    assert merged.total == pytest.approx(1500)
    assert merged.quantiles([0.5])[0] == pytest.approx(25, abs=0.5)


def test_a_sketch_within_its_size_is_exact():
    values = np.random.default_rng(1).normal(size=3000).round(1)
    actual, exact = read_ecdf(profile(values)), Ecdf.of(values)
    assert np.array_equal(actual.values, exact.values)
    assert np.array_equal(actual.weights, exact.weights)


def test_a_large_sketch_is_within_its_error():
    values = np.random.default_rng(2).normal(size=50_000)
    actual = read_ecdf(profile(values))
    assert actual.total == 50_000
    assert compare_ecdfs(actual, Ecdf.of(values)).ks < 0.003


@pytest.mark.parametrize("values", [[], [1.0, np.nan], [np.inf]])
def test_an_invalid_distribution_is_refused(values):
    with pytest.raises(ValueError, match="finite"):
        Ecdf.of(values)


def test_no_values_no_steps():
    assert read_ecdf(Profile("f", None, 5, 5)) is None


def test_a_batch_alone_has_no_baseline():
    with pytest.raises(ValueError, match="besides the batch"):
        compare_ecdfs(Ecdf.of([1.0]), Ecdf.of([1.0]), batch_is_inside=True)
