"""What is measured of features: counts of what is no number, strata, several `by` in one aggregation.

Belongs here: rows → profiles on real Spark. Does not: merging or comparing them (decisions).
"""

from datetime import UTC, datetime
from functools import reduce

import numpy as np
import pytest

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.categories import read_categories
from lakehouse_assets.decisions.drift.distances import compare_ecdfs, read_ecdf
from lakehouse_assets.decisions.drift.profiles import MOST_CATEGORIES, Profile, pool_moments, read_sketch
from lakehouse_assets.decisions.drift.relations import Relations
from lakehouse_assets.decisions.drift.texts import text_figures
from lakehouse_assets.measures.profile import COUNTED, MAX_STRATA, measure_profiles

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


def profiles_by_key(staged, *features, **more):
    profiles, too_many_strata = measure_profiles(staged, DriftSpec.model_validate({"features": list(features), **more}))
    assert not too_many_strata
    return {(batch, *each.key): each for batch, batch_profiles in profiles.items() for each in batch_profiles}


def counts(one):
    return (one.rows, one.nulls, one.nans, one.infinities, one.valid)


@pytest.mark.parametrize(
    "features",
    [
        pytest.param(["v", "n", "kind"], marks=pytest.mark.exhaustive(seconds=6)),
        ["v", {"name": "site_n", "expr": "n", "by": "site"}, "kind"],
    ],
)
def test_one_batch_by_itself_is_the_same(staged, features):
    drift = DriftSpec.model_validate({"features": features})
    every, _ = measure_profiles(staged, drift)
    for batch in (FIRST, SECOND):
        alone = staged.where(f"p_extracted_at = '{batch[0]:%Y-%m-%d}'")
        one, _ = measure_profiles(alone, drift, batch)
        assert list(one) == [batch]
        assert {m.key: m for m in one[batch]} == {m.key: m for m in every[batch]}
    assert measure_profiles(staged.where("false"), drift, FIRST) == ({}, set())


def test_values_that_are_no_numbers_are_only_counted(staged):
    one = profiles_by_key(staged, "v")[FIRST, "v", None]
    assert counts(one) == (6, 1, 1, 2, 2)
    assert (one.mean, one.std, one.minimum, one.maximum) == (2.0, pytest.approx(2**0.5), 1.0, 3.0)
    sketch = read_sketch(one)
    assert sketch is not None
    assert (sketch.n, sketch.get_min_value(), sketch.get_max_value()) == (2, 1.0, 3.0)


def test_each_window_by_itself(staged):
    assert {key: counts(one)[0] for key, one in profiles_by_key(staged, "v").items()} == {
        (FIRST, "v", None): 6,
        (SECOND, "v", None): 1,
    }


def test_a_stratum_without_any_number_has_no_sketch(staged):
    profiles = profiles_by_key(staged, {"name": "v", "expr": "v", "by": "site"})
    assert {key[2] for key in profiles if key[0] == FIRST} == {"a", "b", None}
    b = profiles[FIRST, "v", "b"]
    assert (counts(b), b.sketch, b.mean) == ((2, 0, 1, 1, 0), None, None)


def test_features_measured_together_equal_each_measured_alone(staged):
    features = ["n", {"name": "by_site", "expr": "v", "by": "site"}, {"name": "twice", "expr": "n * 2", "by": "site"}]
    features.append({"name": "by_kind", "expr": "n", "by": "kind"})
    alone = {key: one for feature in features for key, one in profiles_by_key(staged, feature).items()}
    together = profiles_by_key(staged, *features)
    assert {key: one for key, one in together.items() if isinstance(one, Profile)} == alone
    assert len(alone) == 2 + 2 * (3 + 1) + 3
    related = {key: one.features for key, one in together.items() if isinstance(one, Relations)}
    assert related == {
        (batch, "relations by site", s): ("by_site", "twice") for batch, *_, s in alone if (batch, "twice", s) in alone
    }


def test_too_many_strata_are_reported(spark):
    sql = "timestamp'2024-01-01' AS p_extracted_at", "1 AS extraction_seq", "true AS _newest", "id"
    crowd = spark.range(MAX_STRATA + 1).selectExpr(*sql)
    features = [{"name": "x", "expr": "id", "by": "id"}, "id"]
    assert measure_profiles(crowd, DriftSpec.model_validate({"features": features}))[1] == {FIRST}
    assert measure_profiles(crowd.where(f"id < {MAX_STRATA}"), DriftSpec.model_validate({"features": features}))[1] == set()


