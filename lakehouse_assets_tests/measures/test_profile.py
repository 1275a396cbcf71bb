"""What is measured of features: counts of what is no number, strata, several `by` in one aggregation.

Belongs here: rows → profiles on real Spark. Does not: merging or comparing them (decisions).
"""

from datetime import UTC, datetime

import pytest

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.profiles import read_sketch
from lakehouse_assets.measures.profile import MAX_STRATA, profile

FIRST, SECOND = ((datetime(2024, 1, day, tzinfo=UTC), 1) for day in (1, 2))
NAN, INF = float("nan"), float("inf")
ROWS = [
    ("2024-01-01", "a", "x", 1.0, 10, True),
    ("2024-01-01", "a", "y", 3.0, 20, True),
    ("2024-01-01", "b", "y", NAN, None, True),
    ("2024-01-01", "b", "y", INF, 40, True),
    ("2024-01-01", None, "y", -INF, 50, True),
    ("2024-01-01", None, "y", None, 60, True),
    ("2024-01-01", "a", "x", 999.0, 999, False),
    ("2024-01-02", "a", "x", 5.0, 70, True),
]


@pytest.fixture(scope="module")
def staged(spark):
    names = "at string, site string, kind string, v double, n int, _newest boolean"
    return spark.createDataFrame(ROWS, names).selectExpr("*", "cast(at AS timestamp) AS p_extracted_at", "1 AS extraction_seq")


def found(staged, *features):
    profiles, crowded = profile(staged, DriftSpec.model_validate({"features": list(features)}))
    assert not crowded
    return {(batch, *each.key): each for batch, given in profiles.items() for each in given}


def counts(one):
    return (one.rows, one.nulls, one.nans, one.infinities, one.valid)


def test_what_is_no_number_is_counted_and_not_measured(staged):
    one = found(staged, "v")[FIRST, "v", None]
    assert counts(one) == (6, 1, 1, 2, 2)
    assert (one.mean, one.std, one.minimum, one.maximum) == (2.0, pytest.approx(2**0.5), 1.0, 3.0)
    sketch = read_sketch(one)
    assert sketch is not None
    assert (sketch.n, sketch.get_min_value(), sketch.get_max_value()) == (2, 1.0, 3.0)


def test_each_window_by_itself(staged):
    assert {key: counts(one)[0] for key, one in found(staged, "v").items()} == {(FIRST, "v", None): 6, (SECOND, "v", None): 1}


def test_a_stratum_without_any_number_has_no_sketch(staged):
    told = found(staged, {"name": "v", "expr": "v", "by": "site"})
    assert {key[2] for key in told if key[0] == FIRST} == {"a", "b", None}
    b = told[FIRST, "v", "b"]
    assert (counts(b), b.sketch, b.mean) == ((2, 0, 1, 1, 0), None, None)


def test_features_of_several_strata_are_what_each_is_by_itself(staged):
    given = ["n", {"name": "by_site", "expr": "v", "by": "site"}, {"name": "twice", "expr": "n * 2", "by": "site"}]
    given.append({"name": "by_kind", "expr": "n", "by": "kind"})
    alone = {key: one for feature in given for key, one in found(staged, feature).items()}
    together = found(staged, *given)
    assert together == alone
    assert len(together) == 2 + 2 * (3 + 1) + 3


def test_too_many_strata_are_told(spark):
    sql = "timestamp'2024-01-01' AS p_extracted_at", "1 AS extraction_seq", "true AS _newest", "id"
    crowd = spark.range(MAX_STRATA + 1).selectExpr(*sql)
    features = [{"name": "x", "expr": "id", "by": "id"}, "id"]
    assert profile(crowd, DriftSpec.model_validate({"features": features}))[1] == {FIRST}
    assert profile(crowd.where(f"id < {MAX_STRATA}"), DriftSpec.model_validate({"features": features}))[1] == set()
