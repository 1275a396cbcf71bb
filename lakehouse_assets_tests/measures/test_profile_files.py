"""Numbers that Arrow reads from staged files have the profiles that Spark's aggregation gives them; or Spark measures them."""

from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyspark.sql import functions as F

from lakehouse_assets.contracts.drift import SLICES, DriftSpec
from lakehouse_assets.decisions.drift.distances import compare_ecdfs, read_ecdf
from lakehouse_assets.decisions.drift.profiles import Profile, read_sketch
from lakehouse_assets.decisions.drift.relations import Relations
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.measures import drift_features
from lakehouse_assets.measures import profile_files as module
from lakehouse_assets.measures.distinct_values import DistinctValues
from lakehouse_assets.measures.drift_features import measure_features
from lakehouse_assets.measures.profile import measure_profiles
from lakehouse_assets.measures.profile_files import choose_numbers, find_stored_rows, profile_files
from lakehouse_assets.pipeline.staging import write_once

BATCH = (datetime(2024, 1, 1, tzinfo=UTC), 1)
SCHEMA = (
    "tiny tinyint, small smallint, n int, big bigint, f float, d double, few double, price decimal(15,4), cents decimal(9,2),"
    " odd decimal(20,2), t string, yes boolean, empty double, _clean boolean, _newest boolean"
)
FEATURES = ["tiny", "small", "n", "big", "f", "d", "few", "price", "cents", "empty"]
HOSTILE = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324, -1e308, 1.7e308, 0.1, 1 / 3]


def rows_of(count, seed, nulls=0.1):
    rng = np.random.default_rng(seed)

    def sometimes(value):
        return None if rng.random() < nulls else value

    for _ in range(count):
        price = Decimal(int(rng.integers(-(10**14), 10**14))).scaleb(-4)
        d = float(rng.choice(HOSTILE)) if rng.random() < 0.05 else float(rng.normal())
        yield (
            *map(sometimes, (int(rng.integers(-128, 128)), int(rng.integers(-500, 600)), int(rng.integers(0, 10**6)))),
            sometimes(int(rng.choice([-(2**63), 2**63 - 1, 2**53 + 1, 7]))),
            *map(sometimes, (float(np.float32(rng.normal())), d, float(rng.integers(0, 4)) / 3, price)),
            sometimes(Decimal(int(rng.integers(0, 3000))).scaleb(-2)),
            sometimes(Decimal("1.25")),
            sometimes(str(rng.choice(["a", "b"]))),
            bool(rng.random() < 0.5),
            None,
            bool(rng.random() < 0.9),
            bool(rng.random() < 0.8),
        )


def staged_rows(spark, path, rows, apart=False, few=False):
    frame = spark.createDataFrame(list(rows), SCHEMA)
    stored = write_once(spark, frame.withColumn("p_extracted_at", F.lit(BATCH[0])), str(path), few=few, apart=apart)
    numbers = BatchNumbers(rows_in=frame.count(), newest=stored.where("_newest").count())
    return stored, numbers


def both(staged, numbers, drift):
    """The same features measured by Arrow and by Spark."""
    stored = find_stored_rows(staged, numbers)
    assert stored is not None
    columns = choose_numbers(staged, drift)
    read = profile_files(staged, stored, drift, columns)
    assert read is not None and [each.feature for each in read if isinstance(each, Profile)] == [c.feature for c in columns]
    measured, _ = measure_profiles(staged.withColumn("extraction_seq", F.lit(1)), drift, BATCH)
    return {each.key: each for each in read}, {each.key: each for each in measured[BATCH]}