def test_a_number_of_few_values_is_counted_exactly(staged):
    one = profiles_by_key(staged, "n")[FIRST, "n", None]
    assert one.counts == ((10.0, 1), (20.0, 1), (40.0, 1), (50.0, 1), (60.0, 1))
    assert (one.sketch, one.distinct, one.nulls, one.minimum, one.maximum) == (None, 5.0, 1, 10.0, 60.0)


def test_texts_and_truths_are_categories(staged):
    profiles = profiles_by_key(staged, "kind", {"name": "large", "expr": "n > 30"})
    kind, large = profiles[FIRST, "kind", None], profiles[FIRST, "large", None]
    assert (kind.kind, kind.counts, kind.others, kind.distinct) == ("category", (("x", 1), ("y", 5)), 0, 2.0)
    assert (large.kind, large.counts, large.nulls) == ("category", (("false", 2), ("true", 3)), 1)


TEXTS = ["abc", "ABC", "a b", "AB12", "", "7", "Łódź", "日本 語", "ab\tc", "x" * 300]


def test_lengths_and_characters_of_texts(spark):
    rows = [("2024-01-01", text, True) for text in TEXTS] + [("2024-01-01", None, True), ("2024-01-01", "LEFT OUT", False)]
    frame = spark.createDataFrame(rows, "at string, kind string, _newest boolean")
    frame = frame.selectExpr("*", "cast(at AS timestamp) AS p_extracted_at", "1 AS extraction_seq")
    (one,) = profiles_by_key(frame, "kind").values()
    # As the same texts in memory, cut to 200 characters.
    assert one.texts == pytest.approx(tuple(text_figures([text[:200] for text in TEXTS])))
    assert Profile.from_dict(one.to_dict()) == one


def test_no_text_has_no_figures(spark):
    frame = spark.createDataFrame([("2024-01-01", None, True)], "at string, kind string, _newest boolean")
    frame = frame.selectExpr("*", "cast(at AS timestamp) AS p_extracted_at", "1 AS extraction_seq")
    (one,) = profiles_by_key(frame, "kind").values()
    assert (one.texts, one.distinct_share) == (None, None)


def many(spark, sql, rows=20_000):
    return spark.range(rows).selectExpr(
        *sql, "timestamp'2024-01-01' AS p_extracted_at", "1 AS extraction_seq", "true AS _newest"
    )


def test_a_profile_keeps_the_most_frequent_categories(spark):
    """One more than are kept by name, of two frequencies; then more than are counted exactly, with one that stands out."""
    rows = f"id % {MOST_CATEGORIES + 200}"
    one = profiles_by_key(many(spark, [f"concat('c', CASE WHEN {rows} > 99 THEN {rows} ELSE 7 END) AS c"]), "c")[
        FIRST, "c", None
    ]
    assert one.counts is not None
    assert (len(one.counts), one.distinct) == (MOST_CATEGORIES, MOST_CATEGORIES + 101.0)
    assert sum(rows for _, rows in one.counts) + one.others == 20_000
    crowd = many(spark, [f"CASE WHEN id % 2 = 0 THEN 'often' ELSE concat('c', id % {COUNTED * 8}) END AS c"])
    one = profiles_by_key(crowd, "c")[FIRST, "c", None]
    assert one.counts is not None
    assert dict(one.counts)["often"] == pytest.approx(10_000, rel=0.01)
    assert one.distinct == pytest.approx(COUNTED * 4, rel=0.15)


def test_a_number_of_many_values_keeps_a_sketch_and_an_estimate(spark):
    profiles = profiles_by_key(many(spark, ["id", "id / 7.0D AS part"]), "id", "part")
    assert [profiles[FIRST, name, None].counts for name in ("id", "part")] == [None, None]
    for name in ("id", "part"):
        assert profiles[FIRST, name, None].distinct == pytest.approx(20_000, rel=0.15)
        assert read_sketch(profiles[FIRST, name, None]).n == 20_000  # type: ignore[union-attr]


