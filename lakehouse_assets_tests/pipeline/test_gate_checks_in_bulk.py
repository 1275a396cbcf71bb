"""The Wall under load and on poor data: a thousand checks, a million failing rows, batches of which little can be said.

Belongs here: that the gate ends, says what is so, and stays bounded where people look. Does not: speed (benchmarks).
"""

import json

import pytest

from lakehouse_assets.orchestration.assets.window_checks import window_results
from lakehouse_assets.queries.quarantine import quarantine_sample
from lakehouse_assets.storage import delta
from lakehouse_assets_tests.support import heal, land, readings, silver, window

# As for users: what is tested here depends on what Spark compiles.
pytestmark = pytest.mark.usefixtures("compiled")

COLUMN = "value"


def outcomes(decision):
    return {o["check"]: o for o in decision.checks}


@pytest.mark.exhaustive(seconds=35)
def test_a_thousand_checks_on_one_table(spark, settings):
    checks = [
        {"check": "in_range", "column": COLUMN, "max": n, "name": f"below_{n}", "severity": "warning"} for n in range(990)
    ]
    checks += [
        {"check": "statistic", "column": COLUMN, "of": "max", "max": n, "name": f"most_{n}", "on_fail": "warn"}
        for n in range(10)
    ]
    spec = readings(checks=checks)
    land(settings, 1, ["a,1,500.5,2024-01-01T00:00:00Z", "b,1,100.5,2024-01-01T00:00:00Z"])
    decision = heal(spark, settings, [1], spec).current[window(1)]
    by_check = outcomes(decision)
    assert len(silver(settings)) == 2
    for n in (0, 100, 101, 500, 501, 989):
        assert by_check[f"below_{n}"]["failed_rows"] == (n < 100.5) + (n < 500.5), n
    assert sum(o["status"] == "failed" for o in by_check.values()) == 501 + 10
    assert len(by_check) == 1000 + 2 + 4  # readable_row, key_not_null, and a cast for each column


@pytest.mark.exhaustive(seconds=60)
def test_a_million_failing_rows(spark, settings):
    """Whole in quarantine; of what people look at, a handful."""
    count = 1_000_000
    land(settings, 1, (f"a{n},1,{500 + n},2024-01-01T00:00:00Z" for n in range(count)))
    spec = readings(supersede="any")
    published = heal(spark, settings, [1], spec)
    decision = published.current[window(1)]
    assert decision.counts.rows_quarantined == count
    assert outcomes(decision)["in_range_value"]["failed_rows"] == count
    row_counts = delta.row_counts(settings.path("quarantine", "readings"))
    assert sum(row_counts["num_records"].to_pylist()) == count
    assert {name: len(values) for name, values in published.samples.items()} == {"in_range_value": 5}
    assert len(json.dumps(decision.checks)) < 5_000
    results = [each.result for each in window_results(spec, settings, [window(1)], {}).results if each.result]
    assert [result.check_name for result in results if not result.passed] == ["in_range_value"]
    assert max(len(str(result.metadata)) for result in results) < 5_000
    assert len(quarantine_sample(settings, readings(), window(1).start, 7)) == 7


EVERY_FIGURE = [
    {"check": "not_empty"},
    {"check": "row_count", "min": 1},
    {"check": "null_share", "column": COLUMN, "max": 0.5},
    *[{"check": "statistic", "column": COLUMN, "of": of, "min": 0} for of in ("mean", "sum", "stddev", "min", "max", "median")],
    {"check": "metric", "name": "share", "sql": "sum(value) / count(value)", "min": 0},
    {"check": "anomaly", "name": "usual", "sql": "avg(value)", "least": 1},
    {"check": "row_count_ratio", "min": 0.5, "least": 1},
    {"check": "distinct_count", "columns": [COLUMN], "min": 1},
    {"check": "unique", "columns": [COLUMN]},
    {"check": "no_gaps", "column": "hour", "step": 1},
    {"check": "freshness", "column": "updated", "max_age": "2d"},
    {"check": "sql", "name": "none", "sql": "select sensor from batch group by sensor having count(*) > 9"},
]
MOMENTS = {"mean", "sum", "stddev", "share", "usual"}
ALL = {*MOMENTS, "min", "max", "median"}


@pytest.mark.parametrize(
    ("rows", "bad"),
    [
        # Nothing came: what counts rows fails; a figure without a value fails; what looks for trouble finds none.
        ([], {"not_empty", "row_count", "distinct_count", "freshness", *ALL}),
        pytest.param(["a,1,NA", "b,2,NA"], {"null_share", "distinct_count", *ALL}, marks=pytest.mark.exhaustive(seconds=12)),
        # NaN is above all numbers, within no bounds, and makes a mean, a sum and a deviation nothing.
        pytest.param(["a,1,NaN", "b,2,1"], {*MOMENTS, "max", "median"}, marks=pytest.mark.exhaustive(seconds=12)),
        # What is infinite has no place between bounds, though it is above the least.
        pytest.param(["a,1,Infinity", "b,2,1"], {*MOMENTS, "max"}, marks=pytest.mark.exhaustive(seconds=12)),
        pytest.param(
            ["a,1,-Infinity", "b,2,Infinity"], {*MOMENTS, "min", "max", "median"}, marks=pytest.mark.exhaustive(seconds=12)
        ),
        pytest.param(["a,1,1e308", "b,2,1e308"], {*MOMENTS, "unique"}, marks=pytest.mark.exhaustive(seconds=12)),
    ],
    ids=["no rows", "all NULL", "NaN", "infinity", "both infinities", "overflow"],
)
def test_checks_describe_poor_data(spark, settings, rows, bad):
    spec = readings(checks=[{**check, "severity": "info"} for check in EVERY_FIGURE])
    for day in (1, 2):
        land(settings, day, [f"x,{hour},{hour % 3},2024-01-{day:02d}T00:00:00Z" for hour in range(2)])
    land(settings, 3, [f"{row},2024-01-03T00:00:00Z" for row in rows])
    decision = heal(spark, settings, [1, 2, 3], spec).current[window(3)]
    by_check = outcomes(decision)
    assert {name for name, o in by_check.items() if o["status"] == "error"} == set()
    short = {name: name.removeprefix("statistic_").removesuffix("_value").removesuffix("_updated") for name in by_check}
    assert {short[name] for name, o in by_check.items() if o["status"] == "failed"} - {"row_count_ratio"} == bad
    assert decision.verdict == "published_with_warnings"
