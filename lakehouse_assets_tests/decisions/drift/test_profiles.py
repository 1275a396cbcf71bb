"""Profiles: JSON there and back, guards, merging.

Belongs here: what is kept of a batch. Does not: distances or verdicts.
"""

import json
import math

import numpy as np
import pytest
from datasketches import kll_doubles_sketch  # pyright: ignore[reportAttributeAccessIssue] (a compiled module)

from lakehouse_assets.decisions.drift.profiles import Profile, SketchError, pool_moments, read_sketch, read_sketch_items


def profile(values, *, nulls=0, k=4096, feature="f", stratum=None) -> Profile:
    values = np.asarray(values, dtype=float)
    sketch = kll_doubles_sketch(k)
    for value in values:
        sketch.update(value)
    some = len(values) > 0
    return Profile(
        feature, stratum, len(values) + nulls, nulls,
        mean=float(values.mean()) if some else None,
        std=float(values.std(ddof=1)) if len(values) > 1 else None,
        minimum=float(values.min()) if some else None,
        maximum=float(values.max()) if some else None,
        sketch=bytes(sketch.serialize()) if some else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    "original",
    [profile([1.0, 2.0, 2.0], stratum="LGA"), profile([]), profile([], nulls=4), Profile("f", None, 3, 1, 1, 1)],
    ids=["values", "empty", "all null", "null, NaN and infinity"],
)
def test_json_there_and_back(original):
    stored = json.loads(json.dumps(original.to_dict(), allow_nan=False))
    assert stored == original.to_dict()
    assert Profile.from_dict(stored) == original


def test_values_without_json_become_none():
    document = Profile("f", None, 1, mean=math.nan, std=math.inf, minimum=-math.inf).to_dict()
    assert (document["mean"], document["std"], document["minimum"]) == (None, None, None)
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize(
    "sketch", [b"", b"not a sketch", profile(range(50)).sketch[:20], None], ids=["none", "text", "cut", "missing"]
)
def test_an_unreadable_or_missing_sketch_is_an_error(sketch):
    with pytest.raises(SketchError, match="f at LGA"):
        read_sketch(Profile("f", "LGA", 50, sketch=sketch))


@pytest.mark.parametrize("values", [1, 2, 30, 6000])
def test_a_cut_sketch_is_an_error_wherever_it_is_cut(values):
    sketch = profile(range(values)).sketch
    assert read_sketch(Profile("f", None, values, sketch=sketch)).n == values
    for length in {*range(min(80, len(sketch))), len(sketch) // 2, len(sketch) - 8, len(sketch) - 1}:
        with pytest.raises(SketchError):
            read_sketch(Profile("f", None, values, sketch=sketch[:length]))


def test_an_empty_sketch_is_an_error_only_where_there_are_values():
    empty = bytes(kll_doubles_sketch(200).serialize())
    assert read_sketch(Profile("f", None, 2, 2, sketch=empty)) is None
    with pytest.raises(SketchError, match="empty sketch"):
        read_sketch(Profile("f", None, 2, sketch=empty))


def test_a_stored_sketch_that_is_not_base64_is_an_error():
    with pytest.raises(SketchError, match="base64"):
        Profile.from_dict({**profile([1.0]).to_dict(), "sketch": "%%%"})


def test_pooling_is_as_if_measured_together():
    parts = [np.array([1.0, 2.0, 4.0]), np.array([]), np.array([10.0]), np.linspace(-5, 5, 100)]
    pooled = pool_moments(profile(part, nulls=2) for part in parts)
    values = np.concatenate(parts)
    assert (pooled.mean, pooled.std) == (pytest.approx(values.mean()), pytest.approx(values.std(ddof=1)))
    assert (pooled.minimum, pooled.maximum) == (-5, 10)


@pytest.mark.parametrize("profiles", [[], [profile([], nulls=1), profile([], nulls=2)]], ids=["nothing", "no values"])
def test_pooling_profiles_without_values_gives_none(profiles):
    assert pool_moments(profiles) == (None, None, None, None)


@pytest.mark.parametrize("k", [8, 200, 4096])
@pytest.mark.parametrize("sizes", [(), (1,), (2,), (7,), (300,), (60_000,), (5_000, 1, 40_000)])
def test_sketch_items_match_the_library(k, sizes):
    sketch, rng = kll_doubles_sketch(k), np.random.default_rng(len(sizes))
    for size in sizes:
        other = kll_doubles_sketch(k)
        other.update(rng.normal(size=size))
        sketch.merge(other)
    items = read_sketch_items(Profile("f", None, sum(sizes), sketch=bytes(sketch.serialize())))
    if not sizes:
        assert items is None
        return
    values, weights = items
    assert sorted(zip(values.tolist(), weights.tolist(), strict=True)) == sorted(sketch)
    assert weights.sum() == sum(sizes)