def assert_alike(ours, theirs):
    assert list(ours) == list(theirs)
    for key, one in ours.items():
        other = theirs[key]
        if isinstance(one, Relations):
            assert (one.features, one.rows, one.by, one.stratum) == (other.features, other.rows, other.by, other.stratum)
            assert one.too_large == other.too_large
            finite = [name not in one.too_large for name in one.features]
            assert np.array(one.mean)[finite] == pytest.approx(np.array(other.mean)[finite], rel=1e-9)
            scale = np.sqrt(np.abs(np.diag(one.matrix()))[finite])
            apart = (one.matrix() - other.matrix())[np.ix_(finite, finite)] / np.maximum(np.outer(scale, scale), 1e-300)
            assert np.abs(apart).max(initial=0.0) < 1e-9
            continue
        plain, expected = one.to_dict(), other.to_dict()
        for name in ("mean", "std"):
            mine, its = plain.pop(name), expected.pop(name)
            assert mine == its or mine == pytest.approx(its, rel=1e-9), (key, name)
        assert (plain.pop("sketch") is None) == (expected.pop("sketch") is None), key
        assert plain == expected
        own_steps, steps = read_ecdf(one), read_ecdf(other)
        assert (own_steps is None) == (steps is None)
        if own_steps is not None and steps is not None:
            assert compare_ecdfs(own_steps, steps).ks <= 0.002


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("count", "seed"), [(1, 1), (2, 2), (7, 3), (400, 4), (9000, 5)])
def test_numbers_have_the_profiles_that_spark_gives_them(spark, tmp_path, count, seed, apart, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 1000)
    staged, numbers = staged_rows(spark, tmp_path / "rows of a=b", rows_of(count, seed), apart, few=count < 10)
    if not numbers.newest:
        return
    drift = DriftSpec.model_validate({"features": FEATURES})
    ours, theirs = both(staged, numbers, drift)
    assert_alike(ours, theirs)
    counted = {name for name in FEATURES if isinstance(each := ours[name, None], Profile) and each.counts}
    assert ({"tiny", "big"} <= counted and "price" not in counted) or count < 9000
    sketched = ours["few", None]
    assert isinstance(sketched, Profile)
    assert sketched.valid == 0 or read_sketch(sketched).n == sketched.valid  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize("size", [0, 1, 3, 300, 2_000, 50_000])
def test_the_estimate_of_distinct_values_is_sparks(spark, size):
    rng = np.random.default_rng(size)
    values = np.concatenate([rng.normal(size=size), rng.integers(-50, 50, size).astype(float), [-0.0, 0.0][:size]])
    own = DistinctValues()
    for part in np.array_split(values, 3):
        own.add(part)
    frame = spark.createDataFrame([(float(each),) for each in values], "v double")
    assert own.estimate(spark.sparkContext._jvm) == frame.selectExpr("approx_count_distinct(v) AS n").collect()[0]["n"]


def test_the_position_of_the_first_one_is_exact_in_every_bit(monkeypatch):
    for each in [1 << bit for bit in range(55)] + [(1 << bit) - 1 for bit in range(1, 56)]:
        hashes = np.array([each], np.uint64)
        monkeypatch.setattr("lakehouse_assets.measures.distinct_values._hash", lambda _, hashes=hashes: hashes)
        own = DistinctValues()
        own.add(np.zeros(1))
        assert own.registers()[0] == 55 - each.bit_length() + 1


@pytest.mark.parametrize(("slices", "declares_t"), [(False, True), (True, False), (True, True)])
def test_texts_and_strata_are_left_to_spark_and_numbers_are_not(spark, tmp_path, monkeypatch, slices, declares_t):
    staged, numbers = staged_rows(spark, tmp_path / "t", rows_of(200, 7))
    staged = staged.withColumn("extraction_seq", F.lit(1))
    left_to_spark = []

    def measure_rest(staged, drift, only):
        left_to_spark.append(drift)
        return measure_profiles(staged, drift, only)

    monkeypatch.setattr(drift_features, "measure_profiles", measure_rest)
    by_t = {"name": "by_t", "expr": "d", "by": "t"}
    mixed = DriftSpec.model_validate({"features": ["d", "n", by_t, *(["t"] if declares_t else [])], "slices": slices})
    plain = staged.select(*[name for name in staged.columns if name != "extraction_seq"])
    stored = find_stored_rows(spark.read.parquet(str(tmp_path / "t")), numbers)
    assert find_stored_rows(plain, numbers) is None, "a frame with columns of its own has other values than its files"
    by_both, _ = measure_features(staged, mixed, BATCH, stored)
    left = {feature.name for feature in left_to_spark[0].features}
    assert left == ({"by_t", "t"} if slices or declares_t else {"by_t"})
    by_spark, _ = measure_features(staged, mixed, BATCH)
    ours, theirs = ({each.key: each for each in measured[BATCH]} for measured in (by_both, by_spark))
    slices_of_both = [measured.pop(key) for measured in (ours, theirs) for key in list(measured) if key[0] == SLICES]
    assert bool(slices_of_both) == slices
    assert_alike(ours, theirs)


