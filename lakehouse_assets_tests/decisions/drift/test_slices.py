"""Slices: what is measured of them, against the definition row by row, which are kept, and what is stored.

Belongs here: columns in memory → slices. Does not: what is unusual (test_slice_scores), Spark (measures).
"""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_assets.decisions.drift.pseudonyms import NameMask, is_pseudonym
from lakehouse_assets.decisions.drift.relations import read_measurement
from lakehouse_assets.decisions.drift.slice_columns import compute_slices
from lakehouse_assets.decisions.drift.slices import (
    LEAST_ROWS,
    MOST_DIFFERENCES,
    MOST_SLICED,
    MOST_SLICES,
    Cell,
    choose_categories,
    choose_cells,
)

VALUES = st.one_of(st.none(), st.integers(-5, 5).map(float), st.floats(-1e6, 1e6))
ROWS = st.lists(st.tuples(VALUES, st.sampled_from(["a", "b", None]), st.sampled_from(["x", "y"])), min_size=25, max_size=60)


def compute(rows):
    value, first, second = zip(*rows, strict=True)
    numbers = {"v": np.array([np.nan if each is None else each for each in value])}
    return compute_slices(numbers, {"first": np.array(first, dtype=object), "second": np.array(second, dtype=object)})


def difference_by_definition(rows, conditions):
    """The mean score of the rows for which the conditions hold, less that of all other rows."""
    values = sorted(value for value, _, _ in rows if value is not None)
    at = [next(v for i, v in enumerate(values, 1) if i >= share * len(values) - 1e-9) for share in (0.05, 0.95)]
    low, high = at if at[1] > at[0] else (values[0], values[-1])
    inside, outside = [], []
    for value, first, second in rows:
        if value is not None:
            is_inside = all({"first": first, "second": second}[column] == name for column, name in conditions)
            (inside if is_inside else outside).append(min(1.0, max(0.0, (value - low) / (high - low))))
    if min(len(inside), len(outside)) < LEAST_ROWS:
        return None
    return sum(inside) / len(inside) - sum(outside) / len(outside)


@settings(deadline=None, max_examples=60)
@given(ROWS)
def test_differences_are_those_of_the_definition(rows):
    slices = compute(rows)
    if slices is None:
        return
    for conditions, difference, count in zip(slices.conditions, slices.differences[:, 0], slices.slice_rows, strict=True):
        where = [all({"first": r[1], "second": r[2]}[c] == name for c, name in conditions) for r in rows]
        assert count == sum(where) >= LEAST_ROWS
        expected = difference_by_definition(rows, conditions)
        assert np.isnan(difference) if expected is None else difference == pytest.approx(expected, abs=1e-7)
    stored = slices.to_dict()
    again = read_measurement(json.loads(json.dumps(stored)))
    assert again.to_dict() == stored
    np.testing.assert_array_equal(again.differences, slices.differences)  # type: ignore[union-attr]


def cell(*conditions, rows):
    return Cell(tuple(conditions), rows, (rows,), (rows / 2,))


def test_slices_are_bounded_in_number_whatever_the_columns_have():
    counts = {f"c{index:04}": 100 + index % 7 for index in range(5000)}
    assert choose_categories(counts, sum(counts.values())) == ()  # the frequent ones are next to nothing: a key
    assert choose_categories({f"c{i}": 100 for i in range(12)}, 1200) == tuple(sorted(f"c{i}" for i in range(12))[:MOST_SLICED])
    assert choose_categories({"a": 90, "b": 9}, 99) == ()  # whatever is not `a` is too few
    singles = [cell(("a", f"{i}"), rows=100) for i in range(30)]
    pairs = [cell(("a", f"{i}"), ("b", f"{j}"), rows=20 + j) for i in range(30) for j in range(30)]
    chosen = choose_cells([*pairs, *singles], 3000, 1)
    assert len(chosen) == MOST_SLICES
    assert set(singles) <= set(chosen)
    assert all(len(c.conditions) == 1 or c.rows >= 48 for c in chosen)
    assert chosen == choose_cells([*singles, *reversed(pairs)], 3000, 1)
    assert len(choose_cells([*pairs, *singles], 3000, 50)) == MOST_DIFFERENCES // 50


def test_a_slice_with_the_rows_of_another_is_left_out():
    cells = [cell(("city", "Bonn"), rows=50), cell(("zip", "53"), rows=51), cell(("city", "Bonn"), ("zip", "53"), rows=50)]
    assert [c.conditions for c in choose_cells(cells, 500, 1)] == [(("city", "Bonn"),), (("zip", "53"),)]


@pytest.mark.parametrize(
    "value",
    [np.full(60, 7.0), np.full(60, np.nan), np.full(60, np.inf), np.array([-1.7e308, 1.7e308] * 30)],
    ids=["constant", "missing", "infinite", "beyond all numbers"],
)
def test_a_column_without_a_scale_has_no_slices(value):
    groups = np.array(["a", "b", "c"] * 20, dtype=object)
    assert compute_slices({"v": value}, {"group": groups}) is None
    both = compute_slices({"v": value, "w": np.arange(60.0)}, {"group": groups})
    assert both is not None
    assert both.features == ("w",)


def test_nothing_to_slice():
    assert compute_slices({}, {}) is None
    assert compute_slices({"v": np.arange(50.0)}, {}) is None
    assert compute_slices({"v": np.arange(50.0)}, {"empty": np.full(50, None, dtype=object)}) is None
    assert compute_slices({"v": np.array([])}, {"group": np.array([], dtype=object)}) is None


def test_features_and_columns_can_be_left_out():
    groups = {name: np.array([f"{name}{i % k}" for i in range(120)], dtype=object) for name, k in (("a", 2), ("b", 3))}
    slices = compute_slices({"v": np.arange(120.0), "w": np.arange(120.0) % 11}, groups)
    assert slices is not None
    less = slices.only(["w"], ["b"])
    assert less is not None
    assert (less.features, {c for each in less.conditions for c, _ in each}) == (("w",), {"b"})
    index = [slices.conditions.index(each) for each in less.conditions]
    np.testing.assert_array_equal(less.differences, slices.differences[index][:, [1]])
    assert slices.only([]) is None
    assert slices.only(["v"], []) is None


def test_a_category_that_the_contract_does_not_list_is_a_pseudonym():
    slices = compute_slices({"v": np.arange(40.0)}, {"site": np.array(["listed", "Jane Doe"] * 20, dtype=object)})
    assert slices is not None
    masked = NameMask({}, {}, {"site": frozenset({"listed"})}).measurement(slices)
    names = sorted(name for each in masked.conditions for _, name in each)  # type: ignore[union-attr]
    assert names[1] == "listed"
    assert is_pseudonym(names[0])
    assert "Jane" not in json.dumps(masked.to_dict())
    later = NameMask({}, {}, {"site": frozenset({"listed", "Jane Doe"})}).measurement(masked)
    assert later == slices
