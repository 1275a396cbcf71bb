"""The rows that drift names, on real Spark: their SQL, and a number's profiles in a slice and beside it.

Belongs here: hostile categories, NULL, NaN, bounds. Does not: which rows are named (decisions/drift).
"""

from datetime import UTC, datetime

import pytest

from lakehouse_assets.checks.drift_rows import CategoryCondition, DriftRows
from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.check_context import gold_context
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.distances import read_ecdf
from lakehouse_assets.measures.slice_rows import measure_slice

HOSTILE = "a'b\"`\\ ${x} -- */ <script>\n\t%s é\u2028" + "x" * 300
BATCH = (datetime(2024, 1, 1, tzinfo=UTC), 1)
CITY = CategoryCondition(name="city", expr=identifier("city"), category=HOSTILE[:200])
SPEC = DriftSpec.model_validate({"features": [{"name": "double", "expr": "2 * v"}, {"name": "city"}]})


def check(**changes):
    fields = {"feature": "double", "value": "2 * v", "shown": "", "low": 1.0, "high": 3.0, "categories": (CITY,)}
    return DriftRows(**{**fields, "rows": 10, "usual": 0.5, "p_value": 0.001, **changes})


@pytest.fixture(scope="module")
def rows(spark):
    cells = [(HOSTILE, v) for v in (0.1, 0.5, 1.0, 1.5, 1.6, float("nan"), float("inf"), None)]
    cells += [("other", 1.0), (None, 1.0), (HOSTILE[:199], 1.0), (HOSTILE.replace("'", ""), 1.0)]
    frame = spark.createDataFrame([(n, *each) for n, each in enumerate(cells)], "n int, city string, v double")
    return frame.selectExpr("*", "TIMESTAMP '2024-01-01T00:00:00Z' AS p_extracted_at", "1 AS extraction_seq", "TRUE AS _newest")


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        ({}, {1, 2, 3}),
        ({"categories": ()}, {1, 2, 3, 8, 9, 10, 11}),
        ({"low": None, "high": None}, {0, 1, 2, 3, 4, 5, 6, 7}),
        ({"low": 2.0, "high": 2.0}, {2}),
        ({"value": "city", "categories": ()}, set()),
    ],
)
def test_the_sql_fails_these_rows_and_no_other(spark, rows, changes, numbers):
    failing = check(**changes).failing(gold_context(()))
    if changes.get("value") == "city":
        failing = failing.replace("CAST((city) AS DOUBLE)", "try_cast(city AS DOUBLE)")
    flags = {row["n"]: row["failing"] for row in rows.selectExpr("n", f"{failing} AS failing").collect()}
    assert {n for n, flag in flags.items() if flag} == numbers
    assert None not in flags.values()


def test_a_check_without_a_condition_would_be_of_all_rows():
    for wrong in ({"low": None}, {"low": None, "high": None, "categories": ()}, {"high": float("nan")}):
        with pytest.raises(ValueError, match="drift_rows needs"):
            check(**wrong)


def test_a_number_in_the_slice_and_beside_it(rows):
    profiles = measure_slice(rows, BATCH, SPEC, "double", [CITY], personal=False)
    assert profiles is not None
    inside, beside = profiles
    assert (inside.rows, inside.valid, beside.rows) == (8, 5, 4)
    ecdf = read_ecdf(inside)
    assert ecdf is not None
    assert ecdf.values.tolist() == [0.2, 1.0, 2.0, 3.0, 3.2]
    nowhere = CITY.model_copy(update={"category": "nowhere"})
    assert measure_slice(rows, BATCH, SPEC, "double", [nowhere], personal=False) is None
    assert measure_slice(rows, BATCH, SPEC, "city", [CITY], personal=False) is None
    broken = CITY.model_copy(update={"expr": "assert_true(v > 1)"})
    assert measure_slice(rows, BATCH, SPEC, "double", [broken], personal=True) is None