def test_relations_are_of_the_rows_that_have_every_number(spark):
    """Numbers whose squares dwarf their variance, one of them missing in places, and a NaN: numpy is asked for the same."""
    sql = ["1013 + 0.001D * (id % 97) AS pressure", "CASE WHEN id % 5 = 0 THEN NULL ELSE 1.6e9D + 3 * (id % 89) END AS at"]
    sql.append("CASE WHEN id % 7 = 0 THEN double('NaN') ELSE id % 83 END AS level")
    ids = np.arange(20_000)
    complete = ids[(ids % 5 != 0) & (ids % 7 != 0)]
    values = np.column_stack([1013 + 0.001 * (complete % 97), 1.6e9 + 3 * (complete % 89), complete % 83])
    for features in (
        ("pressure", "at", "level"),
        ("pressure", "at", {"name": "level", "expr": "max(level) over (partition by id)"}),
    ):
        table = many(spark, ["id", *sql])
        one = profiles_by_key(table, *features)[FIRST, "relations", None]
        assert (one.features, one.rows) == (("pressure", "at", "level"), len(complete))
        np.testing.assert_allclose(one.mean, values.mean(axis=0), rtol=1e-12)
        expected = np.cov((values - values[0]).T, ddof=0)
        np.testing.assert_allclose(one.matrix(), expected, rtol=1e-6, atol=1e-9)


def test_relations_that_nobody_wants_are_not_measured(staged):
    assert {key[1] for key in profiles_by_key(staged, "n", "v", relations=False)} == {"n", "v"}
    assert {key[1] for key in profiles_by_key(staged, "n", "v")} == {"n", "v", "relations"}


def test_the_profile_of_a_union_is_the_merge_of_the_profiles(spark):
    """Three windows of unequal size and centre, with values that are missing in each way, then their rows as one."""
    holes = "CASE id % 17 WHEN 0 THEN NULL WHEN 1 THEN double('NaN') WHEN 2 THEN double('-Infinity') ELSE"
    x = f"{holes} randn(3) + id / 9000 END AS x"
    sql = ["id % 41 AS n", x, "randn(5) * 8 + 1013 AS y", "concat('c', nullif(id % 300, 7)) AS c", "id % 3 AS g"]
    day = "timestampadd(DAY, CASE WHEN id < 1000 THEN 0 WHEN id < 12000 THEN 1 ELSE 2 END, timestamp'2024-01-01')"
    parts = many(spark, ["id", *sql]).selectExpr("* except(p_extracted_at)", f"{day} AS p_extracted_at").persist()
    features = ["c", *({"name": name, "expr": name, "by": "g"} for name in ("n", "x", "y"))]
    apart = profiles_by_key(parts, *features)
    union = profiles_by_key(parts.selectExpr("* except(p_extracted_at)", "timestamp'2024-01-01' AS p_extracted_at"), *features)
    assert len(apart) == 3 * len(union) == 3 * (1 + 3 * 4)
    missing = 0
    for (_, *key), united in union.items():
        each = [one for (_, *other), one in sorted(apart.items(), key=lambda item: item[0][0]) if other == key]
        if isinstance(united, Relations):
            merged = reduce(Relations.plus, each)
            assert (merged.rows, merged.features) == (united.rows, united.features)
            np.testing.assert_allclose(merged.mean, united.mean, rtol=1e-12)
            np.testing.assert_allclose(merged.comoments, united.comoments, rtol=1e-9)
            continue
        for counted in ("rows", "nulls", "nans", "infinities"):
            assert sum(getattr(one, counted) for one in each) == getattr(united, counted)
        missing += united.nulls + united.nans + united.infinities
        if united.kind == "category":
            a, b, c = map(read_categories, each)
            assert (dict(a.plus(b).plus(c).counts), 0) == (dict(read_categories(united).counts), united.others)
            continue
        steps = read_ecdf(each[0]).plus(read_ecdf(each[1])).plus(read_ecdf(each[2]))
        exact = united.counts is not None
        assert compare_ecdfs(read_ecdf(united), steps).ks <= (1e-9 if exact else 0.002)
        merged = pool_moments(each)
        assert (merged.minimum, merged.maximum) == (united.minimum, united.maximum)
        assert (merged.mean, merged.std) == (pytest.approx(united.mean, rel=1e-12), pytest.approx(united.std, rel=1e-9))
    assert missing > 20_000 * 3 // 17
