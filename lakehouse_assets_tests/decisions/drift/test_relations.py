"""How features go together: measured, merged, and how far from a baseline's.

Belongs here: relations alone. Does not: verdicts on them (test_kinds_of_drift).
"""

import json
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lakehouse_assets.decisions.drift.relations import (
    Relations,
    compare_relations,
    compute_relations,
    normal_tail_distance,
    read_measurement,
)

NUMBERS = st.floats(-1e3, 1e3)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=30)


def of(rows) -> Relations:
    values = np.array(rows, dtype=float).reshape(-1, 3)
    return compute_relations({name: values[:, i] for i, name in enumerate("abc")})


def draw(n, r=0.8, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    z[:, 1] = r * z[:, 0] + np.sqrt(1 - r * r) * z[:, 1]
    return z


@settings(max_examples=200, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=5))
def test_merged_is_as_measured_together(parts):
    merged, complete = reduce(Relations.plus, [of(part) for part in parts]), of([row for part in parts for row in part])
    assert merged.rows == complete.rows
    assert merged.mean == pytest.approx(complete.mean, abs=1e-9)
    assert merged.comoments == pytest.approx(complete.comoments, rel=1e-9, abs=1e-4)


@settings(max_examples=200, deadline=None)
@given(ROWS, ROWS)
def test_subtracting_a_part_leaves_the_rest(part, rest):
    remainder = of(part).plus(of(rest)).minus(of(part))
    assert remainder.mean == pytest.approx(of(rest).mean, abs=1e-6)
    assert remainder.comoments == pytest.approx(of(rest).comoments, rel=1e-6, abs=1e-3)


def test_as_numpy_has_it_and_far_from_zero():
    rows = draw(500) + np.array([1e6, -3.0, 1013.0])
    rows[::7, 1] = np.nan
    complete = rows[np.isfinite(rows).all(axis=1)]
    relations = of(rows)
    assert relations.rows == len(complete)
    assert relations.matrix() == pytest.approx(np.cov(complete.T, bias=True), rel=1e-6)


def test_json_there_and_back():
    relations = of(draw(10))
    stored = json.loads(json.dumps(relations.to_dict(), allow_nan=False))
    assert stored == relations.to_dict()
    assert read_measurement(stored) == relations


def test_others_features_cannot_be_merged():
    with pytest.raises(ValueError, match="cannot be merged"):
        of(draw(5)).plus(compute_relations({"a": np.ones(3)}))


@pytest.mark.parametrize("units", [(1.0, 1.0, 1.0), (1e6, 1e-6, 9.0)])
def test_a_broken_correlation_is_detected_in_any_units(units):
    baseline, batch, same = of(draw(50_000) * units), of(draw(5000, 0.7, 1) * units), of(draw(5000, 0.8, 2) * units)
    far, near = compare_relations(batch, baseline), compare_relations(same, baseline)
    pair = far.statistics["pair a ~ b"]
    assert pair == pytest.approx(np.arctanh(0.8) - np.arctanh(0.7), abs=0.05)
    assert pair > 5 * near.statistics["pair a ~ b"]
    assert far.statistics["scatter"] > 3 * near.statistics["scatter"]
    assert max(far.statistics[f"spread {n}"] for n in "abc") < 0.05  # no column alone has changed
    # Along the second component the variance goes from 0.2 to 0.3.
    assert far.effects["pair a ~ b"] == pytest.approx(normal_tail_distance(0.0, np.sqrt(1.5)), abs=0.03)
    assert near.effects["pair a ~ b"] < 0.05


def test_the_distance_of_the_means_is_mahalanobis():
    baseline = of(draw(50_000))
    comparison = compare_relations(of(draw(5000, seed=3) + np.array([0.3, -0.3, 0.0])), baseline)
    step = np.array(of(draw(5000, seed=3) + np.array([0.3, -0.3, 0.0])).mean) - np.array(baseline.mean)
    assert comparison.statistics["means"] == pytest.approx(np.sqrt(step @ np.linalg.solve(baseline.matrix(), step)), rel=1e-6)


@pytest.mark.parametrize(
    ("batch", "baseline"),
    [
        (draw(4), draw(1000)),  # too few rows in the batch
        (draw(100), draw(50)),  # too few in the baseline
        (draw(100), np.ones((100, 3))),  # nothing varies
    ],
)
def test_undefined_distances_are_none(batch, baseline):
    assert compare_relations(of(batch), of(baseline)) is None


def test_a_constant_and_a_repeated_column_are_no_obstacle():
    def odd(rows):
        rows = rows.copy()
        rows[:, 2] = rows[:, 0] * 2  # the baseline's covariance is singular
        return rows

    comparison = compare_relations(of(odd(draw(500, seed=1))), of(odd(draw(5000))))
    assert comparison.statistics["scatter"] < 0.2
    constant = draw(5000)
    constant[:, 2] = 7.0
    batch = draw(500, seed=1)
    batch[:, 2] = 7.0
    assert compare_relations(of(batch), of(constant)).statistics.keys() == {
        "means",
        "scatter",
        "spread a",
        "spread b",
        "pair a ~ b",
    }


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_variance_below_zero_by_rounding_is_a_constant():
    """`minus` leaves one where a window that varied far more is taken out."""
    constant = draw(200)
    constant[:, 2] = 3.3
    exact = of(constant)
    rest = replace(exact, comoments=(*exact.comoments[:-1], -1e-10))
    assert rest.matrix()[2, 2] < 0
    for batch in (rest, of(draw(500, seed=2))):
        distance = compare_relations(batch, rest)
        assert distance is not None and "spread c" not in distance.statistics
    assert compare_relations(rest, of(draw(500, seed=2))) is not None


@pytest.mark.parametrize(("shift", "deviation"), [(0.1, 1.0), (0.0, np.sqrt(1.2)), (0.02, 1.0), (1.0, 2.0)])
def test_the_normal_distance_matches_large_samples(shift, deviation):
    x = np.linspace(-8, 8, 200_001)
    f, g = stats.norm.cdf(x), stats.norm.cdf(x, shift, deviation)
    expected = (np.abs(g - f) / np.sqrt(np.maximum(f * (1 - f), 0.01))).max()
    assert normal_tail_distance(shift, deviation) == pytest.approx(expected, rel=0.01)
