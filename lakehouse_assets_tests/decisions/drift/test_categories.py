"""Categories: counted, merged, and how far a batch's shares are from a baseline's.

Belongs here: shares, new and vanished ones. Does not: verdicts (test_kinds_of_drift).
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_assets.decisions.drift.categories import Categories, compare_categories, fold_for_chance, read_categories
from lakehouse_assets.decisions.drift.excess import find_category
from lakehouse_assets.decisions.drift.p_values import monte_carlo_categories
from lakehouse_assets.decisions.drift.profiles import MOST_CATEGORIES, Profile

COUNTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50), min_size=1)


@settings(max_examples=100, deadline=None)
@given(st.lists(COUNTS, min_size=1, max_size=4))
def test_merged_is_as_counted_together(parts):
    merged = Categories({}, 0.0)
    for part in parts:
        merged = merged.plus(Categories(part))
    names = {name for part in parts for name in part}
    assert merged.counts == {name: sum(part.get(name, 0) for part in parts) for name in names}


def test_beyond_a_thousand_the_rarest_are_others():
    many = Categories({f"{i:05}": float(i + 1) for i in range(MOST_CATEGORIES)})
    merged = many.plus(Categories({"new": 1e6, "rare": 0.5}))
    assert len(merged.counts) == MOST_CATEGORIES
    assert "new" in merged.counts
    assert "rare" not in merged.counts
    assert merged.total == many.total + 1e6 + 0.5


@settings(max_examples=100, deadline=None)
@given(COUNTS, COUNTS)
def test_the_g_statistic_by_hand(batch, baseline):
    distances = compare_categories(Categories(batch), Categories(baseline))
    names = sorted(set(batch) | set(baseline))
    p = np.array([batch.get(n, 0) for n in names]) / sum(batch.values())
    before = np.array([baseline.get(n, 0) or (0.5 if n in batch else 0.0) for n in names])
    q = before / before.sum()
    is_finite = p > 0
    assert distances.g == pytest.approx(np.sqrt(max(0.0, (p[is_finite] * np.log(p[is_finite] / q[is_finite])).sum())), abs=1e-6)
    assert distances.tail == pytest.approx((np.abs(p - q) / np.sqrt(np.maximum(q * (1 - q), 0.01))).max(), abs=1e-6)
    assert set(distances.new) == set(batch) - set(baseline)
    assert set(distances.vanished) == set(baseline) - set(batch)


def test_leaving_the_batch_out():
    batch, rest = Categories({"a": 10.0, "b": 1.0}), Categories({"a": 90.0, "b": 30.0, "c": 5.0})
    assert compare_categories(batch, rest.plus(batch), batch_is_inside=True) == compare_categories(batch, rest)
    with pytest.raises(ValueError, match="no baseline besides"):
        compare_categories(batch, batch, batch_is_inside=True)


def test_a_possibly_folded_category_is_not_new():
    distances = compare_categories(Categories({"a": 9.0, "z": 1.0}), Categories({"a": 900.0}, others=100.0))
    assert distances.new == ()


def many(first: int, size: int, rows: float = 1.0) -> dict[str, float]:
    return {f"{i:06}": rows for i in range(first, first + size)}


def test_folded_categories_are_neither_new_nor_distant():
    baseline = Categories(many(0, MOST_CATEGORIES, 50.0), others=5_000.0, windows=10)
    batch = Categories(many(0, MOST_CATEGORIES, 5.0) | many(2_000, 500), windows=1)
    distances = compare_categories(batch, baseline)
    assert (distances.new, distances.g) == ((), 0.0)
    assert distances.tail < 0.002
    assert set(distances.statistics) == {"folded", "folded_tail"}


@pytest.mark.parametrize("rows", [20.0, 150.0])
def test_a_folded_category_that_becomes_frequent_is_new(rows):
    baseline = Categories(many(0, MOST_CATEGORIES, 50.0), others=5_000.0, windows=10)
    batch = Categories(many(0, MOST_CATEGORIES, 5.0) | {"~new": rows}, others=500.0 - rows)
    distances = compare_categories(batch, baseline)
    assert distances.tail == pytest.approx(rows / batch.total / 0.1)
    assert distances.new == ("~new",)
    assert distances.changed[0][0] == "~new"


def test_folded_and_left_out_of_the_baseline():
    batch, rest = Categories(many(0, 900, 6.0), others=50.0), Categories(many(100, 1000, 95.0), others=5_000.0, windows=19)
    inside, apart = (
        compare_categories(batch, rest.plus(batch), batch_is_inside=True),
        compare_categories(batch, rest),
    )
    # What the merged baseline keeps no longer is one of the others in both.
    assert inside.statistics == pytest.approx(apart.statistics, rel=0.05)
    with pytest.raises(ValueError, match="no baseline besides"):
        compare_categories(batch, batch, batch_is_inside=True)


def test_few_categories_have_the_statistics_they_had():
    distances = compare_categories(Categories({"a": 9.0, "b": 1.0}), Categories({"a": 900.0, "b": 100.0}))
    assert set(distances.statistics) == {"g", "tail"}
    near = compare_categories(Categories(many(0, 600)), Categories(many(0, 600, 9.0), windows=9))
    assert set(near.statistics) == {"g", "tail", "folded", "folded_tail"}


COMMON = {"a": 8000.0, "b": 1800.0, "c": 10.0}


@pytest.mark.parametrize(
    ("batch", "baseline", "cells"),
    [
        # However rare.
        (Categories(COMMON | {"d": 1.0}), Categories(COMMON), [(8000, 8000), (1800, 1800), (10, 10), (1, 0), (0, 0)]),
        (
            Categories(COMMON),
            Categories(COMMON | {"d": 1.0}, windows=9),
            [(8000, 8000), (1800, 1800), (10, 10), (0, 1), (0, 0)],
        ),
        # A side with unnamed rows may have as many of "d" as of its rarest name, "c".
        (Categories(COMMON, others=20.0), Categories(COMMON | {"d": 20.0}), [(8000, 8000), (1800, 1800), (30, 30)]),
        (Categories(COMMON | {"d": 20.0}), Categories(COMMON, others=20.0), [(8000, 8000), (1800, 1800), (30, 30)]),
        (Categories(COMMON | {"d": 60.0}), Categories(COMMON, others=60.0), [(8000, 8000), (1800, 1800), (60, 0), (10, 70)]),
        # Too rare in both together, and far more in the batch than the baseline can have had.
        (Categories(COMMON | {"d": 30.0}), Categories(COMMON, others=10.0), [(8000, 8000), (1800, 1800), (30, 0), (10, 20)]),
        # A side that names nothing may have a thousandth of any category.
        (Categories({}, 1e3), Categories(COMMON | {"d": 2.0}), [(0, 8000), (0, 1800), (1e3, 12)]),
        (Categories(COMMON | {"d": 2.0}), Categories({}, 1e3), [(8000, 0), (1800, 0), (12, 1e3)]),
        # One that names a single frequent category as well.
        (Categories({"new": 60.0}, 940.0), Categories({}, 2e3), [(60, 0), (940, 2e3)]),
        (Categories({}, 1e3), Categories({}, 2e3), [(1e3, 2e3)]),
    ],
)
def test_the_cells_of_a_test_by_chance(batch, baseline, cells):
    now, before = fold_for_chance(batch, baseline)
    assert list(zip(now.tolist(), before.tolist(), strict=True)) == cells


def test_of_a_profile():
    profile = Profile("k", None, 12, 2, kind="category", counts=(("a", 6), ("b", 3)), others=1)
    assert read_categories(profile) == Categories({"a": 6.0, "b": 3.0}, 1.0) or read_categories(profile).total == 10
    assert read_categories(Profile("k", None, 3, 3, kind="category")) is None
    unnamed = read_categories(Profile("k", None, 12, 2, kind="category", counts=(), others=10))
    assert unnamed is not None
    assert (unnamed.counts, unnamed.total) == ({}, 10.0)


@pytest.mark.parametrize(
    ("batch", "baseline", "far"),
    [
        (Categories({}, 1e3), Categories({}, 9e3, windows=9), False),
        (Categories(many(0, 5, 2.0), 990.0), Categories({}, 9e3, windows=9), False),
        (Categories({}, 1e3), Categories(many(0, 50, 9.0), 8_550.0, windows=9), False),
        (Categories({}, 1e3), Categories({"a": 5e3, "b": 4e3}, windows=9), True),
        (Categories({"a": 510.0, "b": 490.0}), Categories({}, 9e3, windows=9), True),
    ],
)
def test_a_side_that_names_no_category(batch, baseline, far):
    distances = compare_categories(batch, baseline)
    assert (distances.tail > 0.5) == far
    assert (max(monte_carlo_categories(batch, baseline, ("k", None))) < 0.01) == far
    assert find_category(batch, baseline) is None
