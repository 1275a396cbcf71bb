"""Repeated keys of a batch: found by the driver or by Spark, they are the same."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from lakehouse_assets.measures import duplicates
from lakehouse_assets.measures.duplicates import find_repeated_keys

ENDS = st.sampled_from([-(2**63), -1, 0, 1, 2, 2**63 - 1])


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hashes=st.lists(ENDS, max_size=12))
def test_the_driver_finds_what_spark_finds(spark, monkeypatch, hashes):
    rows, repeated = spark.createDataFrame([(each,) for each in hashes], "hash bigint"), Counter(hashes)
    expected = {each for each, count in repeated.items() if count > 1}
    for most_hashes in (len(hashes), len(hashes) - 1):
        monkeypatch.setattr(duplicates, "MOST_HASHES", most_hashes)
        again = find_repeated_keys(rows, F.col("hash"), 10, len(hashes))
        assert len(again) == len(expected) and set(again) == expected


@pytest.mark.parametrize("count", [None, 100])
def test_no_more_are_returned_than_are_asked_for(spark, count):
    rows = spark.range(100).selectExpr("id % 7 AS hash")
    again = find_repeated_keys(rows, F.col("hash"), 3, count)
    assert len(set(again)) == 3 and set(again) <= set(range(7))