@pytest.mark.parametrize(
    ("features", "chosen"),
    [
        (["d", "n", "t"], ["d", "n"]),
        (["d", "odd"], []),  # of more digits than a double has
        (["d", {"name": "twice", "expr": "d * 2"}], []),
        ([{"name": "by_t", "expr": "d", "by": "t"}, "n"], ["n"]),
        ([{"name": "a", "expr": "`d`"}, {"name": "b", "expr": "d"}], ["a", "b"]),
        ([{"name": "t", "expr": "`t`"}, "n"], ["n"]),
        ([{"name": "nothing", "expr": "null"}, "n"], []),
        (["n", "ümlaut"], []),  # Spark reads it quoted only
        ([{"name": "a", "expr": "`ümlaut`"}], ["a"]),
        ([{"name": "a", "expr": "`a.b c`"}], ["a"]),
        (["D"], []),  # Spark finds it by another name
        (["t", "yes"], []),
    ],
)
def test_only_plain_columns_are_read(spark, tmp_path, features, chosen):
    frame = spark.createDataFrame(list(rows_of(30, 1)), SCHEMA).selectExpr(
        "*", "d AS `null`", "d AS `ümlaut`", "n AS `a.b c`", "struct(1 AS `b c`) AS a"
    )
    staged = write_once(spark, frame, str(tmp_path / "t"))
    drift = DriftSpec.model_validate({"features": features})
    numbers = choose_numbers(staged, drift)
    assert [each.feature for each in numbers] == chosen
    if chosen:
        stored = find_stored_rows(staged, BatchNumbers(rows_in=30, newest=staged.where("_newest").count()))
        assert stored is not None and profile_files(staged, stored, drift, numbers)


def test_files_with_other_rows_or_too_many_are_left_to_spark(spark, tmp_path, monkeypatch):
    staged, numbers = staged_rows(spark, tmp_path / "t", rows_of(50, 1))
    drift = DriftSpec.model_validate({"features": ["d", "n"]})
    stored, features = find_stored_rows(staged, numbers), choose_numbers(staged, drift)
    assert stored is not None
    assert profile_files(staged, stored, drift, features)
    with monkeypatch.context() as patch:
        patch.setattr(module, "MOST_VALUES", 99)
        assert profile_files(staged, stored, drift, features) is None
    for other in (
        stored._replace(rows=stored.rows + 1),
        stored._replace(published=stored.published - 1),
        stored._replace(files=[*stored.files[1:], f"{stored.files[0]}-gone"]),
        stored._replace(newest="no_such_column"),
        stored._replace(files=[]),
    ):
        assert profile_files(staged, other, drift, features) is None
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1")
    assert profile_files(staged, stored._replace(files=[f"file://{tmp_path}/damaged.parquet"]), drift, features) is None


def test_a_frame_of_spark_connect_is_left_to_spark():
    session = type("Session", (), {"__module__": "pyspark.sql.connect.session"})()
    frame: Any = SimpleNamespace(sparkSession=session)
    assert find_stored_rows(frame, BatchNumbers(rows_in=1, newest=1)) is None
